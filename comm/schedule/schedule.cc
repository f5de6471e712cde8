#include "comm/schedule/schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int kParticipantsMax = 1 << 20;
// So that sums of a few offsets fit into 64 bits.
constexpr uint64_t kUnitsMax = uint64_t{1} << 60;

class IndexedOps final : public OpStream {
 public:
  IndexedOps(const IndexedSchedule& schedule, int participant)
      : schedule_(schedule), participant_(participant), count_(schedule.OpCount(participant)) {}

  bool Next(ScheduleOp* op) override {
    if (next_ == count_) return false;
    op->Clear();
    schedule_.OpAt(participant_, next_++, op);
    return true;
  }

 private:
  const IndexedSchedule& schedule_;
  const int participant_;
  const uint32_t count_;
  uint32_t next_ = 0;
};

uint64_t PieceUnits(const ScheduleGoal& goal, int participant, UnitForm form) {
  const ReductionOrder order = goal.EffectiveOrder();
  uint64_t pieces = 0;
  for (int i = 0; i < order.PieceCountOf(participant); ++i) {
    if (order.FormOf(order.PieceOf(participant, i)) == form) ++pieces;
  }
  return pieces * goal.VectorUnits();
}

}  // namespace

std::string_view GoalName(GoalKind kind) {
  switch (kind) {
    case GoalKind::kAllReduce:
      return "all_reduce";
    case GoalKind::kReduceScatter:
      return "reduce_scatter";
    case GoalKind::kAllGather:
      return "all_gather";
    case GoalKind::kBroadcast:
      return "broadcast";
    case GoalKind::kReduce:
      return "reduce";
    case GoalKind::kGather:
      return "gather";
    case GoalKind::kScatter:
      return "scatter";
    case GoalKind::kAllToAll:
      return "all_to_all";
    case GoalKind::kBarrier:
      return "barrier";
    case GoalKind::kScan:
      return "scan";
    case GoalKind::kExscan:
      return "exscan";
  }
  return "unknown";
}

std::string_view ActionName(OpAction action) {
  switch (action) {
    case OpAction::kSend:
      return "send";
    case OpAction::kRecv:
      return "recv";
    case OpAction::kReduce:
      return "reduce";
    case OpAction::kCopy:
      return "copy";
  }
  return "unknown";
}

bool ScheduleGoal::Reduces() const {
  return kind == GoalKind::kAllReduce || kind == GoalKind::kReduceScatter ||
         kind == GoalKind::kReduce || IsPrefix();
}

bool ScheduleGoal::HasRoot() const {
  return kind == GoalKind::kBroadcast || kind == GoalKind::kReduce || kind == GoalKind::kGather ||
         kind == GoalKind::kScatter;
}

ReductionOrder ScheduleGoal::EffectiveOrder() const {
  return order.pieces() == 0 ? ReductionOrder(participants) : order;
}

uint64_t ScheduleGoal::BlockBegin(int participant) const {
  if (blocks.empty()) return count * static_cast<uint64_t>(participant);
  return std::accumulate(blocks.begin(), blocks.begin() + participant, uint64_t{0});
}

absl::Status CheckGoal(const ScheduleGoal& goal) {
  const auto bad = [&](std::string_view why) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("a schedule of ", GoalName(goal.kind), " ", why));
  };
  if (goal.participants < 1 || goal.participants > kParticipantsMax) {
    return bad(StrCat("for ", goal.participants, " participants; 1 to ", kParticipantsMax,
                      " are possible"));
  }
  if (goal.HasRoot() ? goal.root < 0 || goal.root >= goal.participants : goal.root != 0) {
    return bad(StrCat("with root ", goal.root, " among ", goal.participants, " participants"));
  }
  if (goal.kind == GoalKind::kBarrier && goal.count != 0) return bad("has units");
  const auto vectors = static_cast<uint64_t>(std::max(goal.participants, goal.order.pieces()));
  if (goal.count > kUnitsMax / vectors / vectors)
    return bad(StrCat("of ", goal.count, " units, which are too many"));
  if (!goal.blocks.empty()) {
    const bool has_blocks =
        goal.kind == GoalKind::kReduceScatter || goal.kind == GoalKind::kAllGather;
    if (!has_blocks) return bad("has no blocks that differ");
    if (goal.count != 0) return bad("has units besides those of its blocks");
    if (goal.blocks.size() != static_cast<size_t>(goal.participants)) {
      return bad(
          StrCat("with ", goal.blocks.size(), " blocks for ", goal.participants, " participants"));
    }
    for (const uint64_t units : goal.blocks) {
      if (units > kUnitsMax / vectors / vectors)
        return bad(StrCat("with a block of ", units, " units, which are too many"));
    }
  }
  if (goal.order.pieces() != 0) {
    if (!goal.Reduces()) return bad("adds nothing, so it has no order");
    if (goal.IsPrefix() && !goal.order.OnePieceEach())
      return bad("with an order in which not everybody has one piece");
    int held = 0;
    for (int i = 0; i < goal.order.pieces(); ++i)
      held = std::max(held, goal.order.HolderOf(i) + 1);
    if (held != goal.participants) {
      return bad(StrCat("with an order for ", held, " participants, not ", goal.participants));
    }
  }
  return absl::OkStatus();
}

bool HasPlaceInPlace(const ScheduleGoal& goal) {
  switch (goal.kind) {
    case GoalKind::kAllReduce:
    case GoalKind::kReduceScatter:
    case GoalKind::kReduce:
    case GoalKind::kScan:
    case GoalKind::kExscan: {
      const ReductionOrder order = goal.EffectiveOrder();
      if (!order.OnePieceEach()) return false;
      for (int piece = 0; piece < order.pieces(); ++piece) {
        if (order.FormOf(piece) != UnitForm::kElement) return false;
      }
      return true;
    }
    case GoalKind::kAllGather:
    case GoalKind::kBroadcast:
    case GoalKind::kGather:
    case GoalKind::kScatter:
      return true;
    case GoalKind::kAllToAll:
    case GoalKind::kBarrier:
      return false;
  }
  return false;
}

uint64_t BufferUnits(const ScheduleGoal& goal, int participant, uint32_t buffer) {
  const uint64_t blocks = goal.BlocksUnits();
  const bool is_root = participant == goal.root;
  if (buffer == kPartialsBuffer)
    return goal.Reduces() ? PieceUnits(goal, participant, UnitForm::kAccumulator) : 0;
  const bool input = buffer == kInputBuffer;
  switch (goal.kind) {
    case GoalKind::kAllReduce:
    case GoalKind::kScan:
      return input ? PieceUnits(goal, participant, UnitForm::kElement) : goal.count;
    case GoalKind::kExscan:
      if (input) return PieceUnits(goal, participant, UnitForm::kElement);
      return participant == 0 ? 0 : goal.count;
    case GoalKind::kReduceScatter:
      return input ? PieceUnits(goal, participant, UnitForm::kElement)
                   : goal.BlockUnits(participant);
    case GoalKind::kReduce:
      if (input) return PieceUnits(goal, participant, UnitForm::kElement);
      return is_root ? goal.count : 0;
    case GoalKind::kAllGather:
      return input ? goal.BlockUnits(participant) : blocks;
    case GoalKind::kBroadcast:
      return input && !is_root ? 0 : goal.count;
    case GoalKind::kGather:
      if (input) return goal.count;
      return is_root ? blocks : 0;
    case GoalKind::kScatter:
      if (!input) return goal.count;
      return is_root ? blocks : 0;
    case GoalKind::kAllToAll:
      return blocks;
    case GoalKind::kBarrier:
      return 0;
  }
  return 0;
}

uint64_t SourceCount(const ScheduleOp& op) {
  uint64_t count = 0;
  for (const SourceRun& run : op.from)
    count += run.count;
  return count;
}

void AddSource(ScheduleOp* op, const UnitPlace& place) {
  if (!op->from.empty() && op->from.back().place.buffer == place.buffer) {
    SourceRun& last = op->from.back();
    if (last.count == 1 && place.offset >= last.place.offset) {
      last.stride = place.offset - last.place.offset;
      last.count = 2;
      return;
    }
    if (last.count > 1 && place.offset == last.place.offset + last.count * last.stride) {
      ++last.count;
      return;
    }
  }
  op->from.push_back({place, 1, 0});
}

void AddAfter(ScheduleOp* op, uint32_t index) {
  if (!op->after.empty()) {
    OpRange& last = op->after.back();
    const uint32_t last_index = last.end - 1;
    const bool single = last_index == last.begin;
    if (index > last_index && (single || index - last_index == last.step)) {
      last.step = index - last_index;
      last.end = index + 1;
      return;
    }
  }
  op->after.push_back({index, index + 1, 1});
}

void ScheduleOp::Clear() {
  action = OpAction::kCopy;
  stage = SumStage::kPartial;
  peer = -1;
  tag = 0;
  units = 0;
  to = {};
  from.clear();
  merges = {};
  after.clear();
}

bool ScheduleOp::operator==(const ScheduleOp& other) const {
  return action == other.action && stage == other.stage && peer == other.peer && tag == other.tag &&
         units == other.units && to == other.to && from == other.from && after == other.after &&
         std::equal(merges.begin(), merges.end(), other.merges.begin(), other.merges.end());
}

std::unique_ptr<OpStream> IndexedSchedule::OpsOf(int participant) const {
  return std::make_unique<IndexedOps>(*this, participant);
}

std::vector<ScheduleOp> ListOps(const CollectiveSchedule& schedule, int participant) {
  std::vector<ScheduleOp> ops;
  const std::unique_ptr<OpStream> stream = schedule.OpsOf(participant);
  for (ScheduleOp op; stream->Next(&op);)
    ops.push_back(op);
  return ops;
}

}  // namespace weft
