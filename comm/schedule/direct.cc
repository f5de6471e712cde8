// Direct: everybody sends to everybody else what that one needs, in one level. In step s, participant p sends to p + s and receives from
// p - s, so that no two send to the same one at the same time (the pairwise exchange of Thakur, Rabenseifner and Gropp, "Optimization of
// Collective Communication Operations in MPICH", 2005).
//
// all_reduce is a reduce_scatter of slices, then an all_gather of the rounded results. A slice's owner adds all pieces of it in one pass,
// in whatever order they have arrived, so the order of the sum is free to be the canonical one, for any tree and any map of pieces. A
// participant sends (N-1)/N of each of its pieces, and (N-1)/N of a vector in the second half.
//
// Ops of participant p, of which a participant has `a_p` pieces:
//   reduce_scatter: for s = 1 to N-1: a_p sends to p + s, then a_(p-s) receives from p - s; then the reduction
//   others:         for s = 1 to N-1: a send to p + s, a receive from p - s
// For goals with a root, only the messages from or to the root.
#include <algorithm>
#include <memory>
#include <vector>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/slices.h"

namespace weft {
namespace {

class DirectSchedule;

// Where a stream is: in which phase, step and message of a step.
class DirectOps final : public OpStream {
 public:
  DirectOps(const DirectSchedule& schedule, int participant)
      : schedule_(schedule), self_(participant) {}

  bool Next(ScheduleOp* op) override;

 private:
  enum class Phase : uint8_t { kPieces, kReduce, kExchange, kCopy, kEnd };

  bool NextOfPieces(ScheduleOp* op);
  bool NextOfExchange(ScheduleOp* op);
  void FillReduceOp(ScheduleOp* op) const;

  const DirectSchedule& schedule_;
  const int self_;
  Phase phase_ = Phase::kPieces;
  int step_ = 1;
  int in_step_ = 0;
  uint32_t number_ = 0;   // of the op to come
  uint32_t reduced_ = 0;  // the number of the reduction, once there was one
};

// Buffers of what has been received: scratch 0 of elements, scratch 1 of accumulators; the pieces of the other participants, in the order
// of the pieces.
class DirectSchedule final : public CollectiveSchedule {
 public:
  explicit DirectSchedule(const ScheduleGoal& goal)
      : CollectiveSchedule(goal), order_(goal.EffectiveOrder()) {
    for (const uint64_t units : goal.blocks)
      begins_.push_back(begins_.empty() ? units : begins_.back() + units);
    vector_units_ = goal.VectorUnits();
  }

  std::string_view algorithm() const override { return "direct"; }

  // A step's sends and receives, so that both directions are busy. 2 where everybody has one piece.
  uint32_t window() const override {
    int most = 1;
    for (int p = 0; goal().Reduces() && !order_.IsCanonicalOfRanks() && p < goal().participants;
         ++p)
      most = std::max(most, order_.PieceCountOf(p));
    return 2 * static_cast<uint32_t>(most);
  }

  bool in_place() const override { return HasPlaceInPlace(goal()); }

  std::vector<ScratchBuffer> ScratchOf(int participant) const override {
    if (!goal().Reduces()) return {};
    const UnitSlice slice = ReducedSlice(participant);
    uint64_t of_form[2] = {};
    for (int piece = 0; piece < order_.pieces(); ++piece) {
      if (order_.HolderOf(piece) != participant)
        ++of_form[static_cast<size_t>(order_.FormOf(piece))];
    }
    return {{slice.units * of_form[0], UnitForm::kElement},
            {slice.units * of_form[1], UnitForm::kAccumulator}};
  }

  std::unique_ptr<OpStream> OpsOf(int participant) const override {
    return std::make_unique<DirectOps>(*this, participant);
  }

  SentUnits SentBy(int participant) const override {
    const uint64_t count = goal().BlockUnits(participant);
    const auto others = static_cast<uint64_t>(goal().participants - 1);
    const bool is_root = participant == goal().root;
    switch (goal().kind) {
      case GoalKind::kAllReduce:
        return PlusElements(PiecesTimes(participant, count - ReducedSlice(participant).units),
                            others * ReducedSlice(participant).units);
      case GoalKind::kReduceScatter:
        return PiecesTimes(participant, goal().VectorUnits() - count);
      case GoalKind::kReduce:
        return is_root ? SentUnits{} : PiecesTimes(participant, count);
      case GoalKind::kAllGather:
      case GoalKind::kAllToAll:
        return {others * count, 0};
      case GoalKind::kBroadcast:
      case GoalKind::kScatter:
        return {is_root ? others * count : 0, 0};
      case GoalKind::kGather:
        return {is_root ? 0 : count, 0};
      case GoalKind::kBarrier:
      case GoalKind::kScan:
      case GoalKind::kExscan:
        return {};
    }
    return {};
  }

  const ReductionOrder& order() const { return order_; }

  // The slice of the vector whose sum the participant forms.
  UnitSlice ReducedSlice(int participant) const {
    if (goal().kind == GoalKind::kAllReduce)
      return SliceOf(goal().count, goal().participants, participant);
    if (goal().kind == GoalKind::kReduce) return {0, participant == goal().root ? goal().count : 0};
    return {BlockBegin(participant), goal().BlockUnits(participant)};
  }

  // Where participant's i-th piece is, from unit `begin` of it on.
  UnitPlace PieceAt(int participant, int i, uint64_t begin) const {
    const bool element = order_.FormOf(order_.PieceOf(participant, i)) == UnitForm::kElement;
    return {element ? kInputBuffer : kPartialsBuffer,
            vector_units_ * static_cast<uint64_t>(order_.PlaceOf(participant, i)) + begin};
  }

  // Where `self` receives a piece of another participant.
  UnitPlace ReceivedAt(int self, int piece) const {
    const UnitForm form = order_.FormOf(piece);
    uint64_t before = 0;
    if (order_.IsCanonicalOfRanks()) {
      before = static_cast<uint64_t>(piece < self ? piece : piece - 1);
    } else {
      for (int other = 0; other < piece; ++other) {
        if (order_.HolderOf(other) != self && order_.FormOf(other) == form) ++before;
      }
    }
    return {form == UnitForm::kElement ? kScratchBuffers : kScratchBuffers + 1,
            before * ReducedSlice(self).units};
  }

  // Messages of pieces from one participant to another.
  int PiecesSent(int from, int to) const {
    if (!goal().Reduces() || (goal().kind == GoalKind::kReduce && to != goal().root)) return 0;
    return order_.PieceCountOf(from);
  }

  // Whether `from` sends to `to` what is no piece: a block, or a result.
  bool Exchanges(int from, int to) const {
    switch (goal().kind) {
      case GoalKind::kReduce:
      case GoalKind::kReduceScatter:
        return false;
      case GoalKind::kBroadcast:
      case GoalKind::kScatter:
        return from == goal().root;
      case GoalKind::kGather:
        return to == goal().root;
      default:
        return true;
    }
  }

  // What is exchanged: where it lies at the sender, and where the receiver takes it.
  UnitPlace SentFrom(int from, int to) const {
    if (goal().kind == GoalKind::kAllReduce) return {kOutputBuffer, ReducedSlice(from).begin};
    const bool blocks = goal().kind == GoalKind::kScatter || goal().kind == GoalKind::kAllToAll;
    return {kInputBuffer, blocks ? BlockBegin(to) : 0};
  }

  UnitPlace TakenAt(int from) const {
    if (goal().kind == GoalKind::kAllReduce) return {kOutputBuffer, ReducedSlice(from).begin};
    const bool blocks = goal().kind == GoalKind::kGather || goal().kind == GoalKind::kAllToAll ||
                        goal().kind == GoalKind::kAllGather;
    return {kOutputBuffer, blocks ? BlockBegin(from) : 0};
  }

  uint64_t ExchangedUnits(int from) const {
    return goal().kind == GoalKind::kAllReduce ? ReducedSlice(from).units : goal().BlockUnits(from);
  }

 private:
  uint64_t BlockBegin(int participant) const {
    if (begins_.empty()) return goal().BlockBegin(participant);
    return participant == 0 ? 0 : begins_[static_cast<size_t>(participant) - 1];
  }

  SentUnits PiecesTimes(int participant, uint64_t units) const {
    SentUnits sent;
    for (int i = 0; i < order_.PieceCountOf(participant); ++i) {
      const bool element = order_.FormOf(order_.PieceOf(participant, i)) == UnitForm::kElement;
      (element ? sent.elements : sent.accumulators) += units;
    }
    return sent;
  }

  static SentUnits PlusElements(SentUnits sent, uint64_t units) {
    sent.elements += units;
    return sent;
  }

  const ReductionOrder order_;
  std::vector<uint64_t> begins_;  // of blocks that differ, from the second one on
  uint64_t vector_units_ = 0;
};

// Tags of messages: 0 for what is exchanged, 1 + i for the sender's i-th piece.
constexpr uint64_t kExchangeTag = 0;

bool DirectOps::NextOfPieces(ScheduleOp* op) {
  const int n = schedule_.goal().participants;
  for (; step_ < n; ++step_, in_step_ = 0) {
    const int to = (self_ + step_) % n;
    const int from = (self_ + n - step_) % n;
    const int sends = schedule_.PiecesSent(self_, to);
    const int receives = schedule_.PiecesSent(from, self_);
    if (in_step_ >= sends + receives) continue;
    op->Clear();
    if (in_step_ < sends) {
      const UnitSlice slice = schedule_.ReducedSlice(to);
      op->action = OpAction::kSend;
      op->peer = to;
      op->tag = static_cast<uint64_t>(in_step_) + 1;
      op->units = slice.units;
      AddSource(op, schedule_.PieceAt(self_, in_step_, slice.begin));
    } else {
      const int i = in_step_ - sends;
      op->action = OpAction::kRecv;
      op->peer = from;
      op->tag = static_cast<uint64_t>(i) + 1;
      op->units = schedule_.ReducedSlice(self_).units;
      op->to = schedule_.ReceivedAt(self_, schedule_.order().PieceOf(from, i));
    }
    ++in_step_;
    return true;
  }
  step_ = 1;
  return false;
}

// All pieces of the own slice, in their order.
void DirectOps::FillReduceOp(ScheduleOp* op) const {
  const int n = schedule_.goal().participants;
  const ReductionOrder& order = schedule_.order();
  const UnitSlice slice = schedule_.ReducedSlice(self_);
  op->action = OpAction::kReduce;
  op->stage = SumStage::kFinal;
  op->units = slice.units;
  op->to = {kOutputBuffer, schedule_.goal().kind == GoalKind::kAllReduce ? slice.begin : 0};
  op->merges = order.merges();
  int own = 0;
  uint64_t of_form[2] = {};
  for (int piece = 0; piece < order.pieces(); ++piece) {
    if (order.HolderOf(piece) == self_) {
      AddSource(op, schedule_.PieceAt(self_, own++, slice.begin));
      continue;
    }
    const auto form = static_cast<uint32_t>(order.FormOf(piece));
    AddSource(op, {kScratchBuffers + form, slice.units * of_form[form]++});
  }
  uint32_t number = 0;
  for (int step = 1; step < n; ++step) {
    const int from = (self_ + n - step) % n;
    number += static_cast<uint32_t>(schedule_.PiecesSent(self_, (self_ + step) % n));
    for (int i = 0; i < schedule_.PiecesSent(from, self_); ++i)
      AddAfter(op, number++);
  }
}

bool DirectOps::NextOfExchange(ScheduleOp* op) {
  const int n = schedule_.goal().participants;
  for (; step_ < n; ++step_, in_step_ = 0) {
    const int to = (self_ + step_) % n;
    const int from = (self_ + n - step_) % n;
    if (in_step_ == 0 && !schedule_.Exchanges(self_, to)) ++in_step_;
    if (in_step_ == 1 && !schedule_.Exchanges(from, self_)) ++in_step_;
    if (in_step_ == 2) continue;
    op->Clear();
    op->tag = kExchangeTag;
    if (in_step_++ == 0) {
      op->action = OpAction::kSend;
      op->peer = to;
      op->units = schedule_.ExchangedUnits(self_);
      AddSource(op, schedule_.SentFrom(self_, to));
      if (schedule_.goal().Reduces()) AddAfter(op, reduced_);
    } else {
      op->action = OpAction::kRecv;
      op->peer = from;
      op->units = schedule_.ExchangedUnits(from);
      op->to = schedule_.TakenAt(from);
    }
    return true;
  }
  return false;
}

bool DirectOps::Next(ScheduleOp* op) {
  const ScheduleGoal& goal = schedule_.goal();
  bool found = false;
  while (!found && phase_ != Phase::kEnd) {
    switch (phase_) {
      case Phase::kPieces:
        found = NextOfPieces(op);
        if (!found) phase_ = Phase::kReduce;
        break;
      case Phase::kReduce:
        phase_ = Phase::kExchange;
        found = goal.Reduces() && (goal.kind != GoalKind::kReduce || self_ == goal.root);
        if (!found) break;
        op->Clear();
        FillReduceOp(op);
        reduced_ = number_;
        break;
      case Phase::kExchange:
        found = NextOfExchange(op);
        if (!found) phase_ = Phase::kCopy;
        break;
      case Phase::kCopy:
        phase_ = Phase::kEnd;
        found = !goal.Reduces() && goal.kind != GoalKind::kBarrier &&
                (!goal.HasRoot() || self_ == goal.root);
        if (!found) break;
        op->Clear();
        op->units = goal.BlockUnits(self_);
        op->to = schedule_.TakenAt(self_);
        AddSource(op, schedule_.SentFrom(self_, self_));
        break;
      case Phase::kEnd:
        break;
    }
  }
  if (found) ++number_;
  return found;
}

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeDirectSchedule(const ScheduleGoal& goal) {
  if (goal.IsPrefix()) return nullptr;
  return std::make_unique<DirectSchedule>(goal);
}

}  // namespace weft
