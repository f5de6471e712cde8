#include "comm/schedule/schedule_json.h"

#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/schedule/table_schedule.h"

namespace weft {
namespace {

constexpr std::string_view kBufferNames[] = {"input", "output", "partials"};
constexpr std::string_view kScratchName = "scratch";
constexpr uint64_t kScratchBuffersMax = 1024;
constexpr uint64_t kUnitNumberMax = uint64_t{1} << 60;
constexpr uint64_t kParticipantNumberMax = 1 << 20;
constexpr OpAction kActions[] = {OpAction::kSend, OpAction::kRecv, OpAction::kReduce,
                                 OpAction::kCopy};

std::string BufferName(uint32_t buffer) {
  return buffer < kScratchBuffers ? std::string(kBufferNames[buffer])
                                  : StrCat(kScratchName, buffer - kScratchBuffers);
}

const char* FormName(UnitForm form) {
  return form == UnitForm::kElement ? "element" : "accumulator";
}

Json OpAsJson(const ScheduleOp& op) {
  Json json = {{"op", ActionName(op.action)}};
  if (op.action == OpAction::kSend || op.action == OpAction::kRecv) {
    json["peer"] = op.peer;
    json["tag"] = op.tag;
  }
  if (op.action == OpAction::kReduce)
    json["stage"] = op.stage == SumStage::kFinal ? "final" : "partial";
  json["units"] = op.units;
  if (op.action != OpAction::kSend) json["to"] = {BufferName(op.to.buffer), op.to.offset};
  for (const SourceRun& run : op.from) {
    Json source = {BufferName(run.place.buffer), run.place.offset};
    if (run.count != 1) {
      source.push_back(run.count);
      source.push_back(run.stride);
    }
    json["from"].push_back(std::move(source));
  }
  if (!op.merges.empty()) json["merges"] = std::vector<int>(op.merges.begin(), op.merges.end());
  for (const OpRange& range : op.after) {
    Json after = {range.begin, range.end};
    if (range.step != 1) after.push_back(range.step);
    json["after"].push_back(std::move(after));
  }
  return json;
}

Json GoalAsJson(const ScheduleGoal& goal) {
  Json json = {
      {"kind", GoalName(goal.kind)}, {"participants", goal.participants}, {"count", goal.count}};
  if (goal.HasRoot()) json["root"] = goal.root;
  if (!goal.blocks.empty()) json["blocks"] = goal.blocks;
  if (goal.Reduces()) json["order"] = goal.order_free ? "free" : "fixed";
  if (goal.order.pieces() == 0 || goal.order.IsCanonicalOfRanks()) return json;
  for (int piece = 0; piece < goal.order.pieces(); ++piece)
    json["pieces"].push_back({goal.order.HolderOf(piece), FormName(goal.order.FormOf(piece))});
  json["merges"] = std::vector<int>(goal.order.merges().begin(), goal.order.merges().end());
  return json;
}

class ScheduleReader : public JsonReader {
 public:
  ScheduleReader() : JsonReader("the text of the schedule") {}

  UnitForm Form(const Json& json) {
    const std::string text = Text(json);
    if (text != "element" && text != "accumulator")
      Fail(StrCat("\"", text, "\" in place of element or accumulator"));
    return text == "accumulator" ? UnitForm::kAccumulator : UnitForm::kElement;
  }

  uint32_t Buffer(const Json& json) {
    const std::string text = Text(json);
    for (uint32_t buffer = 0; buffer < kScratchBuffers; ++buffer) {
      if (text == kBufferNames[buffer]) return buffer;
    }
    uint32_t number = 0;
    if (text.starts_with(kScratchName)) {
      const char* const begin = text.data() + kScratchName.size();
      const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
      if (error == std::errc() && end == text.data() + text.size() && number < kScratchBuffersMax)
        return kScratchBuffers + number;
    }
    Fail(StrCat("no buffer called \"", text, "\""));
    return kInputBuffer;
  }

  std::vector<uint8_t> Merges(const Json& json) {
    std::vector<uint8_t> merges;
    for (const Json* const one : List(json, 1, kParticipantNumberMax))
      merges.push_back(static_cast<uint8_t>(Number(*one, std::numeric_limits<uint8_t>::max())));
    return merges;
  }
};

ScheduleGoal ReadGoal(ScheduleReader* reader, const Json& json) {
  ScheduleGoal goal;
  const std::string kind = reader->Text(reader->Member(json, "kind"));
  bool known = false;
  for (const GoalKind one : kGoalKinds) {
    if (GoalName(one) != kind) continue;
    goal.kind = one;
    known = true;
  }
  if (!known) reader->Fail(StrCat("no goal called \"", kind, "\""));
  goal.participants =
      static_cast<int>(reader->Number(reader->Member(json, "participants"), kParticipantNumberMax));
  goal.count = reader->Number(reader->Member(json, "count"), kUnitNumberMax);
  if (goal.HasRoot())
    goal.root =
        static_cast<int>(reader->Number(reader->Member(json, "root"), kParticipantNumberMax));
  const Json& blocks = reader->Member(json, "blocks", /*optional=*/true);
  if (!blocks.is_null()) {
    for (const Json* const units : reader->List(blocks, 1, kParticipantNumberMax))
      goal.blocks.push_back(reader->Number(*units, kUnitNumberMax));
  }
  if (goal.Reduces()) {
    const std::string order = reader->Text(reader->Member(json, "order"));
    if (order != "free" && order != "fixed")
      reader->Fail(StrCat("\"", order, "\" in place of free or fixed"));
    goal.order_free = order == "free";
  }
  const Json& listed = reader->Member(json, "pieces", /*optional=*/true);
  if (!reader->ok() || listed.is_null()) return goal;
  std::vector<OrderPiece> pieces;
  for (const Json* const piece : reader->List(listed, 1, kParticipantNumberMax)) {
    const std::vector<const Json*> parts = reader->List(*piece, 2, 2);
    if (!reader->ok()) return goal;
    pieces.push_back({static_cast<int32_t>(reader->Number(*parts[0], kParticipantNumberMax)),
                      reader->Form(*parts[1])});
  }
  std::vector<uint8_t> merges = reader->Merges(reader->Member(json, "merges"));
  if (!reader->ok()) return goal;
  absl::StatusOr<ReductionOrder> order =
      ReductionOrder::Create(goal.participants, std::move(pieces), std::move(merges));
  if (order.ok()) {
    goal.order = *std::move(order);
  } else {
    reader->Fail(FromAbsl(order.status().message()));
  }
  return goal;
}

UnitPlace ReadPlace(ScheduleReader* reader, const Json& buffer, const Json& offset) {
  return {reader->Buffer(buffer), reader->Number(offset, kUnitNumberMax)};
}

void ReadSources(ScheduleReader* reader, const Json& json, ScheduleOp* op) {
  for (const Json* const source : reader->List(json, 1, kParticipantNumberMax)) {
    const std::vector<const Json*> parts = reader->List(*source, 2, 4);
    if (!reader->ok()) return;
    SourceRun run = {.place = ReadPlace(reader, *parts[0], *parts[1])};
    if (parts.size() > 2) {
      if (parts.size() != 4) reader->Fail("a source with a count and no stride");
      run.count = static_cast<uint32_t>(reader->Number(*parts[2], kParticipantNumberMax));
      if (parts.size() == 4) run.stride = reader->Number(*parts[3], kUnitNumberMax);
    }
    op->from.push_back(run);
  }
}

void ReadAfter(ScheduleReader* reader, const Json& json, ScheduleOp* op) {
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  for (const Json* const range : reader->List(json, 1, kParticipantNumberMax)) {
    const std::vector<const Json*> parts = reader->List(*range, 2, 3);
    if (!reader->ok()) return;
    OpRange after = {static_cast<uint32_t>(reader->Number(*parts[0], kMost)),
                     static_cast<uint32_t>(reader->Number(*parts[1], kMost))};
    if (parts.size() == 3) after.step = static_cast<uint32_t>(reader->Number(*parts[2], kMost));
    op->after.push_back(after);
  }
}

ScheduleOp ReadOp(ScheduleReader* reader, const Json& json, ScheduleTable* table) {
  ScheduleOp op;
  const std::string action = reader->Text(reader->Member(json, "op"));
  bool known = false;
  for (const OpAction one : kActions) {
    if (ActionName(one) != action) continue;
    op.action = one;
    known = true;
  }
  if (!known) reader->Fail(StrCat("no op called \"", action, "\""));
  op.units = reader->Number(reader->Member(json, "units"), kUnitNumberMax);
  if (op.action == OpAction::kSend || op.action == OpAction::kRecv) {
    op.peer =
        static_cast<int32_t>(reader->Number(reader->Member(json, "peer"), kParticipantNumberMax));
    op.tag = reader->Number(reader->Member(json, "tag"), std::numeric_limits<uint64_t>::max());
  }
  if (op.action == OpAction::kReduce) {
    const std::string stage = reader->Text(reader->Member(json, "stage"));
    if (stage != "final" && stage != "partial")
      reader->Fail(StrCat("\"", stage, "\" in place of final or partial"));
    op.stage = stage == "final" ? SumStage::kFinal : SumStage::kPartial;
    const Json& merges = reader->Member(json, "merges", /*optional=*/true);
    if (!merges.is_null()) op.merges = table->merges.emplace_back(reader->Merges(merges));
  }
  if (op.action != OpAction::kSend) {
    const std::vector<const Json*> to = reader->List(reader->Member(json, "to"), 2, 2);
    if (reader->ok()) op.to = ReadPlace(reader, *to[0], *to[1]);
  }
  if (op.action != OpAction::kRecv) ReadSources(reader, reader->Member(json, "from"), &op);
  const Json& after = reader->Member(json, "after", /*optional=*/true);
  if (!after.is_null()) ReadAfter(reader, after, &op);
  return op;
}

TableParticipant ReadParticipant(ScheduleReader* reader, const Json& json, ScheduleTable* table) {
  TableParticipant one;
  for (const Json* const scratch :
       reader->List(reader->Member(json, "scratch"), 0, kScratchBuffersMax)) {
    const std::vector<const Json*> parts = reader->List(*scratch, 2, 2);
    if (!reader->ok()) return one;
    one.scratch.push_back({reader->Number(*parts[0], kUnitNumberMax), reader->Form(*parts[1])});
  }
  const std::vector<const Json*> sends = reader->List(reader->Member(json, "sends"), 2, 2);
  if (!reader->ok()) return one;
  one.sent = {reader->Number(*sends[0], kUnitNumberMax), reader->Number(*sends[1], kUnitNumberMax)};
  for (const Json* const op : reader->List(reader->Member(json, "ops"), 0, kScheduleTextBytesMax)) {
    if (!reader->ok()) return one;
    one.ops.push_back(ReadOp(reader, *op, table));
  }
  return one;
}

}  // namespace

std::string ScheduleAsJson(const CollectiveSchedule& schedule) {
  std::string text = StrCat(
      "{\"version\":", kScheduleFormatVersion,
      ",\"algorithm\":", JsonLine(std::string(schedule.algorithm())),
      ",\n\"goal\":", JsonLine(GoalAsJson(schedule.goal())), ",\n\"window\":", schedule.window(),
      ",\"in_place\":", schedule.in_place() ? "true" : "false", ",\n\"participants\":[");
  for (int participant = 0; participant < schedule.goal().participants; ++participant) {
    Json scratch = Json::array();
    for (const ScratchBuffer& buffer : schedule.ScratchOf(participant))
      scratch.push_back({buffer.units, FormName(buffer.form)});
    const SentUnits sent = schedule.SentBy(participant);
    text += StrCat(participant == 0 ? "\n" : ",\n", "{\"scratch\":", JsonLine(scratch),
                   ",\"sends\":[", sent.elements, ",", sent.accumulators, "],\"ops\":[");
    bool first = true;
    const std::unique_ptr<OpStream> stream = schedule.OpsOf(participant);
    for (ScheduleOp op; stream->Next(&op); first = false)
      text += StrCat(first ? "\n" : ",\n", JsonLine(OpAsJson(op)));
    text += "]}";
  }
  return text + "]}\n";
}

absl::StatusOr<std::unique_ptr<CollectiveSchedule>> ScheduleFromJson(std::string_view text) {
  ScheduleReader reader;
  const Json json = reader.Parse(text, kScheduleTextBytesMax);
  const Json& version = reader.Member(json, "version");
  if (reader.ok() && version != kScheduleFormatVersion) reader.Fail("another format version");
  ScheduleTable table;
  table.algorithm = reader.Text(reader.Member(json, "algorithm"));
  table.goal = ReadGoal(&reader, reader.Member(json, "goal"));
  table.window = static_cast<uint32_t>(
      reader.Number(reader.Member(json, "window"), std::numeric_limits<uint32_t>::max()));
  table.in_place = reader.Flag(reader.Member(json, "in_place"));
  if (reader.ok()) {
    const auto participants = static_cast<size_t>(table.goal.participants);
    for (const Json* const one :
         reader.List(reader.Member(json, "participants"), participants, participants)) {
      if (!reader.ok()) break;
      table.participants.push_back(ReadParticipant(&reader, *one, &table));
    }
  }
  if (!reader.ok()) return reader.status();
  return std::make_unique<TableSchedule>(std::move(table));
}

std::string ScheduleHash(const CollectiveSchedule& schedule) {
  Sha256 hash;
  hash.Update(ScheduleAsJson(schedule));
  std::string digits;
  for (const uint8_t byte : hash.Finish()) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    digits += kDigits[byte >> 4];
    digits += kDigits[byte & 15];
  }
  return digits;
}

}  // namespace weft
