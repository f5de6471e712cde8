#include "comm/schedule/table_schedule.h"

namespace weft {
namespace {

class StoredOps final : public OpStream {
 public:
  explicit StoredOps(const std::vector<ScheduleOp>& ops) : ops_(ops) {}

  bool Next(ScheduleOp* op) override {
    if (next_ == ops_.size()) return false;
    *op = ops_[next_++];
    return true;
  }

 private:
  const std::vector<ScheduleOp>& ops_;
  size_t next_ = 0;
};

}  // namespace

ScheduleTable TableOf(const CollectiveSchedule& schedule) {
  ScheduleTable table;
  table.algorithm = std::string(schedule.algorithm());
  table.goal = schedule.goal();
  table.window = schedule.window();
  table.in_place = schedule.in_place();
  for (int participant = 0; participant < table.goal.participants; ++participant) {
    TableParticipant& one = table.participants.emplace_back();
    one.scratch = schedule.ScratchOf(participant);
    one.ops = ListOps(schedule, participant);
    one.sent = schedule.SentBy(participant);
    for (ScheduleOp& op : one.ops) {
      if (op.merges.empty()) continue;
      op.merges = table.merges.emplace_back(op.merges.begin(), op.merges.end());
    }
  }
  return table;
}

std::unique_ptr<OpStream> TableSchedule::OpsOf(int participant) const {
  return std::make_unique<StoredOps>(At(participant).ops);
}

}  // namespace weft
