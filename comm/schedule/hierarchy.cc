// Ops of member l of group g:
//   for s = 1 to L-1: send slice l + s of the input to that member; receive the own slice of member l - s. Then add them
//   the ops of participant g of the schedule across, on slice l
//   for s = 1 to L-1: send the result of the slice to member l + s; receive that of member l - s
#include "comm/schedule/hierarchy.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "comm/schedule/slices.h"

namespace weft {
namespace {

// Scratch: the members' parts of the own slice; their sum; then that of the schedule across.
constexpr uint32_t kHierarchyParts = kScratchBuffers;
constexpr uint32_t kHierarchySum = kScratchBuffers + 1;
constexpr uint32_t kHierarchyAcross = kScratchBuffers + 2;

class HierarchySchedule final : public CollectiveSchedule {
 public:
  // `lanes`: the schedule across of each member.
  HierarchySchedule(const ScheduleGoal& goal, int group,
                    std::vector<std::unique_ptr<CollectiveSchedule>> lanes)
      : CollectiveSchedule(goal),
        group_(group),
        lanes_(std::move(lanes)),
        name_(StrCat("hierarchy of ", group, ", ", lanes_[0]->algorithm())) {}

  std::string_view algorithm() const override { return name_; }

  uint32_t window() const override { return std::max<uint32_t>(2, lanes_[0]->window()); }

  bool in_place() const override { return HasPlaceInPlace(goal()); }

  std::vector<ScratchBuffer> ScratchOf(int participant) const override {
    const uint64_t units = Slice(MemberOf(participant)).units;
    std::vector<ScratchBuffer> scratch = {
        {units * static_cast<uint64_t>(group_ - 1), UnitForm::kElement},
        {units, goal().order_free ? UnitForm::kElement : UnitForm::kAccumulator}};
    const std::vector<ScratchBuffer> across = Lane(participant).ScratchOf(GroupOf(participant));
    scratch.insert(scratch.end(), across.begin(), across.end());
    return scratch;
  }

  std::unique_ptr<OpStream> OpsOf(int participant) const override;

  SentUnits SentBy(int participant) const override {
    SentUnits sent = Lane(participant).SentBy(GroupOf(participant));
    const uint64_t own = Slice(MemberOf(participant)).units;
    sent.elements += goal().count - own + own * static_cast<uint64_t>(group_ - 1);
    return sent;
  }

  int group() const { return group_; }

  int MemberOf(int participant) const { return participant % group_; }

  int GroupOf(int participant) const { return participant / group_; }

  const CollectiveSchedule& Lane(int participant) const {
    return *lanes_[static_cast<size_t>(MemberOf(participant))];
  }

  UnitSlice Slice(int member) const { return SliceOf(goal().count, group_, member); }

 private:
  const int group_;
  const std::vector<std::unique_ptr<CollectiveSchedule>> lanes_;
  const std::string name_;
};

class HierarchyOps final : public OpStream {
 public:
  HierarchyOps(const HierarchySchedule& schedule, int participant)
      : schedule_(schedule),
        member_(schedule.MemberOf(participant)),
        first_(participant - member_),
        own_(schedule.Slice(member_)),
        across_(schedule.Lane(participant).OpsOf(schedule.GroupOf(participant))) {}

  bool Next(ScheduleOp* op) override {
    const auto exchanges = static_cast<uint32_t>(2 * (schedule_.group() - 1));
    if (number_ < exchanges) {
      FillExchange(number_, /*result=*/false, op);
    } else if (number_ == exchanges) {
      FillSum(op);
    } else if (across_end_ == 0 && across_->Next(op)) {
      PlaceAcross(op, exchanges + 1);
    } else {
      if (across_end_ == 0) across_end_ = number_;
      if (number_ == across_end_ + exchanges) return false;
      FillExchange(number_ - across_end_, /*result=*/true, op);
      // A slice of no units has no ops across.
      const bool waits = op->action == OpAction::kSend && across_end_ > exchanges + 1;
      if (waits) op->after.push_back({exchanges + 1, across_end_});
    }
    ++number_;
    return true;
  }

 private:
  // The parts of the members but this one, in their order.
  UnitPlace PartOf(int member) const {
    return {kHierarchyParts,
            own_.units * static_cast<uint64_t>(member < member_ ? member : member - 1)};
  }

  void FillExchange(uint32_t index, bool result, ScheduleOp* op) const {
    const int step = static_cast<int>(index / 2) + 1;
    const bool sends = index % 2 == 0;
    const int peer = (member_ + (sends ? step : schedule_.group() - step)) % schedule_.group();
    const UnitSlice slice = schedule_.Slice(peer);
    op->Clear();
    op->action = sends ? OpAction::kSend : OpAction::kRecv;
    op->peer = first_ + peer;
    op->tag = result ? 1 : 0;
    // Parts of the peer's slice go out, of the own slice come in; results the other way round.
    op->units = sends == result ? own_.units : slice.units;
    if (sends) {
      AddSource(
          op, result ? UnitPlace{kOutputBuffer, own_.begin} : UnitPlace{kInputBuffer, slice.begin});
    } else {
      op->to = result ? UnitPlace{kOutputBuffer, slice.begin} : PartOf(peer);
    }
  }

  void FillSum(ScheduleOp* op) const {
    op->Clear();
    op->action = OpAction::kReduce;
    op->units = own_.units;
    op->to = {kHierarchySum, 0};
    for (int member = 0; member < schedule_.group(); ++member)
      AddSource(op, member == member_ ? UnitPlace{kInputBuffer, own_.begin} : PartOf(member));
    op->after.push_back({1, number_, 2});
  }

  UnitPlace PlaceOf(const UnitPlace& place) const {
    if (place.buffer == kInputBuffer || place.buffer == kPartialsBuffer)
      return {kHierarchySum, place.offset};
    if (place.buffer == kOutputBuffer) return {kOutputBuffer, own_.begin + place.offset};
    return {place.buffer - kScratchBuffers + kHierarchyAcross, place.offset};
  }

  // What an op across is in the whole.
  void PlaceAcross(ScheduleOp* op, uint32_t begin) const {
    bool reads_sum = false;
    if (op->peer >= 0) op->peer = op->peer * schedule_.group() + member_;
    if (op->action != OpAction::kSend) op->to = PlaceOf(op->to);
    for (SourceRun& run : op->from) {
      run.place = PlaceOf(run.place);
      reads_sum = reads_sum || run.place.buffer == kHierarchySum;
    }
    for (OpRange& range : op->after) {
      range.begin += begin;
      range.end += begin;
    }
    if (reads_sum) op->after.insert(op->after.begin(), {begin - 1, begin});
  }

  const HierarchySchedule& schedule_;
  const int member_;
  const int first_;  // participant that is member 0
  const UnitSlice own_;
  const std::unique_ptr<OpStream> across_;
  uint32_t number_ = 0;      // of the op to come
  uint32_t across_end_ = 0;  // number of the first op behind those across; 0 while there are more
};

std::unique_ptr<OpStream> HierarchySchedule::OpsOf(int participant) const {
  return std::make_unique<HierarchyOps>(*this, participant);
}

// The canonical tree of groups whose sums are accumulators.
ReductionOrder OrderOfGroups(int groups) {
  std::vector<OrderPiece> pieces;
  std::vector<uint8_t> merges;
  for (int group = 0; group < groups; ++group) {
    pieces.push_back({group, UnitForm::kAccumulator});
    // As a binary counter carries; what is left over is added at the end.
    merges.push_back(static_cast<uint8_t>(group + 1 == groups
                                              ? std::popcount(static_cast<uint32_t>(group))
                                              : std::countr_one(static_cast<uint32_t>(group))));
  }
  absl::StatusOr<ReductionOrder> order =
      ReductionOrder::Create(groups, std::move(pieces), std::move(merges));
  WEFT_CHECK(order.ok());
  return *std::move(order);
}

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeHierarchySchedule(
    const ScheduleGoal& goal, int group,
    std::unique_ptr<CollectiveSchedule> (*across)(const ScheduleGoal& goal)) {
  if (goal.kind != GoalKind::kAllReduce || !goal.EffectiveOrder().IsCanonicalOfRanks())
    return nullptr;
  if (group < 2 || goal.participants % group != 0) return nullptr;
  const bool subtrees =
      std::has_single_bit(static_cast<uint32_t>(group)) || group == goal.participants;
  if (!goal.order_free && !subtrees) return nullptr;
  ScheduleGoal lane = {.kind = GoalKind::kAllReduce,
                       .participants = goal.participants / group,
                       .order_free = goal.order_free};
  if (!goal.order_free) lane.order = OrderOfGroups(lane.participants);
  std::vector<std::unique_ptr<CollectiveSchedule>> lanes;
  for (int member = 0; member < group; ++member) {
    lane.count = SliceOf(goal.count, group, member).units;
    lanes.push_back(across(lane));
    if (lanes.back() == nullptr) return nullptr;
  }
  return std::make_unique<HierarchySchedule>(goal, group, std::move(lanes));
}

}  // namespace weft
