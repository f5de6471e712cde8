// Broadcast of large vectors as a scatter of slices along a binomial tree and an all_gather of them around a ring: the root sends less than
// two vectors, whatever the number of participants (van de Geijn; Barnett et al., "Interprocessor collective communication library", 1994).
//
// A participant that deals slices out has those of its subtree already, so the ring leaves out what the next participant has.
//
// Ops of participant p: unless it is the root, receive the slices of its subtree; send each subtree below its own; for t = 0 to N-2 send
// slice p - t to p + 1 and receive slice p - 1 - t, each only if the receiver has not got it by the scatter. The root copies to its output.
#include <memory>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/rooted_path.h"
#include "comm/schedule/slices.h"

namespace weft {
namespace {

class ScatterGatherSchedule final : public CollectiveSchedule {
 public:
  explicit ScatterGatherSchedule(const ScheduleGoal& goal)
      : CollectiveSchedule(goal), order_(goal.participants) {}

  std::string_view algorithm() const override { return "scatter_gather"; }

  uint32_t window() const override { return 2; }

  bool in_place() const override { return true; }

  std::vector<ScratchBuffer> ScratchOf(int) const override { return {}; }

  std::unique_ptr<OpStream> OpsOf(int participant) const override;

  SentUnits SentBy(int participant) const override {
    const RootedPath path = PathOf(participant);
    SentUnits sent;
    for (int level = 1; level <= path.headed(); ++level)
      sent.elements += Slices(path.SubtreeAt(level)).units;
    // All slices but the next one's own come by; those of its subtree it has.
    if (goal().participants > 1)
      sent.elements +=
          goal().count - Slices(PathOf((participant + 1) % goal().participants).Own()).units;
    return sent;
  }

  RootedPath PathOf(int participant) const { return RootedPath(order_, participant, goal().root); }

  UnitSlice Slices(const OrderVertex& subtree) const {
    return SlicesOf(goal().count, goal().participants, subtree.first, subtree.count);
  }

 private:
  const ReductionOrder order_;
};

class ScatterGatherOps final : public OpStream {
 public:
  ScatterGatherOps(const ScatterGatherSchedule& schedule, int participant)
      : schedule_(schedule),
        self_(participant),
        next_((participant + 1) % schedule.goal().participants),
        path_(schedule.PathOf(participant)),
        own_(path_.Own()),
        next_own_(schedule.PathOf(next_).Own()),
        level_(path_.headed()) {}

  bool Next(ScheduleOp* op) override {
    const bool found = NextOfScatter(op) || NextOfRing(op) || NextOfCopy(op);
    if (found) ++number_;
    return found;
  }

 private:
  static bool Has(const OrderVertex& subtree, int slice) {
    return slice >= subtree.first && slice < subtree.first + subtree.count;
  }

  bool IsRoot() const { return path_.parent() < 0; }

  void FillMessage(OpAction action, int peer, uint64_t tag, const UnitSlice& part,
                   ScheduleOp* op) const {
    op->Clear();
    op->action = action;
    op->peer = peer;
    op->tag = tag;
    op->units = part.units;
    if (action == OpAction::kSend) {
      AddSource(op, {IsRoot() ? kInputBuffer : kOutputBuffer, part.begin});
    } else {
      op->to = {kOutputBuffer, part.begin};
    }
  }

  bool NextOfScatter(ScheduleOp* op) {
    if (!received_ && !IsRoot()) {
      received_ = true;
      FillMessage(OpAction::kRecv, path_.parent(), 0, schedule_.Slices(own_), op);
      return true;
    }
    if (level_ == 0) return false;
    FillMessage(OpAction::kSend, path_.ChildAt(level_), 0,
                schedule_.Slices(path_.SubtreeAt(level_)), op);
    if (!IsRoot()) AddAfter(op, 0);
    --level_;
    return true;
  }

  bool NextOfRing(ScheduleOp* op) {
    const int n = schedule_.goal().participants;
    for (; step_ < 2 * (n - 1);) {
      const int turn = step_ / 2;
      const bool sends = step_++ % 2 == 0;
      const int slice = (self_ - turn + n - (sends ? 0 : 1)) % n;
      if (Has(sends ? next_own_ : own_, slice)) continue;
      const int peer = sends ? next_ : (self_ + n - 1) % n;
      FillMessage(sends ? OpAction::kSend : OpAction::kRecv, peer, static_cast<uint64_t>(turn) + 1,
                  SliceOf(schedule_.goal().count, n, slice), op);
      if (!sends) {
        last_received_ = number_;
      } else if (!IsRoot()) {
        AddAfter(op, Has(own_, slice) ? 0 : last_received_);
      }
      return true;
    }
    return false;
  }

  bool NextOfCopy(ScheduleOp* op) {
    if (!IsRoot() || copied_) return false;
    copied_ = true;
    op->Clear();
    op->units = schedule_.goal().count;
    op->to = {kOutputBuffer, 0};
    AddSource(op, {kInputBuffer, 0});
    return true;
  }

  const ScatterGatherSchedule& schedule_;
  const int self_;
  const int next_;
  const RootedPath path_;
  const OrderVertex own_;       // whose slices this participant gets by the scatter
  const OrderVertex next_own_;  // and the next one
  int level_;                   // of the subtree to be served
  int step_ = 0;                // of the ring: twice the turn, plus one for the receive
  bool received_ = false;
  bool copied_ = false;
  uint32_t number_ = 0;
  uint32_t last_received_ = 0;
};

static_assert(sizeof(ScatterGatherOps) <= 4096);

std::unique_ptr<OpStream> ScatterGatherSchedule::OpsOf(int participant) const {
  return std::make_unique<ScatterGatherOps>(*this, participant);
}

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeScatterGatherSchedule(const ScheduleGoal& goal) {
  if (goal.kind != GoalKind::kBroadcast) return nullptr;
  return std::make_unique<ScatterGatherSchedule>(goal);
}

}  // namespace weft
