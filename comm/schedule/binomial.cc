// Binomial trees (rooted_path.h): reduce, broadcast, gather and scatter in ceil(log2 N) levels. What moves towards the root or away from it
// is the whole vector (reduce, broadcast) or the blocks of a subtree (gather, scatter).
//
// Ops of a participant that is the head of h subtrees besides itself:
//   reduce     for each, from below: receive, add; then send to the parent
//   broadcast  receive from the parent; send to each, the largest first; the root copies to its output
//   gather     copy the own block; receive the blocks of each; send all to the parent. h = 0: only the send, from the input
//   scatter    receive all from the parent; send each its blocks, the largest first; copy the own block. h = 0: only the receive
#include <memory>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/rooted_path.h"

namespace weft {
namespace {

// Scratch of reduce: the sum formed here; two received vectors of either form, used in turns. Of gather and scatter: scratch 0 has the
// blocks of the subtree.
constexpr uint32_t kBinomialSum = kScratchBuffers;
constexpr uint32_t kBinomialElements = kScratchBuffers + 1;
constexpr uint32_t kBinomialAccumulators = kScratchBuffers + 2;
constexpr uint32_t kBinomialBlocks = kScratchBuffers;

class BinomialSchedule final : public IndexedSchedule {
 public:
  explicit BinomialSchedule(const ScheduleGoal& goal)
      : IndexedSchedule(goal),
        order_(goal.Reduces() ? goal.EffectiveOrder() : ReductionOrder(goal.participants)) {}

  std::string_view algorithm() const override { return "binomial"; }

  uint32_t window() const override { return 1; }

  bool in_place() const override { return HasPlaceInPlace(goal()); }

  std::vector<ScratchBuffer> ScratchOf(int participant) const override {
    const RootedPath path = PathOf(participant);
    const bool root = path.parent() < 0;
    switch (goal().kind) {
      case GoalKind::kReduce: {
        bool received[2] = {};
        for (int level = 1; level <= path.headed(); ++level)
          received[static_cast<size_t>(ReceivedForm(path, level))] = true;
        const uint64_t count = goal().count;
        return {{path.headed() > (root ? 1 : 0) ? count : 0, UnitForm::kAccumulator},
                {received[0] ? 2 * count : 0, UnitForm::kElement},
                {received[1] ? 2 * count : 0, UnitForm::kAccumulator}};
      }
      case GoalKind::kGather:
      case GoalKind::kScatter:
        if (root || path.headed() == 0) return {};
        return {{goal().count * static_cast<uint64_t>(path.Own().count), UnitForm::kElement}};
      default:
        return {};
    }
  }

  uint32_t OpCount(int participant) const override {
    const RootedPath path = PathOf(participant);
    const auto headed = static_cast<uint32_t>(path.headed());
    const bool root = path.parent() < 0;
    switch (goal().kind) {
      case GoalKind::kReduce:
        return headed == 0 ? 1 : 2 * headed + (root ? 0 : 1);
      case GoalKind::kBroadcast:
        return headed + 1;
      default:
        return headed + (root || headed == 0 ? 1 : 2);
    }
  }

  void OpAt(int participant, uint32_t index, ScheduleOp* op) const override {
    const RootedPath path = PathOf(participant);
    switch (goal().kind) {
      case GoalKind::kReduce:
        return FillReduce(path, LeafOf(participant), index, op);
      case GoalKind::kBroadcast:
        return FillBroadcast(path, index, op);
      case GoalKind::kGather:
        return FillGather(path, participant, index, op);
      default:
        return FillScatter(path, participant, index, op);
    }
  }

  SentUnits SentBy(int participant) const override {
    const RootedPath path = PathOf(participant);
    const uint64_t count = goal().count;
    const auto own = static_cast<uint64_t>(path.Own().count);
    switch (goal().kind) {
      case GoalKind::kReduce:
        if (path.parent() < 0) return {};
        return own == 1 && order_.FormOf(LeafOf(participant)) == UnitForm::kElement
                   ? SentUnits{count, 0}
                   : SentUnits{0, count};
      case GoalKind::kBroadcast:
        return {count * static_cast<uint64_t>(path.headed()), 0};
      case GoalKind::kGather:
        return {path.parent() < 0 ? 0 : own * count, 0};
      default:
        return {(own - 1) * count, 0};
    }
  }

 private:
  int LeafOf(int participant) const { return order_.PieceOf(participant, 0); }

  RootedPath PathOf(int participant) const {
    return RootedPath(order_, LeafOf(participant), LeafOf(goal().root));
  }

  UnitForm ReceivedForm(const RootedPath& path, int level) const {
    return order_.SumFormOf(path.SubtreeAt(level));
  }

  void FillMessage(OpAction action, int leaf, uint64_t units, ScheduleOp* op) const {
    op->action = action;
    op->peer = order_.HolderOf(leaf);
    op->units = units;
  }

  void FillReduce(const RootedPath& path, int leaf, uint32_t index, ScheduleOp* op) const {
    const auto headed = static_cast<uint32_t>(path.headed());
    const bool root = path.parent() < 0;
    const UnitPlace piece = {
        order_.FormOf(leaf) == UnitForm::kElement ? kInputBuffer : kPartialsBuffer, 0};
    if (index == 2 * headed && !root) {
      FillMessage(OpAction::kSend, path.parent(), goal().count, op);
      AddSource(op, headed == 0 ? piece : UnitPlace{kBinomialSum, 0});
      if (headed > 0) AddAfter(op, index - 1);
      return;
    }
    const int level = static_cast<int>(index / 2) + 1;
    const bool alone = headed == 0;
    const UnitPlace received =
        alone ? UnitPlace{}
              : UnitPlace{kBinomialElements + static_cast<uint32_t>(ReceivedForm(path, level)),
                          level % 2 == 0 ? 0 : goal().count};
    if (!alone && index % 2 == 0) {
      FillMessage(OpAction::kRecv, path.ChildAt(level), goal().count, op);
      op->to = received;
      // What lay there has been added.
      if (level > 2) AddAfter(op, index - 3);
      return;
    }
    const bool last = root && (alone || level == path.headed());
    const UnitPlace own = level > 1 ? UnitPlace{kBinomialSum, 0} : piece;
    op->action = OpAction::kReduce;
    op->stage = last ? SumStage::kFinal : SumStage::kPartial;
    op->units = goal().count;
    op->to = {last ? kOutputBuffer : kBinomialSum, 0};
    op->from.push_back({alone || path.OnLeft(level) ? own : received});
    if (alone) return;
    op->from.push_back({path.OnLeft(level) ? received : own});
    if (level > 1) AddAfter(op, index - 2);
    AddAfter(op, index - 1);
  }

  void FillBroadcast(const RootedPath& path, uint32_t index, ScheduleOp* op) const {
    const bool root = path.parent() < 0;
    const auto headed = static_cast<uint32_t>(path.headed());
    const uint32_t before = root ? 0 : 1;
    op->units = goal().count;
    if (!root && index == 0) {
      FillMessage(OpAction::kRecv, path.parent(), goal().count, op);
      op->to = {kOutputBuffer, 0};
    } else if (index - before < headed) {
      FillMessage(OpAction::kSend, path.ChildAt(static_cast<int>(headed - (index - before))),
                  goal().count, op);
      AddSource(op, {root ? kInputBuffer : kOutputBuffer, 0});
      if (!root) AddAfter(op, 0);
    } else {
      op->to = {kOutputBuffer, 0};
      AddSource(op, {kInputBuffer, 0});
    }
  }

  // Where a participant that collects or deals out has the blocks from `first` on; the root has all of them, in the goal's own buffer.
  UnitPlace BlocksAt(const RootedPath& path, int first) const {
    const bool root = path.parent() < 0;
    const int begin = root ? 0 : path.Own().first;
    const uint32_t whole = goal().kind == GoalKind::kGather ? kOutputBuffer : kInputBuffer;
    return {root ? whole : kBinomialBlocks, goal().count * static_cast<uint64_t>(first - begin)};
  }

  void FillGather(const RootedPath& path, int participant, uint32_t index, ScheduleOp* op) const {
    const auto headed = static_cast<uint32_t>(path.headed());
    const OrderVertex own = path.Own();
    op->units = goal().count;
    if (path.parent() >= 0 && (headed == 0 || index == headed + 1)) {
      FillMessage(OpAction::kSend, path.parent(), goal().count * static_cast<uint64_t>(own.count),
                  op);
      AddSource(op, headed == 0 ? UnitPlace{kInputBuffer, 0} : BlocksAt(path, own.first));
      if (headed > 0) op->after.push_back({0, headed + 1});
    } else if (index == 0) {
      op->to = BlocksAt(path, participant);
      AddSource(op, {kInputBuffer, 0});
    } else {
      const OrderVertex& subtree = path.SubtreeAt(static_cast<int>(index));
      FillMessage(OpAction::kRecv, path.ChildAt(static_cast<int>(index)),
                  goal().count * static_cast<uint64_t>(subtree.count), op);
      op->to = BlocksAt(path, subtree.first);
    }
  }

  void FillScatter(const RootedPath& path, int participant, uint32_t index, ScheduleOp* op) const {
    const bool root = path.parent() < 0;
    const auto headed = static_cast<uint32_t>(path.headed());
    const OrderVertex own = path.Own();
    const uint32_t before = root ? 0 : 1;
    op->units = goal().count;
    if (!root && index == 0) {
      FillMessage(OpAction::kRecv, path.parent(), goal().count * static_cast<uint64_t>(own.count),
                  op);
      op->to = headed == 0 ? UnitPlace{kOutputBuffer, 0} : BlocksAt(path, own.first);
    } else if (index - before < headed) {
      const int level = static_cast<int>(headed - (index - before));
      const OrderVertex& subtree = path.SubtreeAt(level);
      FillMessage(OpAction::kSend, path.ChildAt(level),
                  goal().count * static_cast<uint64_t>(subtree.count), op);
      AddSource(op, BlocksAt(path, subtree.first));
      if (!root) AddAfter(op, 0);
    } else {
      op->to = {kOutputBuffer, 0};
      AddSource(op, BlocksAt(path, participant));
      if (!root) AddAfter(op, 0);
    }
  }

  const ReductionOrder order_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeBinomialSchedule(const ScheduleGoal& goal) {
  if (!goal.HasRoot() || (goal.Reduces() && !goal.EffectiveOrder().OnePieceEach())) return nullptr;
  return std::make_unique<BinomialSchedule>(goal);
}

}  // namespace weft
