#include "comm/hierarchy/span_schedule.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "comm/hierarchy/scatter_choice.h"
#include "comm/kernels/reduce.h"
#include "comm/kernels/reduce_stage.h"
#include "comm/schedule/algorithms.h"
#include "comm/schedule/exchange.h"
#include "comm/schedule/hierarchy.h"
#include "comm/schedule/tree_pieces.h"
#include "fmt/format.h"

namespace weft {
namespace {

// Of a kind whose counts all ranks know.
GoalKind GoalKindOf(OpKind kind) {
  switch (kind) {
    case OpKind::kBarrier:
      return GoalKind::kBarrier;
    case OpKind::kAllReduce:
    case OpKind::kAllReduceIov:
      return GoalKind::kAllReduce;
    case OpKind::kReduce:
      return GoalKind::kReduce;
    case OpKind::kBroadcast:
      return GoalKind::kBroadcast;
    case OpKind::kAllGather:
    case OpKind::kAllGatherV:
    case OpKind::kAllGatherIov:
      return GoalKind::kAllGather;
    case OpKind::kReduceScatter:
    case OpKind::kReduceScatterV:
    case OpKind::kReduceScatterIov:
      return GoalKind::kReduceScatter;
    case OpKind::kGather:
      return GoalKind::kGather;
    case OpKind::kScatter:
      return GoalKind::kScatter;
    case OpKind::kScan:
      return GoalKind::kScan;
    case OpKind::kExscan:
      return GoalKind::kExscan;
    case OpKind::kAllToAll:
    case OpKind::kGatherV:
    case OpKind::kScatterV:
    case OpKind::kAllToAllV:
      break;
  }
  return GoalKind::kAllToAll;
}

// The ranks' contributions as accumulators, in canonical order.
absl::StatusOr<ReductionOrder> OrderOfAccumulators(int size) {
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<OrderPiece> pieces;
  pieces.reserve(ranks.size());
  for (const int rank : ranks)
    pieces.push_back({rank, UnitForm::kAccumulator});
  return ReductionOrder::Create(size, std::move(pieces), PiecesOf(ranks).merges);
}

std::unique_ptr<CollectiveSchedule> ExchangeOf(const Collective& call, int rank, int size) {
  ExchangedBlocks blocks;
  for (int peer = 0; peer < size; ++peer) {
    const bool sends = call.kind != OpKind::kGatherV || peer == call.root;
    const bool receives = call.kind != OpKind::kScatterV || peer == call.root;
    const bool is_root = rank == call.root;
    if (sends && (call.kind != OpKind::kScatterV || is_root))
      blocks.sends.push_back({peer, InOffset(call, peer), InCount(call, peer)});
    if (receives && (call.kind != OpKind::kGatherV || is_root))
      blocks.receives.push_back({peer, OutOffset(call, peer), OutCount(call, peer)});
  }
  return std::make_unique<ExchangeSchedule>(size, rank, blocks);
}

uint64_t BytesOf(const Collective& call, const ScheduleGoal& goal) {
  const bool blocks = goal.kind == GoalKind::kReduceScatter || goal.kind == GoalKind::kAllGather;
  return (blocks ? goal.BlocksUnits() : goal.count) * ElementBytes(call);
}

// Adds two pieces at a time, along the tree; direct, which has one crossing, adds at most 64 at once.
std::unique_ptr<CollectiveSchedule> ManyPieces(const ScheduleGoal& goal) {
  return goal.kind == GoalKind::kAllReduce ? MakeTreeHalvingSchedule(goal)
                                           : MakeBinomialSchedule(goal);
}

std::unique_ptr<CollectiveSchedule> Lanes(const ScheduleGoal& goal, const Islands& islands,
                                          int segments) {
  size_t pieces = 0;
  if (goal.Reduces()) {
    pieces = goal.order_free ? islands.ranks.size() : PiecesOf(islands.island_of).pieces.size();
  }
  return MakeHierarchySchedule(goal, islands.island_of, segments,
                               pieces > kSourcesMax ? ManyPieces : MakeDirectSchedule);
}

// Elsewhere the name of one is a hint, and nothing that is chosen here depends on it.
absl::Status CheckStrict(const Collective& call) {
  if (!call.strict_algorithm || call.algorithm == Protocol::kAuto) return absl::OkStatus();
  return MakeError(WEFT_UNSUPPORTED, {.operation = OpKindName(call.kind)},
                   fmt::format("{}: algorithm \"{}\": groups over several nodes have none that can "
                               "be asked for; pass NULL, or leave WEFT_CALL_STRICT_ALGORITHM out "
                               "of fields, to let weft choose",
                               OpKindName(call.kind), ProtocolName(call.algorithm)));
}

// Whether the bits are the same in whatever order, or the caller does not mind. Partial sums are elements then, so types with wider
// accumulators are not added that way.
bool AnyOrderWillDo(const Collective& call) {
  if (call.op == WEFT_AVG || call.op == kOpUser) return false;
  if (!RoundsOnTheWay(call.dtype, call.op)) return true;
  return call.numerics == WEFT_NUMERICS_FAST && AccumulatorDtype(call.dtype, call.op) == call.dtype;
}

// Of a call whose counts all ranks know.
absl::StatusOr<ScheduleGoal> GoalOf(const Collective& call, int size) {
  ScheduleGoal goal{.kind = GoalKindOf(call.kind), .participants = size, .count = call.count};
  if (goal.HasRoot()) goal.root = call.root;
  if (call.kind == OpKind::kAllGatherV || call.kind == OpKind::kReduceScatterV) {
    const BlockLayout& layout = *call.layout;
    const bool gathers = call.kind == OpKind::kAllGatherV;
    const std::vector<size_t>& counts = gathers ? layout.out_counts : layout.in_counts;
    goal.blocks.assign(counts.begin(), counts.end());
    goal.count = 0;
  }
  if (goal.Reduces() && call.op == kOpPremulSum) {
    WEFT_ASSIGN_OR_RETURN(goal.order, OrderOfAccumulators(size));
  } else {
    goal.order_free = goal.Reduces() && AddsInAnyOrder(call);
  }
  return goal;
}

}  // namespace

// The proof of a schedule whose order is free does not say where it divides, so the means of integers are not in AnyOrderWillDo(), which is of
// schedules of the user's; weft's own divide where the result is made, once.
bool AddsInAnyOrder(const Collective& call) {
  if (call.op == kOpPremulSum) return false;
  return AnyOrderWillDo(call) || (call.op == WEFT_AVG && !RoundsOnTheWay(call.dtype, call.op));
}

UnitArithmetic SizesOf(const Collective& call, int size) {
  if (!TraitsOf(call.kind).reduces || call.op == kOpUser) return UnitArithmetic(ElementBytes(call));
  return UnitArithmetic::Of(Isa::kScalar, call.dtype, call.op, size);
}

absl::StatusOr<std::unique_ptr<CollectiveSchedule>> ScheduleOf(const Collective& call, int rank,
                                                               const Islands& islands,
                                                               SpanChoices& choices) {
  const int size = static_cast<int>(islands.island_of.size());
  if (TraitsOf(call.kind).local_counts) return ExchangeOf(call, rank, size);
  WEFT_ASSIGN_OR_RETURN(const ScheduleGoal goal, GoalOf(call, size));
  const uint64_t bytes = BytesOf(call, goal);
  SpanChoice choice = choices.Of(goal, SizesOf(call, size), bytes, Lanes);
  if (choice.lanes) {
    if (auto lanes = Lanes(goal, islands, choice.segments)) return lanes;
  }
  if (goal.kind == GoalKind::kReduceScatter && !choices.Simulates(goal, bytes) &&
      IsScatteredByHalving(call, bytes, islands, choices.links())) {
    choice.algorithm = "tree_halving";
  }
  const std::string_view in_turn[] = {choice.algorithm, "tree_halving",    "binomial",
                                      "bruck",          "prefix_doubling", "direct"};
  for (const std::string_view algorithm : in_turn) {
    const bool direct = algorithm == "direct";
    const bool tokens = goal.kind == GoalKind::kBarrier;  // these go log2 P levels
    if (direct && (tokens || (size > kSourcesMax && goal.Reduces()))) continue;
    auto schedule = MakeSchedule(algorithm, goal);
    if (schedule.ok()) return schedule;
  }
  // Of many ranks: as lanes, or as if each were on an island of its own.
  if (auto lanes = Lanes(goal, islands, choice.segments)) return lanes;
  std::vector<int> alone(static_cast<size_t>(size));
  std::iota(alone.begin(), alone.end(), 0);
  if (auto lanes = MakeHierarchySchedule(goal, alone, 1, ManyPieces)) return lanes;
  const char* const name = OpKindName(call.kind);
  return MakeError(
      WEFT_UNSUPPORTED, {.operation = name},
      fmt::format("{}: this version has none of this reduction over {} ranks of several nodes",
                  name, size));
}

absl::StatusOr<ChosenSchedule> ChooseSchedule(const Collective& call, int rank,
                                              const Islands& islands,
                                              const ForeignSchedules& foreign,
                                              SpanChoices& choices) {
  WEFT_RETURN_IF_ERROR(CheckStrict(call));
  ChosenSchedule chosen;
  if (!TraitsOf(call.kind).local_counts) {
    WEFT_ASSIGN_OR_RETURN(const ScheduleGoal goal,
                          GoalOf(call, static_cast<int>(islands.island_of.size())));
    chosen.foreign = foreign.Find(goal, AnyOrderWillDo(call));
    if (chosen.foreign != nullptr) {
      chosen.schedule = chosen.foreign->ForCount(goal.count);
      return chosen;
    }
  }
  WEFT_ASSIGN_OR_RETURN(chosen.schedule, ScheduleOf(call, rank, islands, choices));
  return chosen;
}

}  // namespace weft
