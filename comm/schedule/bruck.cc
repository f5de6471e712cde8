// Bruck's all_gather: ceil(log2 N) levels for every N. In step t a participant sends the first min(2^t, N - 2^t) of the blocks that it
// has to p - 2^t and receives as many from p + 2^t, so that it then has the blocks of p, p + 1, ... (Bruck et al., "Efficient algorithms
// for all-to-all communications in multiport message-passing systems", 1997). Blocks are collected in that order and turned into place at
// the end. Without blocks it is the dissemination barrier (Hensgen, Finkel and Manber, 1988).
//
// Ops of a participant: copy the own block; for each step send, receive; copy blocks p to N - 1, then 0 to p - 1. A barrier has the steps
// only.
#include <algorithm>
#include <bit>
#include <memory>

#include "comm/schedule/algorithms.h"

namespace weft {
namespace {

class BruckSchedule final : public IndexedSchedule {
 public:
  explicit BruckSchedule(const ScheduleGoal& goal)
      : IndexedSchedule(goal),
        n_(static_cast<uint32_t>(goal.participants)),
        steps_(static_cast<uint32_t>(std::bit_width(n_ - 1))),
        gathers_(goal.kind == GoalKind::kAllGather) {}

  std::string_view algorithm() const override { return "bruck"; }

  uint32_t window() const override { return 2; }

  bool in_place() const override { return gathers_; }

  std::vector<ScratchBuffer> ScratchOf(int) const override {
    if (!gathers_) return {};
    return {{goal().count * n_, UnitForm::kElement}};
  }

  uint32_t OpCount(int) const override { return 2 * steps_ + (gathers_ ? 3 : 0); }

  void OpAt(int participant, uint32_t index, ScheduleOp* op) const override {
    const auto self = static_cast<uint32_t>(participant);
    const uint32_t first = gathers_ ? 1 : 0;  // op of the first step
    if (gathers_ && index == 0) {
      op->units = goal().count;
      op->to = {kScratchBuffers, 0};
      AddSource(op, {kInputBuffer, 0});
      return;
    }
    if (index >= first + 2 * steps_) {
      const bool wrapped = index > first + 2 * steps_;
      op->units = goal().count * (wrapped ? self : n_ - self);
      op->to = {kOutputBuffer, wrapped ? 0 : goal().count * self};
      AddSource(op, {kScratchBuffers, wrapped ? goal().count * (n_ - self) : 0});
      AddAfterSteps(steps_, op);
      return;
    }
    const uint32_t step = (index - first) / 2;
    const uint32_t distance = 1u << step;
    op->tag = step;
    op->units = gathers_ ? goal().count * std::min(distance, n_ - distance) : 0;
    if ((index - first) % 2 == 0) {
      op->action = OpAction::kSend;
      op->peer = static_cast<int32_t>((self + n_ - distance) % n_);
      AddSource(op, {gathers_ ? kScratchBuffers : kInputBuffer, 0});
      AddAfterSteps(step, op);
    } else {
      op->action = OpAction::kRecv;
      op->peer = static_cast<int32_t>((self + distance) % n_);
      op->to = {gathers_ ? kScratchBuffers : kOutputBuffer, gathers_ ? goal().count * distance : 0};
    }
  }

  SentUnits SentBy(int) const override { return {gathers_ ? goal().count * (n_ - 1) : 0, 0}; }

 private:
  // The own block, and what was received in the first `steps` steps.
  void AddAfterSteps(uint32_t steps, ScheduleOp* op) const {
    const uint32_t first = gathers_ ? 1 : 0;
    if (gathers_) op->after.push_back({0, 1});
    if (steps > 0) op->after.push_back({first + 1, first + 2 * steps, 2});
  }

  const uint32_t n_;
  const uint32_t steps_;
  const bool gathers_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeBruckSchedule(const ScheduleGoal& goal) {
  if (goal.kind != GoalKind::kAllGather && goal.kind != GoalKind::kBarrier) return nullptr;
  return std::make_unique<BruckSchedule>(goal);
}

}  // namespace weft
