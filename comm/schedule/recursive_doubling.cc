// Recursive doubling: an all_reduce of small vectors. At each vertex (A, B) of the tree the members of A, who all have A's sum, and those
// of B exchange whole sums: ceil(log2 N) levels, of a whole vector each (Thakur, Rabenseifner and Gropp, 2005, for powers of two).
//
// Where the sides differ in size, folding the rest into a power of two would change the order of the sums. Instead, a member of the larger
// side hears from the member of the smaller one whose place is its own modulo the smaller side's size, and a member of the smaller side
// from the one with its place. So the k-th member of the smaller side sends to several, at most ceil(|A| / |B|): with N = 2^k + 1 the
// last participant sends its contribution to all others. Tree halving or a binomial tree are better there.
//
// Ops of a participant, level by level from below: receive the other side's sum; send the own; add.
#include <memory>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/order_path.h"

namespace weft {
namespace {

// Scratch, two vectors each, used in turns by odd and even levels: sums formed here; what was received.
constexpr uint32_t kDoublingSums = kScratchBuffers;
constexpr uint32_t kDoublingElements = kScratchBuffers + 1;
constexpr uint32_t kDoublingAccumulators = kScratchBuffers + 2;

class RecursiveDoublingSchedule final : public IndexedSchedule {
 public:
  explicit RecursiveDoublingSchedule(const ScheduleGoal& goal)
      : IndexedSchedule(goal), order_(goal.EffectiveOrder()) {}

  std::string_view algorithm() const override { return "recursive_doubling"; }

  uint32_t window() const override { return 2; }

  bool in_place() const override { return HasPlaceInPlace(goal()); }

  std::vector<ScratchBuffer> ScratchOf(int participant) const override {
    const OrderPath path = PathOf(participant);
    bool received[2] = {};
    for (int level = 1; level <= path.levels(); ++level)
      received[static_cast<size_t>(order_.SumFormOf(path.At(level).sibling))] = true;
    const uint64_t two = 2 * goal().count;
    return {{path.levels() > 1 ? two : 0, UnitForm::kAccumulator},
            {received[0] ? two : 0, UnitForm::kElement},
            {received[1] ? two : 0, UnitForm::kAccumulator}};
  }

  uint32_t OpCount(int participant) const override {
    const OrderPath path = PathOf(participant);
    return path.levels() == 0 ? 1 : BeginOf(path, LeafOf(participant), path.levels() + 1);
  }

  void OpAt(int participant, uint32_t index, ScheduleOp* op) const override {
    const int leaf = LeafOf(participant);
    const OrderPath path = PathOf(participant);
    int level = 1;
    uint32_t begin = 0;
    while (level < path.levels() && index >= begin + 2 + SendCount(path.At(level), leaf))
      begin += 2 + SendCount(path.At(level++), leaf);
    if (path.levels() == 0) {
      FillReduction(path, leaf, 0, op);
    } else if (index == begin) {
      FillRecv(path, leaf, level, op);
    } else if (index <= begin + SendCount(path.At(level), leaf)) {
      FillSend(path, leaf, level, index - begin - 1, op);
    } else {
      FillReduction(path, leaf, level, op);
    }
  }

  SentUnits SentBy(int participant) const override {
    const int leaf = LeafOf(participant);
    const OrderPath path = PathOf(participant);
    SentUnits sent;
    for (int level = 1; level <= path.levels(); ++level) {
      const bool elements = level == 1 && order_.FormOf(leaf) == UnitForm::kElement;
      (elements ? sent.elements : sent.accumulators) +=
          goal().count * SendCount(path.At(level), leaf);
    }
    return sent;
  }

 private:
  int LeafOf(int participant) const { return order_.PieceOf(participant, 0); }

  OrderPath PathOf(int participant) const { return OrderPath(order_, LeafOf(participant)); }

  // Members of the other side to which the leaf sends: those with its place, modulo the size of its side if that is the smaller one.
  static uint32_t SendCount(const OrderStep& step, int leaf) {
    const int place = leaf - step.mine.first;
    const int mine = step.mine.count;
    const int others = step.sibling.count;
    if (mine >= others) return place < others ? 1 : 0;
    return static_cast<uint32_t>((others - place + mine - 1) / mine);
  }

  // Number of the first op of a level.
  static uint32_t BeginOf(const OrderPath& path, int leaf, int level) {
    uint32_t begin = 0;
    for (int below = 1; below < level; ++below)
      begin += 2 + SendCount(path.At(below), leaf);
    return begin;
  }

  // The number of the reduction of a level.
  static uint32_t ReductionOf(const OrderPath& path, int leaf, int level) {
    return BeginOf(path, leaf, level + 1) - 1;
  }

  uint64_t TurnOf(int level) const { return level % 2 == 0 ? 0 : goal().count; }

  // The sum that the leaf has when the level begins.
  UnitPlace OwnSum(int leaf, int level) const {
    if (level > 1) return {kDoublingSums, TurnOf(level - 1)};
    return {order_.FormOf(leaf) == UnitForm::kElement ? kInputBuffer : kPartialsBuffer, 0};
  }

  UnitPlace ReceivedAt(const OrderPath& path, int level) const {
    const bool element = order_.SumFormOf(path.At(level).sibling) == UnitForm::kElement;
    return {element ? kDoublingElements : kDoublingAccumulators, TurnOf(level)};
  }

  void FillRecv(const OrderPath& path, int leaf, int level, ScheduleOp* op) const {
    const OrderStep& step = path.At(level);
    const int place = leaf - step.mine.first;
    op->action = OpAction::kRecv;
    op->peer = order_.HolderOf(step.sibling.first + place % step.sibling.count);
    op->tag = TagOf(step);
    op->units = goal().count;
    op->to = ReceivedAt(path, level);
    // What lay there has been added.
    if (level > 2) AddAfter(op, ReductionOf(path, leaf, level - 2));
  }

  void FillSend(const OrderPath& path, int leaf, int level, uint32_t number, ScheduleOp* op) const {
    const OrderStep& step = path.At(level);
    op->action = OpAction::kSend;
    op->peer = order_.HolderOf(step.sibling.first + (leaf - step.mine.first) +
                               static_cast<int>(number) * step.mine.count);
    op->tag = TagOf(step);
    op->units = goal().count;
    AddSource(op, OwnSum(leaf, level));
    if (level > 1) AddAfter(op, ReductionOf(path, leaf, level - 1));
  }

  void FillReduction(const OrderPath& path, int leaf, int level, ScheduleOp* op) const {
    const bool last = level == path.levels();
    op->action = OpAction::kReduce;
    op->stage = last ? SumStage::kFinal : SumStage::kPartial;
    op->units = goal().count;
    op->to = last ? UnitPlace{kOutputBuffer, 0} : UnitPlace{kDoublingSums, TurnOf(level)};
    if (level == 0) {
      op->from.push_back({OwnSum(leaf, 1)});
      return;
    }
    const OrderStep& step = path.At(level);
    op->from.push_back({step.on_left ? OwnSum(leaf, level) : ReceivedAt(path, level)});
    op->from.push_back({step.on_left ? ReceivedAt(path, level) : OwnSum(leaf, level)});
    // The sends that read what is written over: the sum of two levels below, or, in place, the contribution itself.
    const int read = last ? 1 : level - 1;
    const uint32_t begin = BeginOf(path, leaf, read);
    const uint32_t sends = read >= 1 ? SendCount(path.At(read), leaf) : 0;
    if (sends > 0) op->after.push_back({begin + 1, begin + 1 + sends});
    if (level > 1)
      op->after.push_back(
          {ReductionOf(path, leaf, level - 1), ReductionOf(path, leaf, level - 1) + 1});
    op->after.push_back({BeginOf(path, leaf, level), BeginOf(path, leaf, level) + 1});
  }

  // Two participants may meet at one vertex only.
  static uint64_t TagOf(const OrderStep& step) {
    return static_cast<uint64_t>(step.mine.count) + static_cast<uint64_t>(step.sibling.count);
  }

  const ReductionOrder order_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeRecursiveDoublingSchedule(const ScheduleGoal& goal) {
  if (goal.kind != GoalKind::kAllReduce || !goal.EffectiveOrder().OnePieceEach()) return nullptr;
  return std::make_unique<RecursiveDoublingSchedule>(goal);
}

}  // namespace weft
