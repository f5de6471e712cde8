// Tree halving: an all_reduce in which every participant sends (N-1)/N of the vector until the sums are formed, for every N, in
// ceil(log2 N) levels, with sums in canonical order. Recursive halving (Rabenseifner, "Optimization of collective reduction operations",
// 2004) does that for powers of two, with nearest participants first; other numbers of participants it folds into a power of two, which
// costs another vector on the wire and changes the order. Here the vertices of the tree are cut in proportion instead: halving_walk.h.
//
// The reduced parts are gathered on the same way back: who has kept a part at a vertex and who has sent it exchange the two results. A
// participant sends what it holds at each level, 1/v of the vector at a vertex of v leaves: (N-1)/N of it for powers of two, at most a
// quarter of that more for others (N = 3: 5/6), and (N-1)/N on average.
//
// Ops of a participant: level by level from below, ascending by place, for each overlap
//   send what the peer keeps; receive what is kept; add it to the own part of it
// and then level by level from above
//   send the result of what was kept; receive the result of what was sent.
// A part that is sent on the way back is complete when all exchanges above it are: they stand side by side in the list.
#include <memory>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/halving_walk.h"
#include "comm/schedule/order_path.h"
#include "comm/schedule/tree_halving_scatter.h"

namespace weft {
namespace {

// Scratch: the sums that this participant has formed so far, each at its place in the vector; what was received, in the order in which it
// is.
constexpr uint32_t kHalvingSums = kScratchBuffers;
constexpr uint32_t kHalvingElements = kScratchBuffers + 1;
constexpr uint32_t kHalvingAccumulators = kScratchBuffers + 2;

// Units that a participant has and moves at all levels together.
struct HalvingTotals {
  uint64_t sent_first = 0;  // at level 1
  uint64_t sent_later = 0;  // at the others
  uint64_t received_elements = 0;
  uint64_t received_accumulators = 0;
  uint64_t kept = 0;  // of all levels together
};

class TreeHalvingSchedule final : public CollectiveSchedule {
 public:
  explicit TreeHalvingSchedule(const ScheduleGoal& goal)
      : CollectiveSchedule(goal), order_(goal.EffectiveOrder()) {}

  std::string_view algorithm() const override { return "tree_halving"; }

  uint32_t window() const override { return 2; }

  bool in_place() const override { return HasPlaceInPlace(goal()); }

  std::vector<ScratchBuffer> ScratchOf(int participant) const override {
    const HalvingTotals totals = TotalsOf(participant);
    const uint64_t sums = LevelsOf(participant) > 1 ? goal().count : 0;
    return {{sums, UnitForm::kAccumulator},
            {totals.received_elements, UnitForm::kElement},
            {totals.received_accumulators, UnitForm::kAccumulator}};
  }

  std::unique_ptr<OpStream> OpsOf(int participant) const override;

  SentUnits SentBy(int participant) const override {
    const HalvingTotals totals = TotalsOf(participant);
    SentUnits sent = {.elements = totals.kept, .accumulators = totals.sent_later};
    (order_.FormOf(LeafOf(participant)) == UnitForm::kElement ? sent.elements
                                                              : sent.accumulators) +=
        totals.sent_first;
    return sent;
  }

  const ReductionOrder& order() const { return order_; }

  int LeafOf(int participant) const { return order_.PieceOf(participant, 0); }

 private:
  int LevelsOf(int participant) const { return OrderPath(order_, LeafOf(participant)).levels(); }

  HalvingTotals TotalsOf(int participant) const {
    const OrderPath path(order_, LeafOf(participant));
    HalvingWalk walk(order_, goal().count, path);
    HalvingTotals totals;
    for (int level = 1; level <= path.levels(); ++level) {
      walk.Start(level);
      const bool elements = order_.SumFormOf(path.At(level).sibling) == UnitForm::kElement;
      for (HalvingOverlap overlap; walk.Next(&overlap);) {
        (level == 1 ? totals.sent_first : totals.sent_later) += overlap.sent.units;
        (elements ? totals.received_elements : totals.received_accumulators) += overlap.kept.units;
        totals.kept += overlap.kept.units;
      }
    }
    return totals;
  }

  const ReductionOrder order_;
};

class TreeHalvingOps final : public OpStream {
 public:
  TreeHalvingOps(const TreeHalvingSchedule& schedule, int participant)
      : schedule_(schedule),
        leaf_(schedule.LeafOf(participant)),
        path_(schedule.order(), leaf_),
        walk_(schedule.order(), schedule.goal().count, path_),
        above_(schedule.order(), schedule.goal().count, path_) {}

  bool Next(ScheduleOp* op) override;

 private:
  enum class Phase : uint8_t { kAlone, kReduce, kGather, kEnd };
  enum class Part : uint8_t { kNone, kSend, kRecv, kReduce };

  bool NextOfReduce(ScheduleOp* op);
  bool NextOfGather(ScheduleOp* op);
  void FillAlone(ScheduleOp* op) const;
  void FillMessage(OpAction action, const UnitSlice& part, ScheduleOp* op) const;
  void FillReduction(ScheduleOp* op);
  // What this participant has of the sum below the level.
  UnitPlace OwnSum(uint64_t begin) const;
  UnitPlace Received(bool next) const;
  void AddAfterAllAbove(ScheduleOp* op);

  const TreeHalvingSchedule& schedule_;
  const int leaf_;
  const OrderPath path_;
  HalvingWalk walk_;
  HalvingWalk above_;  // on the way back: the level above that of walk_
  Phase phase_ = Phase::kAlone;
  Part part_ = Part::kNone;  // of the overlap that was made last
  int level_ = 0;
  HalvingOverlap overlap_;
  uint64_t received_[2] = {};  // units so far, by form
  uint32_t number_ = 0;        // of the op to come
  uint32_t level_begin_ = 0;   // on the way back: number of the first op of walk_'s level
  uint32_t above_next_ = 0;    // number of the op that above_'s next overlap begins with
};

UnitPlace TreeHalvingOps::OwnSum(uint64_t begin) const {
  if (level_ > 1) return {kHalvingSums, begin};
  return {schedule_.order().FormOf(leaf_) == UnitForm::kElement ? kInputBuffer : kPartialsBuffer,
          begin};
}

UnitPlace TreeHalvingOps::Received(bool next) const {
  const auto form = static_cast<uint32_t>(schedule_.order().SumFormOf(path_.At(level_).sibling));
  return {kHalvingElements + form, received_[form] - (next ? 0 : overlap_.kept.units)};
}

void TreeHalvingOps::FillMessage(OpAction action, const UnitSlice& part, ScheduleOp* op) const {
  op->Clear();
  op->action = action;
  op->peer = schedule_.order().HolderOf(overlap_.peer_leaf);
  // Two participants meet at one vertex only, and each part of the vector is sent up and back at most once between them.
  op->tag = part.begin;
  op->units = part.units;
}

void TreeHalvingOps::FillReduction(ScheduleOp* op) {
  const bool last = level_ == path_.levels();
  const UnitPlace own = OwnSum(overlap_.kept.begin);
  const UnitPlace received = Received(/*next=*/false);
  op->Clear();
  op->action = OpAction::kReduce;
  op->stage = last ? SumStage::kFinal : SumStage::kPartial;
  op->units = overlap_.kept.units;
  op->to = {last ? kOutputBuffer : kHalvingSums, overlap_.kept.begin};
  const bool on_left = path_.At(level_).on_left;
  op->from.push_back({on_left ? own : received});
  op->from.push_back({on_left ? received : own});
  if (overlap_.made_by != HalvingOverlap::kNoOp) AddAfter(op, overlap_.made_by);
  AddAfter(op, number_ - 1);
}

bool TreeHalvingOps::NextOfReduce(ScheduleOp* op) {
  while (true) {
    if (part_ == Part::kNone || part_ == Part::kReduce) {
      while (level_ == 0 || !walk_.Next(&overlap_)) {
        if (level_ == path_.levels()) return false;
        walk_.Start(++level_);
      }
      part_ = Part::kNone;
    }
    part_ = static_cast<Part>(static_cast<int>(part_) + 1);
    if (part_ == Part::kSend && overlap_.sent.units > 0) {
      FillMessage(OpAction::kSend, overlap_.sent, op);
      op->from.push_back({OwnSum(overlap_.sent.begin)});
      if (overlap_.made_by != HalvingOverlap::kNoOp) AddAfter(op, overlap_.made_by);
      return true;
    }
    if (part_ == Part::kRecv && overlap_.kept.units > 0) {
      FillMessage(OpAction::kRecv, overlap_.kept, op);
      op->to = Received(/*next=*/true);
      received_[op->to.buffer - kHalvingElements] += overlap_.kept.units;
      return true;
    }
    if (part_ == Part::kReduce && overlap_.kept.units > 0) {
      FillReduction(op);
      return true;
    }
  }
}

// The exchanges above that make up what is kept of the overlap.
void TreeHalvingOps::AddAfterAllAbove(ScheduleOp* op) {
  const uint32_t begin = above_next_;
  for (HalvingOverlap above; above_.Next(&above);) {
    above_next_ += (above.kept.units > 0 ? 1 : 0) + (above.sent.units > 0 ? 1 : 0);
    if (above.end() == overlap_.kept.end()) break;
  }
  op->after.push_back({begin, above_next_});
}

bool TreeHalvingOps::NextOfGather(ScheduleOp* op) {
  while (true) {
    if (part_ == Part::kNone || part_ == Part::kRecv) {
      while (!walk_.Next(&overlap_)) {
        if (level_ == 1) return false;
        above_.Start(level_);
        above_next_ = level_begin_;
        level_begin_ = number_;
        walk_.Start(--level_);
      }
      part_ = Part::kNone;
    }
    part_ = static_cast<Part>(static_cast<int>(part_) + 1);
    if (part_ == Part::kSend && overlap_.kept.units > 0) {
      FillMessage(OpAction::kSend, overlap_.kept, op);
      op->from.push_back({{kOutputBuffer, overlap_.kept.begin}});
      if (level_ == path_.levels()) {
        AddAfter(op, overlap_.reduction());
      } else {
        AddAfterAllAbove(op);
      }
      return true;
    }
    if (part_ == Part::kRecv && overlap_.sent.units > 0) {
      FillMessage(OpAction::kRecv, overlap_.sent, op);
      op->to = {kOutputBuffer, overlap_.sent.begin};
      return true;
    }
  }
}

void TreeHalvingOps::FillAlone(ScheduleOp* op) const {
  op->Clear();
  op->action = OpAction::kReduce;
  op->stage = SumStage::kFinal;
  op->units = schedule_.goal().count;
  op->to = {kOutputBuffer, 0};
  op->from.push_back({OwnSum(0)});
}

bool TreeHalvingOps::Next(ScheduleOp* op) {
  bool found = false;
  if (phase_ == Phase::kAlone) {
    phase_ = path_.levels() == 0 ? Phase::kEnd : Phase::kReduce;
    if (phase_ == Phase::kEnd) {
      FillAlone(op);
      found = true;
    }
  }
  if (phase_ == Phase::kReduce) {
    found = NextOfReduce(op);
    if (!found) {
      phase_ = Phase::kGather;
      part_ = Part::kNone;
      level_begin_ = number_;
      walk_.Start(level_);
    }
  }
  if (phase_ == Phase::kGather) {
    found = NextOfGather(op);
    if (!found) phase_ = Phase::kEnd;
  }
  if (found) ++number_;
  return found;
}

// What an executor keeps for each of thousands of operations.
static_assert(sizeof(TreeHalvingOps) <= 4096);

std::unique_ptr<OpStream> TreeHalvingSchedule::OpsOf(int participant) const {
  return std::make_unique<TreeHalvingOps>(*this, participant);
}

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeTreeHalvingSchedule(const ScheduleGoal& goal) {
  if (!goal.Reduces() || !goal.EffectiveOrder().OnePieceEach()) return nullptr;
  if (goal.kind == GoalKind::kReduceScatter) return MakeTreeHalvingScatterSchedule(goal);
  if (goal.kind != GoalKind::kAllReduce) return nullptr;
  return std::make_unique<TreeHalvingSchedule>(goal);
}

}  // namespace weft
