#include "shard/pipeline/pipeline_schedule.h"

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

constexpr const char* kActionNames[] = {"F", "B", "I", "W", "SF", "RF", "SB", "RB"};

bool GoesDown(PipelineActionKind kind) {
  return kind == PipelineActionKind::kForward;
}

bool GoesUp(PipelineActionKind kind) {
  return kind == PipelineActionKind::kBackward || kind == PipelineActionKind::kBackwardInput;
}

}  // namespace

const char* NameOf(PipelineActionKind kind) {
  return kActionNames[static_cast<size_t>(kind)];
}

std::string Describe(const PipelineAction& action) {
  std::string text = absl::StrCat(NameOf(action.kind), " ", action.microbatch);
  if (action.chunk > 0) absl::StrAppend(&text, " of chunk ", action.chunk);
  if (IsSend(action.kind)) absl::StrAppend(&text, " to rank ", action.peer);
  if (IsReceive(action.kind)) absl::StrAppend(&text, " from rank ", action.peer);
  return text;
}

int PipelineSchedule::StopOf(int rank, const PipelineAction& action) const {
  const PipelineRoute& route = RouteOf(action.microbatch);
  const PipelineStage stage = {rank, action.chunk};
  for (size_t stop = 0; stop < route.size(); stop++) {
    if (route[stop] == stage) return static_cast<int>(stop);
  }
  return -1;
}

std::vector<PipelineAction> WithMessages(const PipelineSchedule& schedule, int rank,
                                         const std::vector<PipelineAction>& computing) {
  using enum PipelineActionKind;
  std::vector<PipelineAction> all;
  for (const PipelineAction& action : computing) {
    const PipelineRoute& route = schedule.RouteOf(action.microbatch);
    const int stop = schedule.StopOf(rank, action);
    // The rank that stands at `other`, if messages go there.
    const auto add = [&](PipelineActionKind kind, int other) {
      if (other < 0 || other >= static_cast<int>(route.size())) return;
      const int peer = route[static_cast<size_t>(other)].rank;
      if (peer != rank) all.push_back({kind, action.microbatch, action.chunk, peer});
    };
    if (GoesDown(action.kind)) add(kReceiveForward, stop - 1);
    if (GoesUp(action.kind)) add(kReceiveBackward, stop + 1);
    all.push_back(action);
    if (GoesDown(action.kind)) add(kSendForward, stop + 1);
    if (GoesUp(action.kind)) add(kSendBackward, stop - 1);
  }
  return all;
}

}  // namespace weft
