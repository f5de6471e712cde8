#include "shard/pipeline/pipeline_json.h"

#include <optional>

#include "base/json_reader.h"
#include "base/text.h"

namespace weft {
namespace {

using enum PipelineActionKind;

constexpr PipelineActionKind kKinds[] = {kForward,        kBackward,       kBackwardInput,
                                         kBackwardWeight, kSendForward,    kReceiveForward,
                                         kSendBackward,   kReceiveBackward};
constexpr uint64_t kCountMax = 1 << 20;
constexpr size_t kElementsMax = 1 << 24;

Json ActionAsJson(const PipelineAction& action) {
  Json json = {NameOf(action.kind), action.microbatch, action.chunk};
  if (IsMessage(action.kind)) json.push_back(action.peer);
  return json;
}

class PipelineReader : public JsonReader {
 public:
  PipelineReader() : JsonReader("the text of the pipeline") {}

  int Count(const Json& json, const char* name) {
    return static_cast<int>(Number(Member(json, name), kCountMax));
  }

  int Small(const Json& json) { return static_cast<int>(Number(json, kCountMax)); }

  PipelineStage Stage(const Json& json) {
    const std::vector<const Json*> pair = List(json, 2, 2);
    if (pair.empty()) return {};
    return {Small(*pair[0]), Small(*pair[1])};
  }

  PipelineAction Action(const Json& json) {
    const std::vector<const Json*> parts = List(json, 3, 4);
    if (parts.empty()) return {};
    const std::string name = Text(*parts[0]);
    std::optional<PipelineActionKind> kind;
    for (const PipelineActionKind one : kKinds) {
      if (name == NameOf(one)) kind = one;
    }
    if (!kind) {
      FailValue(StrCat("\"", name, "\", none of F, B, I, W, SF, RF, SB and RB"));
      return {};
    }
    if ((parts.size() == 4) != IsMessage(*kind)) {
      FailValue(StrCat("of ", parts.size(), " parts: messages have four, others three"));
      return {};
    }
    PipelineAction action = {*kind, Small(*parts[1]), Small(*parts[2])};
    if (IsMessage(*kind)) action.peer = Small(*parts[3]);
    return action;
  }
};

}  // namespace

std::string PipelineAsJson(const PipelineSchedule& schedule) {
  Json routes = Json::array();
  for (const PipelineRoute& route : schedule.routes) {
    Json stages = Json::array();
    for (const PipelineStage& stage : route)
      stages.push_back({stage.rank, stage.chunk});
    routes.push_back(std::move(stages));
  }
  std::string text =
      StrCat("{\n\"format\": ", kPipelineFormatVersion, ",\n\"ranks\": ", schedule.shape.ranks,
             ",\n\"microbatches\": ", schedule.shape.microbatches,
             ",\n\"chunks\": ", schedule.shape.chunks, ",\n\"routes\": ", JsonLine(routes),
             ",\n\"route_of\": ", JsonLine(schedule.route_of), ",\n\"actions\": [");
  for (size_t rank = 0; rank < schedule.actions.size(); rank++) {
    Json actions = Json::array();
    for (const PipelineAction& action : schedule.actions[rank])
      actions.push_back(ActionAsJson(action));
    text += StrCat(rank == 0 ? "\n" : ",\n", JsonLine(actions));
  }
  return text + "\n]\n}\n";
}

absl::StatusOr<PipelineSchedule> PipelineFromJson(std::string_view text) {
  PipelineReader reader;
  const Json json = reader.Parse(text, kPipelineTextBytesMax);
  const int version = reader.Count(json, "format");
  if (reader.ok() && version != kPipelineFormatVersion)
    reader.Fail(StrCat("format ", version, ", not ", kPipelineFormatVersion));
  PipelineSchedule schedule;
  schedule.shape.ranks = reader.Count(json, "ranks");
  schedule.shape.microbatches = reader.Count(json, "microbatches");
  schedule.shape.chunks = reader.Count(json, "chunks");
  for (const Json* route : reader.List(reader.Member(json, "routes"), 1, kElementsMax)) {
    PipelineRoute& stages = schedule.routes.emplace_back();
    for (const Json* stage : reader.List(*route, 1, kElementsMax))
      stages.push_back(reader.Stage(*stage));
  }
  for (const Json* route : reader.List(reader.Member(json, "route_of"), 1, kElementsMax))
    schedule.route_of.push_back(reader.Small(*route));
  for (const Json* rank : reader.List(reader.Member(json, "actions"), 1, kElementsMax)) {
    std::vector<PipelineAction>& actions = schedule.actions.emplace_back();
    for (const Json* action : reader.List(*rank, 0, kElementsMax))
      actions.push_back(reader.Action(*action));
  }
  if (!reader.ok()) return reader.status();
  return schedule;
}

}  // namespace weft
