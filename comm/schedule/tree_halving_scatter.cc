// Tree halving of a reduce_scatter: every participant sends all but its own block, (N-1)/N of the vector, for every N and every tree, in as many
// levels as the tree has, with sums in its order. Of canonical trees that is ceil(log2 N) levels, in each of which a participant
// receives one message; those of the tree's left side send one as well.
//
// Where all_reduce's halving (tree_halving.cc) may leave any part anywhere, blocks here have a place to come to. Who holds which block at a
// vertex of the tree is halving_blocks.h; whatever it says, what a participant sends is what it no longer holds, which is all but its
// block in the end. Blocks lie in memory in the order of their participants, and are held in another one, so what is sent at level 1 is packed
// first, and what is kept there is added block by block; from then on messages are parts of a packed vector.
//
// Ops of a participant: level by level from below, each ascending by position,
//   at level 1, blocks of which several go to the same peer are packed
//   what goes to a peer is sent; what is kept is received
//   what is kept is added to the own part of it
// Both ends of the messages of a vertex have them in the same order, so none waits in a circle.
#include "comm/schedule/tree_halving_scatter.h"

#include <utility>
#include <vector>

#include "comm/schedule/halving_blocks.h"
#include "comm/schedule/order_path.h"

namespace weft {
namespace {

// Scratch: the sums that this participant has formed so far, each at its place among what it holds after level 1; what was received, in the order
// in which it is; what is packed.
constexpr uint32_t kScatterSums = kScratchBuffers;
constexpr uint32_t kScatterElements = kScratchBuffers + 1;
constexpr uint32_t kScatterPacked = kScratchBuffers + 3;

// Held blocks side by side that go to, or come from, the same leaf.
struct BlockRun {
  uint32_t begin = 0;  // positions
  uint32_t end = 0;
  int peer_leaf = -1;
  bool kept = false;
  uint32_t blocks = 0;
  uint64_t place = 0;  // units of all blocks at positions before it
  uint64_t units = 0;
};

class ScatterHalvingSchedule final : public CollectiveSchedule {
 public:
  explicit ScatterHalvingSchedule(const ScheduleGoal& goal)
      : CollectiveSchedule(goal), order_(goal.EffectiveOrder()), blocks_(order_) {
    for (const uint64_t units : goal.blocks)
      begins_.push_back(begins_.empty() ? units : begins_.back() + units);
  }

  std::string_view algorithm() const override { return "tree_halving"; }

  uint32_t window() const override { return 2; }

  bool in_place() const override { return HasPlaceInPlace(goal()); }

  std::vector<ScratchBuffer> ScratchOf(int participant) const override;
  std::unique_ptr<OpStream> OpsOf(int participant) const override;
  SentUnits SentBy(int participant) const override;

  const ReductionOrder& order() const { return order_; }

  const HalvingBlocks& blocks() const { return blocks_; }

  int LeafOf(int participant) const { return order_.PieceOf(participant, 0); }

  uint64_t UnitsOf(int block) const { return goal().BlockUnits(order_.HolderOf(block)); }

  uint64_t BeginOf(int block) const {
    const int participant = order_.HolderOf(block);
    if (begins_.empty()) return goal().BlockBegin(participant);
    return participant == 0 ? 0 : begins_[static_cast<size_t>(participant) - 1];
  }

 private:
  const ReductionOrder order_;
  const HalvingBlocks blocks_;
  std::vector<uint64_t> begins_;  // of blocks that differ, from the second one on
};

// What a leaf sends and keeps, level by level.
class BlockRunWalk {
 public:
  BlockRunWalk(const ScatterHalvingSchedule& schedule, const OrderPath& path, int leaf)
      : schedule_(schedule), path_(path), leaf_(leaf) {}

  // Begins with the first run at `level`: 1, then the same one or the next one, if this one was walked to its end.
  void Start(int level) {
    if (level != level_) {
      level_ = level;
      begin_ = kept_begin_;
      end_ = level == 1 ? schedule_.blocks().positions() : kept_end_;
      place_ = kept_place_;
      kept_end_ = 0;
    }
    at_ = begin_;
    place_at_ = place_;
  }

  bool Next(BlockRun* run) {
    Place here;
    while (at_ < end_ && !(here = Look(at_)).held)
      Pass(here);
    if (at_ == end_) return false;
    *run = {.begin = at_, .peer_leaf = here.peer_leaf, .kept = here.kept, .place = place_at_};
    while (here.block < 0 ||
           (here.held && here.peer_leaf == run->peer_leaf && here.kept == run->kept)) {
      run->blocks += here.block < 0 ? 0 : 1;
      run->units += here.units;
      Pass(here);
      if (here.block >= 0) run->end = at_;
      if (at_ == end_) break;
      here = Look(at_);
    }
    if (run->kept && kept_end_ == 0) {
      kept_begin_ = run->begin;
      kept_place_ = run->place;
    }
    if (run->kept) kept_end_ = run->end;
    return true;
  }

 private:
  // What there is at a position.
  struct Place {
    int block = -1;
    uint64_t units = 0;
    bool held = false;
    bool kept = false;
    int peer_leaf = -1;
  };

  Place Look(uint32_t position) const {
    const HalvingBlocks& blocks = schedule_.blocks();
    Place here = {.block = blocks.BlockAt(position)};
    if (here.block < 0) return here;
    const OrderStep& step = path_.At(level_);
    here.units = schedule_.UnitsOf(here.block);
    here.held = blocks.HolderAt(step.mine, here.block) == leaf_;
    if (!here.held) return here;
    here.kept = blocks.IsKept(step, here.block);
    here.peer_leaf = blocks.HolderAt(step.sibling, here.block);
    return here;
  }

  void Pass(const Place& here) {
    ++at_;
    place_at_ += here.units;
  }

  const ScatterHalvingSchedule& schedule_;
  const OrderPath& path_;
  const int leaf_;
  int level_ = 0;
  // Positions between which everything is that is held below the level, and that is kept at it; places of their beginnings.
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
  uint64_t place_ = 0;
  uint32_t kept_begin_ = 0;
  uint32_t kept_end_ = 0;
  uint64_t kept_place_ = 0;
  uint32_t at_ = 0;
  uint64_t place_at_ = 0;
};

// Whether blocks must be packed before they are sent.
bool IsPacked(const BlockRun& run, int level) {
  return level == 1 && !run.kept && run.blocks > 1;
}

// Units that a participant has and moves at all levels together.
struct ScatterTotals {
  uint64_t sent_first = 0;  // at level 1
  uint64_t sent_later = 0;  // at the others
  uint64_t packed = 0;
  uint64_t sums = 0;  // from the first that is kept at level 1 to the last
  uint64_t received[2] = {};
};

ScatterTotals TotalsOf(const ScatterHalvingSchedule& schedule, int participant) {
  const int leaf = schedule.LeafOf(participant);
  const OrderPath path(schedule.order(), leaf);
  BlockRunWalk walk(schedule, path, leaf);
  ScatterTotals totals;
  uint64_t origin = UINT64_MAX;
  for (int level = 1; level <= path.levels(); ++level) {
    walk.Start(level);
    const UnitForm form = schedule.order().SumFormOf(path.At(level).sibling);
    for (BlockRun run; walk.Next(&run);) {
      if (run.kept) totals.received[static_cast<size_t>(form)] += run.units;
      if (!run.kept) (level == 1 ? totals.sent_first : totals.sent_later) += run.units;
      if (IsPacked(run, level)) totals.packed += run.units;
      if (level > 1 || !run.kept || path.levels() == 1) continue;
      origin = std::min(origin, run.place);
      totals.sums = run.place + run.units - origin;
    }
  }
  return totals;
}

class ScatterHalvingOps final : public OpStream {
 public:
  ScatterHalvingOps(const ScatterHalvingSchedule& schedule, int participant)
      : schedule_(schedule),
        leaf_(schedule.LeafOf(participant)),
        path_(schedule.order(), leaf_),
        walk_(schedule, path_, leaf_) {}

  bool Next(ScheduleOp* op) override;

 private:
  enum class Phase : uint8_t { kAlone, kCopies, kMessages, kReductions, kEnd };

  void StartLevel();
  void StartMessages();
  void StartReductions();
  bool NextCopy(ScheduleOp* op);
  bool NextMessage(ScheduleOp* op);
  bool NextReduction(ScheduleOp* op);
  void FillCopy(ScheduleOp* op);
  void FillMessage(ScheduleOp* op);
  void FillReduction(ScheduleOp* op);
  void FillAlone(ScheduleOp* op) const;
  // To the next block of the run; false if there is none.
  bool NextBlock();
  // The input's place of the block at block_.
  UnitPlace OwnBlock() const;

  UnitPlace OwnSum(uint64_t in_run) const { return {kScatterSums, run_.place - origin_ + in_run}; }

  uint32_t FormHere() const {
    return static_cast<uint32_t>(schedule_.order().SumFormOf(path_.At(level_).sibling));
  }

  const ScatterHalvingSchedule& schedule_;
  const int leaf_;
  const OrderPath path_;
  BlockRunWalk walk_;
  Phase phase_ = Phase::kAlone;
  int level_ = 0;
  BlockRun run_;
  bool in_run_ = false;           // it is not done
  uint32_t block_ = 0;            // the position that is next in it
  uint64_t block_at_ = 0;         // units of the run before that
  uint64_t origin_ = UINT64_MAX;  // the place of the first unit that is kept at level 1
  uint64_t packed_ = 0;           // units so far
  uint64_t received_[2] = {};
  uint64_t level_received_ = 0;  // where the level's begin
  uint32_t number_ = 0;          // of the op to come
  uint32_t copy_ = 0;            // of the first copy of the packed run to come
  uint32_t messages_first_ = 0;  // of the level's
  uint32_t message_ = 0;         // of the run
  OpRange reduced_;              // the reductions below the level
  uint32_t reductions_first_ = 0;
};

UnitPlace ScatterHalvingOps::OwnBlock() const {
  const bool element = schedule_.order().FormOf(leaf_) == UnitForm::kElement;
  return {element ? kInputBuffer : kPartialsBuffer,
          schedule_.BeginOf(schedule_.blocks().BlockAt(block_))};
}

bool ScatterHalvingOps::NextBlock() {
  block_at_ += schedule_.UnitsOf(schedule_.blocks().BlockAt(block_));
  do {
    ++block_;
  } while (block_ < run_.end && schedule_.blocks().BlockAt(block_) < 0);
  return block_ < run_.end;
}

void ScatterHalvingOps::FillCopy(ScheduleOp* op) {
  op->action = OpAction::kCopy;
  op->units = schedule_.UnitsOf(schedule_.blocks().BlockAt(block_));
  op->to = {kScatterPacked, packed_ + block_at_};
  AddSource(op, OwnBlock());
  in_run_ = NextBlock();
  if (!in_run_) packed_ += run_.units;
}

void ScatterHalvingOps::FillMessage(ScheduleOp* op) {
  op->action = run_.kept ? OpAction::kRecv : OpAction::kSend;
  op->peer = schedule_.order().HolderOf(run_.peer_leaf);
  // Two participants meet at one vertex only.
  op->tag = run_.begin;
  op->units = run_.units;
  if (run_.kept) {
    const uint32_t form = FormHere();
    op->to = {kScatterElements + form, received_[form]};
    received_[form] += run_.units;
    if (level_ == 1) origin_ = std::min(origin_, run_.place);
  } else if (IsPacked(run_, level_)) {
    AddSource(op, {kScatterPacked, packed_});
    packed_ += run_.units;
    op->after.push_back({copy_, copy_ + run_.blocks});
    copy_ += run_.blocks;
  } else if (level_ == 1) {
    AddSource(op, OwnBlock());
  } else {
    AddSource(op, OwnSum(0));
    op->after.push_back(reduced_);
  }
}

void ScatterHalvingOps::FillReduction(ScheduleOp* op) {
  const bool last = level_ == path_.levels();
  const UnitPlace own = level_ == 1 ? OwnBlock() : OwnSum(0);
  const UnitPlace received = {kScatterElements + FormHere(), level_received_ + block_at_};
  op->action = OpAction::kReduce;
  op->stage = last ? SumStage::kFinal : SumStage::kPartial;
  op->to = last ? UnitPlace{kOutputBuffer, 0} : OwnSum(block_at_);
  const bool on_left = path_.At(level_).on_left;
  op->from.push_back({on_left ? own : received});
  op->from.push_back({on_left ? received : own});
  if (level_ > 1) op->after.push_back(reduced_);
  AddAfter(op, message_);
  // At level 1 the own blocks lie apart.
  op->units = level_ == 1 ? schedule_.UnitsOf(schedule_.blocks().BlockAt(block_)) : run_.units;
  in_run_ = level_ == 1 && NextBlock();
  if (!in_run_) level_received_ += run_.units;
}

void ScatterHalvingOps::FillAlone(ScheduleOp* op) const {
  op->action = OpAction::kReduce;
  op->stage = SumStage::kFinal;
  op->units = schedule_.UnitsOf(leaf_);
  op->to = {kOutputBuffer, 0};
  op->from.push_back({OwnBlock()});
}

void ScatterHalvingOps::StartLevel() {
  walk_.Start(++level_);
  level_received_ = received_[FormHere()];
  phase_ = Phase::kCopies;
  if (level_ > 1) StartMessages();
}

void ScatterHalvingOps::StartMessages() {
  walk_.Start(level_);
  copy_ = 0;
  packed_ = 0;
  messages_first_ = number_;
  phase_ = Phase::kMessages;
}

void ScatterHalvingOps::StartReductions() {
  walk_.Start(level_);
  message_ = messages_first_;
  run_ = {};
  reductions_first_ = number_;
  phase_ = Phase::kReductions;
}

// Before all messages: an executor with a small window would not come to a send behind many of them while it awaits what it has to receive.
bool ScatterHalvingOps::NextCopy(ScheduleOp* op) {
  while (!in_run_) {
    if (!walk_.Next(&run_)) return false;
    in_run_ = IsPacked(run_, level_);
    block_ = run_.begin;
    block_at_ = 0;
  }
  op->Clear();
  FillCopy(op);
  return true;
}

bool ScatterHalvingOps::NextMessage(ScheduleOp* op) {
  if (!walk_.Next(&run_)) return false;
  block_ = run_.begin;
  op->Clear();
  FillMessage(op);
  return true;
}

bool ScatterHalvingOps::NextReduction(ScheduleOp* op) {
  if (!in_run_) {
    do {
      if (run_.blocks > 0) ++message_;  // behind that of the run before it
      if (!walk_.Next(&run_)) return false;
    } while (!run_.kept);
    block_ = run_.begin;
    block_at_ = 0;
  }
  op->Clear();
  FillReduction(op);
  return true;
}

bool ScatterHalvingOps::Next(ScheduleOp* op) {
  bool found = false;
  while (!found && phase_ != Phase::kEnd) {
    switch (phase_) {
      case Phase::kAlone:
        if (path_.levels() > 0) {
          StartLevel();
          break;
        }
        phase_ = Phase::kEnd;
        op->Clear();
        FillAlone(op);
        found = true;
        break;
      case Phase::kCopies:
        found = NextCopy(op);
        if (!found) StartMessages();
        break;
      case Phase::kMessages:
        found = NextMessage(op);
        if (!found) StartReductions();
        break;
      case Phase::kReductions:
        found = NextReduction(op);
        if (found) break;
        reduced_ = {reductions_first_, number_, 1};
        phase_ = Phase::kEnd;
        if (level_ < path_.levels()) StartLevel();
        break;
      case Phase::kEnd:
        break;
    }
  }
  if (found) ++number_;
  return found;
}

// What an executor keeps for each of thousands of operations.
static_assert(sizeof(ScatterHalvingOps) <= 4096);

std::vector<ScratchBuffer> ScatterHalvingSchedule::ScratchOf(int participant) const {
  const ScatterTotals totals = TotalsOf(*this, participant);
  return {{totals.sums, UnitForm::kAccumulator},
          {totals.received[0], UnitForm::kElement},
          {totals.received[1], UnitForm::kAccumulator},
          {totals.packed, order_.FormOf(LeafOf(participant))}};
}

std::unique_ptr<OpStream> ScatterHalvingSchedule::OpsOf(int participant) const {
  return std::make_unique<ScatterHalvingOps>(*this, participant);
}

SentUnits ScatterHalvingSchedule::SentBy(int participant) const {
  const ScatterTotals totals = TotalsOf(*this, participant);
  SentUnits sent = {.accumulators = totals.sent_later};
  (order_.FormOf(LeafOf(participant)) == UnitForm::kElement ? sent.elements : sent.accumulators) +=
      totals.sent_first;
  return sent;
}

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeTreeHalvingScatterSchedule(const ScheduleGoal& goal) {
  return std::make_unique<ScatterHalvingSchedule>(goal);
}

}  // namespace weft
