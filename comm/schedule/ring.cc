// Ring: everybody sends to the next participant only. A reduce_scatter takes N-1 levels in which each participant adds its own slice to
// the sum that it hands on, an all_gather N-1 levels in which it hands on what it got; all_reduce is both, and every participant sends
// 2 (N-1)/N of the vector, which is the least that is possible (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms for clusters
// of workstations", 2009).
//
// The sum of slice c begins at participant c + 1 and goes once around to c: the order depends on the slice, so sums are for goals free of
// order. What only moves is right for all.
//
// Ops of participant p, of reductions: for t = 0 to N-2
//   3 t      send the sum of slice p - 1 - t to p + 1: at t = 0 the own slice, then what op 3 (t - 1) + 2 made
//   3 t + 1  receive the sum of slice p - 2 - t into scratch t mod 2
//   3 t + 2  add the own slice to it; at t = N - 2 it is slice p and is the result
// and of gathers, for t = 0 to N-2: send slice p - t, which was made here (t = 0) or has just come; receive slice p - 1 - t.
// With one participant a single reduction, or copy, is left. The own block of an all_gather is copied last.
#include <memory>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/slices.h"

namespace weft {
namespace {

class RingSchedule final : public IndexedSchedule {
 public:
  explicit RingSchedule(const ScheduleGoal& goal)
      : IndexedSchedule(goal),
        n_(goal.participants),
        steps_(static_cast<uint32_t>(goal.participants - 1)) {}

  std::string_view algorithm() const override { return "ring"; }

  uint32_t window() const override { return 2; }

  bool in_place() const override { return true; }

  std::vector<ScratchBuffer> ScratchOf(int) const override {
    if (!goal().Reduces() || n_ == 1) return {};
    // The largest slice: slices differ by one unit.
    const uint64_t units =
        goal().kind == GoalKind::kAllReduce
            ? (goal().count + static_cast<uint64_t>(n_) - 1) / static_cast<uint64_t>(n_)
            : goal().count;
    return {{units, UnitForm::kElement}, {units, UnitForm::kElement}};
  }

  uint32_t OpCount(int) const override {
    if (n_ == 1) return 1;
    return ReduceOps() + (Gathers() ? 2 * steps_ : 0) +
           (goal().kind == GoalKind::kAllGather ? 1 : 0);
  }

  void OpAt(int participant, uint32_t index, ScheduleOp* op) const override {
    if (index < ReduceOps()) {
      FillReduceOp(participant, index, op);
    } else {
      FillGatherOp(participant, index - ReduceOps(), op);
    }
  }

  SentUnits SentBy(int participant) const override {
    SentUnits sent;
    if (Reduces()) sent.elements += Total() - SliceAt(participant).units;
    if (Gathers()) sent.elements += Total() - SliceAt(participant + 1).units;
    return sent;
  }

 private:
  bool Reduces() const { return goal().Reduces(); }

  bool Gathers() const { return goal().kind != GoalKind::kReduceScatter; }

  uint32_t ReduceOps() const {
    if (!Reduces()) return 0;
    return n_ == 1 ? 1 : 3 * steps_;
  }

  uint64_t Total() const {
    return goal().kind == GoalKind::kAllReduce ? goal().count
                                               : goal().count * static_cast<uint64_t>(n_);
  }

  // The slice, or block, that ends at a participant, whose number may be out of range by less than 2 n.
  UnitSlice SliceAt(int participant) const {
    const int number = (participant + 2 * n_) % n_;
    if (goal().kind == GoalKind::kAllReduce) return SliceOf(goal().count, n_, number);
    return {goal().count * static_cast<uint64_t>(number), goal().count};
  }

  void FillReduceOp(int p, uint32_t index, ScheduleOp* op) const {
    const uint32_t t = index / 3;
    const int turn = static_cast<int>(t);
    const UnitSlice sent = SliceAt(p - 1 - turn);
    const UnitSlice taken = SliceAt(p - 2 - turn);
    const UnitPlace slot = {kScratchBuffers + t % 2, 0};
    if (n_ > 1 && index % 3 == 0) {
      op->action = OpAction::kSend;
      op->peer = (p + 1) % n_;
      op->tag = t;
      op->units = sent.units;
      AddSource(op, t == 0 ? UnitPlace{kInputBuffer, sent.begin}
                           : UnitPlace{kScratchBuffers + (t - 1) % 2, 0});
      if (t > 0) AddAfter(op, index - 1);
      return;
    }
    if (n_ > 1 && index % 3 == 1) {
      op->action = OpAction::kRecv;
      op->peer = (p + n_ - 1) % n_;
      op->tag = t;
      op->units = taken.units;
      op->to = slot;
      // What lay there was sent in the step before this one.
      if (t > 1) AddAfter(op, index - 4);
      return;
    }
    const bool last = t + 1 >= steps_;
    op->action = OpAction::kReduce;
    op->stage = last ? SumStage::kFinal : SumStage::kPartial;
    op->units = n_ == 1 ? Total() : taken.units;
    op->to = !last ? slot
                   : UnitPlace{kOutputBuffer,
                               goal().kind == GoalKind::kAllReduce ? SliceAt(p).begin : 0};
    if (n_ > 1) {
      AddSource(op, slot);
      AddAfter(op, index - 1);
    }
    AddSource(op, {kInputBuffer, n_ == 1 ? 0 : taken.begin});
  }

  void FillGatherOp(int p, uint32_t index, ScheduleOp* op) const {
    const uint32_t first = ReduceOps();
    const bool blocks = goal().kind == GoalKind::kAllGather;
    if (index == 2 * steps_) {
      op->units = goal().count;
      op->to = {kOutputBuffer, SliceAt(p).begin};
      AddSource(op, {kInputBuffer, 0});
      return;
    }
    const uint32_t t = index / 2;
    const int turn = static_cast<int>(t);
    op->tag = steps_ + t;
    if (index % 2 == 0) {
      const UnitSlice sent = SliceAt(p - turn);
      op->action = OpAction::kSend;
      op->peer = (p + 1) % n_;
      op->units = sent.units;
      AddSource(
          op, t == 0 && blocks ? UnitPlace{kInputBuffer, 0} : UnitPlace{kOutputBuffer, sent.begin});
      if (t > 0 || !blocks) AddAfter(op, first + index - 1);
      return;
    }
    const UnitSlice taken = SliceAt(p - 1 - turn);
    op->action = OpAction::kRecv;
    op->peer = (p + n_ - 1) % n_;
    op->units = taken.units;
    op->to = {kOutputBuffer, taken.begin};
  }

  const int n_;
  const uint32_t steps_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeRingSchedule(const ScheduleGoal& goal) {
  const bool adds = goal.kind == GoalKind::kAllReduce || goal.kind == GoalKind::kReduceScatter;
  const bool one_vector_each = goal.EffectiveOrder().IsCanonicalOfRanks();
  if (adds ? !goal.order_free || !one_vector_each : goal.kind != GoalKind::kAllGather)
    return nullptr;
  return std::make_unique<RingSchedule>(goal);
}

}  // namespace weft
