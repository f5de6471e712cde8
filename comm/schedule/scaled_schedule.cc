#include "comm/schedule/scaled_schedule.h"

#include <utility>

#include "base/check.h"

namespace weft {
namespace {

ScheduleGoal Scaled(ScheduleGoal goal, uint64_t factor) {
  goal.count *= factor;
  for (uint64_t& units : goal.blocks)
    units *= factor;
  return goal;
}

class ScaledOps final : public OpStream {
 public:
  ScaledOps(std::unique_ptr<OpStream> ops, uint64_t factor)
      : ops_(std::move(ops)), factor_(factor) {}

  bool Next(ScheduleOp* op) override {
    if (!ops_->Next(op)) return false;
    op->units *= factor_;
    op->to.offset *= factor_;
    for (SourceRun& run : op->from) {
      run.place.offset *= factor_;
      run.stride *= factor_;
    }
    return true;
  }

 private:
  const std::unique_ptr<OpStream> ops_;
  const uint64_t factor_;
};

}  // namespace

ScaledSchedule::ScaledSchedule(std::shared_ptr<const CollectiveSchedule> schedule, uint64_t factor)
    : CollectiveSchedule(Scaled(schedule->goal(), factor)),
      schedule_(std::move(schedule)),
      factor_(factor) {
  WEFT_CHECK(factor >= 1);
}

std::vector<ScratchBuffer> ScaledSchedule::ScratchOf(int participant) const {
  std::vector<ScratchBuffer> scratch = schedule_->ScratchOf(participant);
  for (ScratchBuffer& buffer : scratch)
    buffer.units *= factor_;
  return scratch;
}

std::unique_ptr<OpStream> ScaledSchedule::OpsOf(int participant) const {
  return std::make_unique<ScaledOps>(schedule_->OpsOf(participant), factor_);
}

SentUnits ScaledSchedule::SentBy(int participant) const {
  SentUnits sent = schedule_->SentBy(participant);
  sent.elements *= factor_;
  sent.accumulators *= factor_;
  return sent;
}

}  // namespace weft
