// A schedule: who sends, receives, copies and adds which part of which buffer so that a collective comes about. Schedules are data,
// computed by pure code; they name no transport, no element type and no memory.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveSchedule> schedule,
//                         MakeSchedule("direct", {.kind = GoalKind::kAllReduce, .participants = 4, .count = 1000}));
//   std::unique_ptr<OpStream> ops = schedule->OpsOf(2);
//   for (ScheduleOp op; ops->Next(&op);) ...            // everything that participant 2 has to do, one after the other
//
// The rules that whoever runs a schedule keeps to, and that VerifySchedule (verify_schedule.h) relies on:
//  S1 An op may start when the ops in its `after` have ended. Ops that stand one behind the other in the list are not ordered by that.
//  S2 `after` names earlier ops only. Ops are started in the order of the list as far as S1 allows, and at least window() ops, from the
//     first that has not ended on, can be under way at once.
//  S3 A message is named by sender, receiver and tag; there is one send and one receive of each name. Messages may overtake each other.
//  S4 A send may wait for its receive to start (rendezvous) and need not (buffered): schedules work with either. A receive writes nothing
//     before its send has started.
//  S5 An op of no units ends when it starts, and nothing is sent for it; but in a schedule with sends_empty(), as of a barrier, messages
//     without units are sent.
//  S6 Input and partials are never written. A reduction, or a copy, may write exactly where one of its sources lies; such a copy
//     touches nothing.
//
// Numbers of participants are 0 to N - 1; whether a participant is a rank or one lane of an island is the caller's. Offsets and counts are
// in units: an element, a cache line, whatever the caller's count is in.
//
// Thread-safety: a schedule is constant; any number of threads may take streams from it. A stream belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "comm/schedule/reduction_order.h"

namespace weft {

enum class GoalKind : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kBarrier,
  kScan,
  kExscan,
};
inline constexpr GoalKind kGoalKinds[] = {
    GoalKind::kAllReduce, GoalKind::kReduceScatter, GoalKind::kAllGather, GoalKind::kBroadcast,
    GoalKind::kReduce,    GoalKind::kGather,        GoalKind::kScatter,   GoalKind::kAllToAll,
    GoalKind::kBarrier,   GoalKind::kScan,          GoalKind::kExscan};

// "all_reduce".
std::string_view GoalName(GoalKind kind);

// What a schedule promises.
struct ScheduleGoal {
  GoalKind kind = GoalKind::kAllReduce;
  int participants = 1;
  uint64_t count =
      0;  // units: the whole vector of all_reduce, reduce, broadcast and scans, else one block; 0 for barrier
  int root = 0;  // of broadcast, reduce, gather and scatter
  // Of reduce_scatter and all_gather with blocks that differ: units of each participant's block; `count` is 0 then.
  std::vector<uint64_t> blocks = {};
  // True: sums may be formed in any order and rounded at any time (integers, min and max, bits, numerics=fast). False: in the
  // order below, rounded once.
  bool order_free = false;
  // What there is to add, and in which order; default: one vector of elements per participant, in canonical order.
  ReductionOrder order = {};

  bool Reduces() const;
  bool HasRoot() const;

  // True if a participant's result is of those before it, with itself or without.
  bool IsPrefix() const { return kind == GoalKind::kScan || kind == GoalKind::kExscan; }

  // How many pieces, from the first on, a participant's result is the sum of; of reductions. Those of a prefix have a piece per
  // participant, and are added along the canonical tree of so many.
  int SummedPieces(int participant) const {
    if (!IsPrefix()) return EffectiveOrder().pieces();
    return kind == GoalKind::kExscan ? participant : participant + 1;
  }

  // Of reductions; the canonical order of the participants if none was given.
  ReductionOrder EffectiveOrder() const;

  // A participant's block, of goals that have one for each, and where it begins on the side that has all of them.
  uint64_t BlockUnits(int participant) const {
    return blocks.empty() ? count : blocks[static_cast<size_t>(participant)];
  }

  uint64_t BlockBegin(int participant) const;

  // All blocks.
  uint64_t BlocksUnits() const { return BlockBegin(participants); }

  // Of a reduction: units of what is added.
  uint64_t VectorUnits() const { return kind == GoalKind::kReduceScatter ? BlocksUnits() : count; }
};

// INVALID_ARGUMENT for a goal that nothing can fulfil: no participants, a root that is none of them, too many units.
absl::Status CheckGoal(const ScheduleGoal& goal);

// True if the goal has a form in place: each participant has one input of elements, and the smaller side lies in the larger one.
bool HasPlaceInPlace(const ScheduleGoal& goal);

// Buffers of a participant. What it contributes lies in kInputBuffer; for a reduction, its pieces (reduction_order.h) one behind the other:
// in kInputBuffer those that are elements, in kPartialsBuffer those that are accumulators.
inline constexpr uint32_t kInputBuffer = 0;
inline constexpr uint32_t kOutputBuffer = 1;
inline constexpr uint32_t kPartialsBuffer = 2;
inline constexpr uint32_t kScratchBuffers = 3;  // kScratchBuffers + k: scratch buffer k

struct ScratchBuffer {
  uint64_t units = 0;
  UnitForm form = UnitForm::kElement;

  bool operator==(const ScratchBuffer& other) const = default;
};

// Units of `participant`'s input, output or partials.
uint64_t BufferUnits(const ScheduleGoal& goal, int participant, uint32_t buffer);

enum class OpAction : uint8_t { kSend, kRecv, kReduce, kCopy };
// "send".
std::string_view ActionName(OpAction action);

// What becomes of a sum. Under a canonical goal a partial one is written as accumulators.
enum class SumStage : uint8_t {
  kPartial,  // goes on
  kFinal,    // is the result: divided where the operation is avg, and rounded to elements
};

struct UnitPlace {
  uint32_t buffer = kInputBuffer;
  uint64_t offset = 0;

  bool operator==(const UnitPlace& other) const = default;
};

// `count` sources of an op: the first at `place`, the others `stride` units behind each other.
struct SourceRun {
  UnitPlace place = {};
  uint32_t count = 1;
  uint64_t stride = 0;

  bool operator==(const SourceRun& other) const = default;
};

// Ops begin, begin + step, ... below end, by their place in the participant's list.
struct OpRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t step = 1;

  bool operator==(const OpRange& other) const = default;
};

struct ScheduleOp {
  OpAction action = OpAction::kCopy;
  SumStage stage = SumStage::kPartial;  // of a reduction
  int32_t peer = -1;                    // of a message
  uint64_t tag = 0;                     // of a message
  uint64_t units = 0;                   // of each source and of what is written
  UnitPlace to = {};                    // of all but a send
  absl::InlinedVector<SourceRun, 3>
      from;  // one source of a send or copy; those of a reduction, left to right
  // How a reduction adds its sources: merges[i] sums are formed when source i has been taken, each of the last two values.
  // Empty: the canonical tree of that many sources. The memory is the schedule's.
  std::span<const uint8_t> merges;
  std::vector<OpRange> after;

  // As made, but for memory that it has and keeps.
  void Clear();

  bool operator==(const ScheduleOp& other) const;
};

// Sources of an op, all runs together.
uint64_t SourceCount(const ScheduleOp& op);

// Adds one more source behind the others, and one more op that comes before; what lies at equal distances becomes one run or range.
// Indexes are added in ascending order.
void AddSource(ScheduleOp* op, const UnitPlace& place);
void AddAfter(ScheduleOp* op, uint32_t index);

// Units that a participant sends.
struct SentUnits {
  uint64_t elements = 0;
  uint64_t accumulators = 0;

  bool operator==(const SentUnits& other) const = default;
};

// The ops of one participant, in the order of the list.
class OpStream {
 public:
  virtual ~OpStream() = default;

  // False, and *op as it was, behind the last one. Memory that *op has is used again: who keeps a few ops allocates nothing in the end.
  virtual bool Next(ScheduleOp* op) = 0;
};

class CollectiveSchedule {
 public:
  explicit CollectiveSchedule(ScheduleGoal goal) : goal_(std::move(goal)) {}

  virtual ~CollectiveSchedule() = default;
  CollectiveSchedule(const CollectiveSchedule&) = delete;
  CollectiveSchedule& operator=(const CollectiveSchedule&) = delete;

  const ScheduleGoal& goal() const { return goal_; }

  virtual std::string_view algorithm() const = 0;

  // Of S2.
  virtual uint32_t window() const = 0;

  // Into how many parts the vector, or each lane of it, is cut that go one behind the other.
  virtual int segments() const { return 1; }

  // True if messages without units are sent too (S5).
  virtual bool sends_empty() const { return goal_.kind == GoalKind::kBarrier; }

  // True if input and output may be the same memory, as they are in place: where a side consists of one block per participant, the
  // other side is the participant's own block of it.
  virtual bool in_place() const = 0;

  virtual std::vector<ScratchBuffer> ScratchOf(int participant) const = 0;
  virtual std::unique_ptr<OpStream> OpsOf(int participant) const = 0;

  // What the theory of the algorithm says; the verifier counts and compares.
  virtual SentUnits SentBy(int participant) const = 0;

 private:
  const ScheduleGoal goal_;
};

// A schedule whose ops can be computed from their number.
class IndexedSchedule : public CollectiveSchedule {
 public:
  using CollectiveSchedule::CollectiveSchedule;

  virtual uint32_t OpCount(int participant) const = 0;
  // For index below OpCount; *op is clear.
  virtual void OpAt(int participant, uint32_t index, ScheduleOp* op) const = 0;

  std::unique_ptr<OpStream> OpsOf(int participant) const final;
};

// All ops of a participant.
std::vector<ScheduleOp> ListOps(const CollectiveSchedule& schedule, int participant);

}  // namespace weft
