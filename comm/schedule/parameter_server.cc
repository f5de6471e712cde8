// Parameter server: everybody sends its contribution to one participant, number 0, which adds them and sends everybody the result. The
// server sends and receives N - 1 vectors each, where a ring moves 2 (N-1)/N of one: what this schedule is here for is that comparison
// (Li et al., "Scaling distributed machine learning with the parameter server", 2014).
//
// Ops of the server: receive from 1, 2, ...; add all in one pass; send to 1, 2, ... Of the others: send; receive.
#include <memory>

#include "comm/schedule/algorithms.h"

namespace weft {
namespace {

class ParameterServerSchedule final : public IndexedSchedule {
 public:
  explicit ParameterServerSchedule(const ScheduleGoal& goal)
      : IndexedSchedule(goal), workers_(static_cast<uint32_t>(goal.participants - 1)) {}

  std::string_view algorithm() const override { return "parameter_server"; }

  uint32_t window() const override { return 1; }

  bool in_place() const override { return true; }

  std::vector<ScratchBuffer> ScratchOf(int participant) const override {
    if (participant != 0) return {};
    return {{goal().count * workers_, UnitForm::kElement}};
  }

  uint32_t OpCount(int participant) const override {
    return participant == 0 ? 2 * workers_ + 1 : 2;
  }

  void OpAt(int participant, uint32_t index, ScheduleOp* op) const override {
    op->units = goal().count;
    if (participant != 0) {
      op->action = index == 0 ? OpAction::kSend : OpAction::kRecv;
      op->peer = 0;
      if (index == 0) {
        AddSource(op, {kInputBuffer, 0});
      } else {
        op->to = {kOutputBuffer, 0};
      }
    } else if (index < workers_) {
      op->action = OpAction::kRecv;
      op->peer = static_cast<int32_t>(index + 1);
      op->to = {kScratchBuffers, goal().count * index};
    } else if (index == workers_) {
      op->action = OpAction::kReduce;
      op->stage = SumStage::kFinal;
      op->to = {kOutputBuffer, 0};
      AddSource(op, {kInputBuffer, 0});
      for (uint32_t worker = 0; worker < workers_; ++worker)
        AddSource(op, {kScratchBuffers, goal().count * worker});
      if (workers_ > 0) op->after.push_back({0, workers_});
    } else {
      op->action = OpAction::kSend;
      op->peer = static_cast<int32_t>(index - workers_);
      AddSource(op, {kOutputBuffer, 0});
      AddAfter(op, workers_);
    }
  }

  SentUnits SentBy(int participant) const override {
    return {participant == 0 ? goal().count * workers_ : goal().count, 0};
  }

 private:
  const uint32_t workers_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeParameterServerSchedule(const ScheduleGoal& goal) {
  if (goal.kind != GoalKind::kAllReduce || !goal.EffectiveOrder().IsCanonicalOfRanks())
    return nullptr;
  return std::make_unique<ParameterServerSchedule>(goal);
}

}  // namespace weft
