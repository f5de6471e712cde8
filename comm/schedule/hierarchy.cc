// Ops of a participant, which is a member of its island, in rounds, one for each segment:
//   fold:   for s = 1 to L-1: send the own part of each lane that member + s owns; receive the parts of own lanes from member - s
//   across: for each own lane: add the parts of each piece; then the ops of the schedule across
//   spread: for s = 1 to L-1: send the results of own lanes to member + s; receive those of the lanes that member - s owns
// The list has fold 0, fold 1, across 0, fold 2, across 1, spread 0, fold 3, ..., so that three rounds are under way. Every third round has the
// same scratch.
#include "comm/schedule/hierarchy.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/text.h"
#include "comm/schedule/slices.h"
#include "comm/schedule/tree_pieces.h"

namespace weft {
namespace {

using AcrossMaker = std::unique_ptr<CollectiveSchedule> (*)(const ScheduleGoal& goal);

// A piece that an island adds by itself.
struct LanePiece {
  std::vector<int> members;  // of the island, left to right

  bool alone() const { return members.size() == 1; }
};

// What islands there are, and what each of them adds.
struct HierarchyIslands {
  std::vector<std::vector<int>> participants;  // by island
  std::vector<int> island_of;                  // by participant
  std::vector<int> member_of;
  std::vector<std::vector<LanePiece>> pieces;  // by island, in the order of the tree
  size_t largest = 0;
  ReductionOrder order;  // of what goes across

  int count() const { return static_cast<int>(participants.size()); }

  int SizeOf(int island) const {
    return static_cast<int>(participants[static_cast<size_t>(island)].size());
  }

  int ParticipantAt(int island, int member) const {
    return participants[static_cast<size_t>(island)][static_cast<size_t>(member)];
  }
};

struct Lane {
  UnitSlice slice;        // of the side that has all units
  uint64_t in_block = 0;  // where it begins in its block, of goals that have blocks
  int root_island = -1;   // -1: all islands get the result
  int root = -1;          // its participant there
  int member = 0;         // that owns it on other islands, modulo their size
};

bool IsBlockwise(GoalKind kind) {
  return kind == GoalKind::kReduceScatter || kind == GoalKind::kAllGather;
}

class HierarchyPart;

class HierarchySchedule final : public CollectiveSchedule {
 public:
  HierarchySchedule(const ScheduleGoal& goal, HierarchyIslands islands, int segments,
                    AcrossMaker across)
      : CollectiveSchedule(goal),
        islands_(std::move(islands)),
        segments_(segments),
        across_(across) {
    const std::unique_ptr<CollectiveSchedule> lane = AcrossOf(LaneAt(0));
    name_ = StrCat("hierarchy of ", islands_.count(), " islands, ", lane->algorithm());
    window_ = std::max<uint32_t>(kWindow, lane->window());
  }

  std::string_view algorithm() const override { return name_; }

  uint32_t window() const override { return window_; }

  bool in_place() const override { return HasPlaceInPlace(goal()); }

  std::vector<ScratchBuffer> ScratchOf(int participant) const override;
  std::unique_ptr<OpStream> OpsOf(int participant) const override;
  SentUnits SentBy(int participant) const override;

  const HierarchyIslands& islands() const { return islands_; }

  int segments() const override { return segments_; }

  int lanes() const {
    return segments_ *
           (IsBlockwise(goal().kind) ? goal().participants : static_cast<int>(islands_.largest));
  }

  Lane LaneAt(int number) const {
    Lane lane;
    const int whole = number / segments_;
    UnitSlice of = SliceOf(goal().count, static_cast<int>(islands_.largest), whole);
    if (IsBlockwise(goal().kind)) {
      of = {goal().BlockBegin(whole), goal().BlockUnits(whole)};
      lane.root = whole;
    } else {
      if (goal().HasRoot()) lane.root = goal().root;
      lane.member = whole;
    }
    lane.slice = SliceOf(of.units, segments_, number % segments_);
    lane.in_block = lane.slice.begin;
    lane.slice.begin += of.begin;
    if (lane.root < 0) return lane;
    lane.root_island = islands_.island_of[static_cast<size_t>(lane.root)];
    if (IsBlockwise(goal().kind)) lane.member = islands_.member_of[static_cast<size_t>(lane.root)];
    return lane;
  }

  // The member of an island that owns a lane.
  int OwnerOf(const Lane& lane, int island) const {
    return island == lane.root_island ? islands_.member_of[static_cast<size_t>(lane.root)]
                                      : lane.member % islands_.SizeOf(island);
  }

  std::unique_ptr<CollectiveSchedule> AcrossOf(const Lane& lane) const {
    ScheduleGoal across{.participants = islands_.count(),
                        .count = lane.slice.units,
                        .order_free = goal().order_free};
    if (goal().Reduces()) across.order = islands_.order;
    if (goal().kind != GoalKind::kAllReduce) {
      across.kind = goal().Reduces() ? GoalKind::kReduce : GoalKind::kBroadcast;
      across.root = lane.root_island;
    }
    return across_(across);
  }

  bool Spreads() const {
    return goal().kind == GoalKind::kAllReduce || goal().kind == GoalKind::kAllGather ||
           goal().kind == GoalKind::kBroadcast;
  }

 private:
  std::shared_ptr<const HierarchyPart> PartOf(int participant) const;

  // Ops that may be under way at once, so that many lanes are.
  static constexpr uint32_t kWindow = 16;

  const HierarchyIslands islands_;
  const int segments_;
  const AcrossMaker across_;
  std::string name_;
  uint32_t window_ = kWindow;
  mutable Mutex mutex_;
  // The last one that was asked for: whoever carries a schedule out asks for one participant's scratch and ops.
  mutable std::shared_ptr<const HierarchyPart> part_ WEFT_GUARDED_BY(mutex_);
  mutable int part_of_ WEFT_GUARDED_BY(mutex_) = -1;
};

// One participant's part, put together.
class HierarchyPart {
 public:
  HierarchyPart(const HierarchySchedule& schedule, int participant)
      : schedule_(schedule),
        goal_(schedule.goal()),
        islands_(schedule.islands()),
        island_(islands_.island_of[static_cast<size_t>(participant)]),
        member_(islands_.member_of[static_cast<size_t>(participant)]),
        size_(islands_.SizeOf(island_)) {
    for (int number = 0; number < schedule_.lanes(); ++number) {
      const Lane lane = schedule_.LaneAt(number);
      const int owner = schedule_.OwnerOf(lane, island_);
      if (owner == member_) own_.push_back(static_cast<size_t>(number));
      lanes_.push_back({.lane = lane, .number = number, .owner = owner});
    }
    MakeScratch();
    const int rounds = schedule_.segments();
    for (int step = 0; step < rounds + 2; ++step) {
      if (goal_.Reduces() && step < rounds) Exchange(/*result=*/false, step);
      if (step >= 1 && step <= rounds) GoAcross(step - 1);
      if (schedule_.Spreads() && step >= 2) Exchange(/*result=*/true, step - 2);
    }
  }

  const std::vector<ScratchBuffer>& scratch() const { return scratch_; }

  const std::vector<ScheduleOp>& ops() const { return ops_; }

  const SentUnits& sent() const { return sent_; }

 private:
  struct LaneOfPart {
    Lane lane;
    int number = 0;
    int owner = -1;  // member
    // Of own lanes: scratch buffers, and which ops came before.
    uint32_t parts = 0;     // of the other members, for pieces of several
    uint32_t raw = 0;       // pieces of one member
    uint32_t partials = 0;  // pieces of several
    uint32_t across = 0;    // the first one of the schedule across
    std::unique_ptr<CollectiveSchedule> schedule;
    std::vector<uint32_t> ready;     // ops by which the pieces are there
    std::vector<uint32_t> received;  // by member; the op that receives its part
    OpRange crossing;                // its sums and the ops across
    std::vector<OpRange> before;     // all of the lane that had this scratch
  };

  static constexpr int kRoundsUnderWay = 3;
  static constexpr uint32_t kNone = UINT32_MAX;

  const std::vector<LanePiece>& Pieces() const {
    return islands_.pieces[static_cast<size_t>(island_)];
  }

  // The only piece is this member's input: it need not be copied.
  bool IsInput() const { return size_ == 1; }

  int RoundOf(const LaneOfPart& lane) const { return lane.number % schedule_.segments(); }

  // Lanes of the same owner, kRoundsUnderWay rounds apart, have the same scratch, as large as the largest of them needs it.
  void MakeScratch() {
    for (const size_t number : own_) {
      LaneOfPart& own = lanes_[number];
      own.schedule = schedule_.AcrossOf(own.lane);
      own.received.assign(static_cast<size_t>(size_), kNone);
      if (RoundOf(own) < kRoundsUnderWay) {
        MakeScratchOf(&own);
        continue;
      }
      const LaneOfPart& first = lanes_[number - kRoundsUnderWay];
      own.parts = first.parts;
      own.raw = first.raw;
      own.partials = first.partials;
      own.across = first.across;
    }
  }

  // Cuts differ by a unit.
  void MakeScratchOf(LaneOfPart* own) {
    Lane largest = own->lane;
    for (int round = RoundOf(*own); round < schedule_.segments(); round += kRoundsUnderWay) {
      const size_t number = static_cast<size_t>(own->number + round - RoundOf(*own));
      if (lanes_[number].lane.slice.units > largest.slice.units) largest = lanes_[number].lane;
    }
    const uint64_t units = largest.slice.units;
    if (goal_.Reduces()) {
      uint64_t raw = 0;
      uint64_t partials = 0;
      for (const LanePiece& piece : Pieces())
        (piece.alone() ? raw : partials) += units;
      const UnitForm sum = goal_.order_free ? UnitForm::kElement : UnitForm::kAccumulator;
      own->parts =
          Scratch(partials == 0 ? 0 : units * static_cast<uint64_t>(size_), UnitForm::kElement);
      own->raw = IsInput() ? kInputBuffer : Scratch(raw, UnitForm::kElement);
      own->partials = Scratch(partials, sum);
    }
    own->across = kScratchBuffers + static_cast<uint32_t>(scratch_.size());
    for (ScratchBuffer buffer : schedule_.AcrossOf(largest)->ScratchOf(island_)) {
      // Though the lane has no fewer units than the others, a slice of it may have one less, of each piece.
      buffer.units += static_cast<uint64_t>(std::max(islands_.count(), islands_.order.pieces()));
      scratch_.push_back(buffer);
    }
  }

  uint32_t Scratch(uint64_t units, UnitForm form) {
    scratch_.push_back({units, form});
    return kScratchBuffers + static_cast<uint32_t>(scratch_.size()) - 1;
  }

  // Where the part of a member is taken that belongs to an own lane.
  UnitPlace PlaceOfPart(const LaneOfPart& own, int member) const {
    const uint64_t units = own.lane.slice.units;
    uint64_t raw = 0;
    for (const LanePiece& piece : Pieces()) {
      if (!piece.alone()) continue;
      if (piece.members.front() == member) return {own.raw, raw};
      raw += units;
    }
    return {own.parts, units * static_cast<uint64_t>(member)};
  }

  // Parts to the owners of lanes, or results from them: step by step, so that no two send to the same member at once, and in a step
  // lane by lane, so that what both ends of a message have before it is the same and nothing waits in a circle.
  void Exchange(bool result, int round) {
    for (int step = 1; step < size_; ++step) {
      const int to = (member_ + step) % size_;
      const int from = (member_ + size_ - step) % size_;
      const std::vector<size_t> out = LanesOf(result ? member_ : to, round);
      const std::vector<size_t> in = LanesOf(result ? from : member_, round);
      for (size_t i = 0; i < std::max(out.size(), in.size()); ++i) {
        if (i < out.size()) Send(lanes_[out[i]], to, result);
        if (i < in.size()) Receive(&lanes_[in[i]], from, result);
      }
    }
  }

  std::vector<size_t> LanesOf(int owner, int round) const {
    std::vector<size_t> owned;
    for (auto number = static_cast<size_t>(round); number < lanes_.size();
         number += static_cast<size_t>(schedule_.segments())) {
      if (lanes_[number].owner == owner) owned.push_back(number);
    }
    return owned;
  }

  // Who writes into an own lane's scratch comes after whoever had it before.
  void AddBefore(const LaneOfPart& own, ScheduleOp* op) const {
    op->after.insert(op->after.end(), own.before.begin(), own.before.end());
  }

  void GoAcross(int round) {
    for (const size_t number : LanesOf(member_, round)) {
      LaneOfPart& own = lanes_[number];
      const auto begin = static_cast<uint32_t>(ops_.size());
      if (goal_.Reduces()) AddParts(&own);
      GoAcross(&own);
      own.crossing = {begin, static_cast<uint32_t>(ops_.size()), 1};
      if (round + kRoundsUnderWay < schedule_.segments())
        lanes_[number + kRoundsUnderWay].before = AllOf(own);
    }
  }

  void Send(const LaneOfPart& at, int to, bool result) {
    ScheduleOp& op = NewMessage(at, to, result);
    op.action = OpAction::kSend;
    AddSource(&op, result ? ResultPlace(at) : UnitPlace{kInputBuffer, at.lane.slice.begin});
    if (result && at.crossing.end > at.crossing.begin) op.after.push_back(at.crossing);
    sent_.elements += op.units;
  }

  void Receive(LaneOfPart* at, int from, bool result) {
    const auto index = static_cast<uint32_t>(ops_.size());
    ScheduleOp& op = NewMessage(*at, from, result);
    op.action = OpAction::kRecv;
    op.to = result ? ResultPlace(*at) : PlaceOfPart(*at, from);
    if (result) return;
    AddBefore(*at, &op);
    at->received[static_cast<size_t>(from)] = index;
    if (op.to.buffer == at->raw) at->ready.push_back(index);
  }

  ScheduleOp& NewMessage(const LaneOfPart& at, int member, bool result) {
    ScheduleOp& op = ops_.emplace_back();
    op.peer = islands_.ParticipantAt(island_, member);
    op.units = at.lane.slice.units;
    op.tag = 2 * static_cast<uint64_t>(at.number) + (result ? 1 : 0);
    return op;
  }

  UnitPlace ResultPlace(const LaneOfPart& at) const {
    return {kOutputBuffer,
            goal_.kind == GoalKind::kReduceScatter ? at.lane.in_block : at.lane.slice.begin};
  }

  void AddParts(LaneOfPart* own) {
    const uint64_t units = own->lane.slice.units;
    uint64_t partial = 0;
    for (const LanePiece& piece : Pieces()) {
      const bool has_own =
          std::find(piece.members.begin(), piece.members.end(), member_) != piece.members.end();
      if (piece.alone() && (!has_own || IsInput())) continue;
      const auto index = static_cast<uint32_t>(ops_.size());
      ScheduleOp& op = ops_.emplace_back();
      op.units = units;
      AddBefore(*own, &op);
      own->ready.push_back(index);
      if (piece.alone()) {
        op.to = PlaceOfPart(*own, member_);
        AddSource(&op, {kInputBuffer, own->lane.slice.begin});
        continue;
      }
      op.action = OpAction::kReduce;
      op.to = {own->partials, partial};
      partial += units;
      std::vector<uint32_t> before;
      for (const int member : piece.members) {
        if (member == member_) {
          AddSource(&op, {kInputBuffer, own->lane.slice.begin});
        } else {
          AddSource(&op, PlaceOfPart(*own, member));
          before.push_back(own->received[static_cast<size_t>(member)]);
        }
      }
      std::sort(before.begin(), before.end());
      for (const uint32_t receive : before)
        AddAfter(&op, receive);
    }
    std::sort(own->ready.begin(), own->ready.end());
  }

  void GoAcross(LaneOfPart* own) {
    const auto begin = static_cast<uint32_t>(ops_.size());
    const std::unique_ptr<OpStream> stream = own->schedule->OpsOf(island_);
    for (ScheduleOp op; stream->Next(&op);) {
      bool reads_pieces = false;
      if (op.peer >= 0) {
        op.peer = islands_.ParticipantAt(op.peer, schedule_.OwnerOf(own->lane, op.peer));
        op.tag =
            op.tag * static_cast<uint64_t>(schedule_.lanes()) + static_cast<uint64_t>(own->number);
      }
      if (op.action != OpAction::kSend) op.to = PlaceOf(*own, op.to);
      for (SourceRun& run : op.from) {
        reads_pieces =
            reads_pieces || run.place.buffer == kInputBuffer || run.place.buffer == kPartialsBuffer;
        if (op.action == OpAction::kSend) CountSent(*own, run.place.buffer, op.units);
        run.place = PlaceOf(*own, run.place);
      }
      std::vector<OpRange> after = std::move(op.after);
      op.after.clear();
      AddBefore(*own, &op);
      if (reads_pieces) {
        for (const uint32_t index : own->ready)
          AddAfter(&op, index);
      }
      for (const OpRange& range : after)
        op.after.push_back({range.begin + begin, range.end + begin, range.step});
      ops_.push_back(std::move(op));
    }
  }

  // Of an own lane that has gone across; with those before it, if it was too short to have any.
  std::vector<OpRange> AllOf(const LaneOfPart& own) const {
    std::vector<uint32_t> receives = own.received;
    std::sort(receives.begin(), receives.end());
    ScheduleOp all;
    for (const uint32_t receive : receives) {
      if (receive != kNone) AddAfter(&all, receive);
    }
    if (own.crossing.end > own.crossing.begin) all.after.push_back(own.crossing);
    return all.after.empty() ? own.before : all.after;
  }

  // What an op across names, in the whole.
  UnitPlace PlaceOf(const LaneOfPart& own, const UnitPlace& place) const {
    switch (place.buffer) {
      case kInputBuffer:
        if (goal_.Reduces() && !IsInput())
          return {goal_.order_free ? own.partials : own.raw, place.offset};
        return {kInputBuffer,
                place.offset + (goal_.kind == GoalKind::kAllGather ? own.lane.in_block
                                                                   : own.lane.slice.begin)};
      case kPartialsBuffer:
        return {own.partials, place.offset};
      case kOutputBuffer: {
        const UnitPlace result = ResultPlace(own);
        return {result.buffer, result.offset + place.offset};
      }
      default:
        return {place.buffer - kScratchBuffers + own.across, place.offset};
    }
  }

  void CountSent(const LaneOfPart& own, uint32_t buffer, uint64_t units) {
    bool accumulator = buffer == kPartialsBuffer && !goal_.order_free;
    if (buffer >= kScratchBuffers) {
      accumulator = scratch_[buffer - kScratchBuffers + own.across - kScratchBuffers].form ==
                    UnitForm::kAccumulator;
    }
    (accumulator ? sent_.accumulators : sent_.elements) += units;
  }

  const HierarchySchedule& schedule_;
  const ScheduleGoal& goal_;
  const HierarchyIslands& islands_;
  const int island_;
  const int member_;
  const int size_;
  std::vector<LaneOfPart> lanes_;
  std::vector<size_t> own_;
  std::vector<ScratchBuffer> scratch_;
  std::vector<ScheduleOp> ops_;
  SentUnits sent_;
};

class HierarchyOps final : public OpStream {
 public:
  explicit HierarchyOps(std::shared_ptr<const HierarchyPart> part) : part_(std::move(part)) {}

  bool Next(ScheduleOp* op) override {
    if (next_ == part_->ops().size()) return false;
    *op = part_->ops()[next_++];
    return true;
  }

 private:
  const std::shared_ptr<const HierarchyPart> part_;
  size_t next_ = 0;
};

std::shared_ptr<const HierarchyPart> HierarchySchedule::PartOf(int participant) const {
  MutexLock lock(mutex_);
  if (part_of_ != participant) {
    part_ = std::make_shared<const HierarchyPart>(*this, participant);
    part_of_ = participant;
  }
  return part_;
}

std::vector<ScratchBuffer> HierarchySchedule::ScratchOf(int participant) const {
  return PartOf(participant)->scratch();
}

std::unique_ptr<OpStream> HierarchySchedule::OpsOf(int participant) const {
  return std::make_unique<HierarchyOps>(PartOf(participant));
}

SentUnits HierarchySchedule::SentBy(int participant) const {
  return PartOf(participant)->sent();
}

// Without an order each island adds all that it has, and in place of accumulators has elements.
void AddPieces(const ScheduleGoal& goal, HierarchyIslands* islands) {
  islands->pieces.resize(islands->participants.size());
  if (goal.order_free) {
    for (int island = 0; island < islands->count(); ++island) {
      LanePiece& all = islands->pieces[static_cast<size_t>(island)].emplace_back();
      for (int member = 0; member < islands->SizeOf(island); ++member)
        all.members.push_back(member);
    }
    return;
  }
  const TreePieces tree = PiecesOf(islands->island_of);
  std::vector<OrderPiece> order;
  for (const TreePiece& piece : tree.pieces) {
    LanePiece& one = islands->pieces[static_cast<size_t>(piece.island)].emplace_back();
    const auto first = islands->member_of.begin() + piece.first_rank;
    one.members.assign(first, first + piece.rank_count);
    order.push_back({piece.island, one.alone() ? UnitForm::kElement : UnitForm::kAccumulator});
  }
  auto made = ReductionOrder::Create(islands->count(), std::move(order), tree.merges);
  if (made.ok()) islands->order = *std::move(made);
}

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeHierarchySchedule(const ScheduleGoal& goal,
                                                          const std::vector<int>& island_of,
                                                          int segments, AcrossMaker across) {
  const bool has_lanes = (goal.Reduces() && !goal.IsPrefix()) ||
                         goal.kind == GoalKind::kAllGather || goal.kind == GoalKind::kBroadcast;
  if (!has_lanes || island_of.size() != static_cast<size_t>(goal.participants)) return nullptr;
  if (goal.Reduces() && !goal.EffectiveOrder().IsCanonicalOfRanks()) return nullptr;
  HierarchyIslands islands{.island_of = island_of};
  islands.participants.resize(
      static_cast<size_t>(*std::max_element(island_of.begin(), island_of.end())) + 1);
  for (int participant = 0; participant < goal.participants; ++participant) {
    auto& members =
        islands.participants[static_cast<size_t>(island_of[static_cast<size_t>(participant)])];
    islands.member_of.push_back(static_cast<int>(members.size()));
    members.push_back(participant);
    islands.largest = std::max(islands.largest, members.size());
  }
  if (islands.count() < 2) return nullptr;
  if (goal.Reduces()) {
    AddPieces(goal, &islands);
    if (!goal.order_free && islands.order.pieces() == 0) return nullptr;  // a tree that is too deep
  }
  ScheduleGoal lane{.participants = islands.count(), .order_free = goal.order_free};
  lane.order = islands.order;
  if (goal.kind != GoalKind::kAllReduce)
    lane.kind = goal.Reduces() ? GoalKind::kReduce : GoalKind::kBroadcast;
  if (across(lane) == nullptr) return nullptr;
  return std::make_unique<HierarchySchedule>(goal, std::move(islands), segments, across);
}

}  // namespace weft
