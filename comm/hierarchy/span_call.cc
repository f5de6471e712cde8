#include "comm/hierarchy/span_call.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cache_line.h"
#include "base/status.h"
#include "comm/kernels/reduce.h"
#include "comm/kernels/reduce_stage.h"
#include "comm/schedule/tree_pieces.h"
#include "comm/schedule/algorithms.h"
#include "comm/schedule/exchange.h"
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
  return std::make_unique<ExchangeSchedule>(size, rank, std::move(blocks));
}

// Blocks one behind the other, from the first element on.
bool ArePacked(const std::vector<size_t>& counts, const std::vector<size_t>& offsets) {
  size_t begin = 0;
  for (size_t block = 0; block < counts.size(); ++block) {
    if (counts[block] > 0 && offsets[block] != begin) return false;
    begin += counts[block];
  }
  return true;
}

bool Overlap(const std::byte* a, size_t a_bytes, const std::byte* b, size_t b_bytes) {
  return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

// Direct has one crossing, and adds what comes from up to 64 ranks at once; halving along the tree sends as few bytes and
// needs no more than log2 of them at a time.
absl::StatusOr<std::unique_ptr<CollectiveSchedule>> SpanCall::ScheduleOf(const Collective& call,
                                                                         int rank, int size) {
  if (TraitsOf(call.kind).local_counts) return ExchangeOf(call, rank, size);
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
  }
  const bool barrier = goal.kind == GoalKind::kBarrier;
  for (const char* const algorithm : {barrier ? "bruck" : "direct", "tree_halving", "binomial"}) {
    if (size > kSourcesMax && std::string_view(algorithm) == "direct" && goal.Reduces()) continue;
    auto schedule = MakeSchedule(algorithm, goal);
    if (schedule.ok()) return schedule;
  }
  const char* const name = OpKindName(call.kind);
  return MakeError(
      WEFT_UNSUPPORTED, {.operation = name},
      fmt::format("{}: this version has none over {} ranks of several nodes", name, size));
}

absl::StatusOr<std::unique_ptr<SpanCall>> SpanCall::Make(const Collective& call, int rank, int size,
                                                         Isa isa) {
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveSchedule> schedule, ScheduleOf(call, rank, size));
  UnitArithmetic arithmetic(ElementBytes(call));
  if (TraitsOf(call.kind).reduces) {
    arithmetic = call.op == kOpUser ? UnitArithmetic::OfUser(*call.custom, call.dtype)
                                    : UnitArithmetic::Of(isa, call.dtype, call.op, size);
  }
  return std::make_unique<SpanCall>(call, rank, size, std::move(schedule), arithmetic);
}

SpanCall::SpanCall(const Collective& call, int rank, int size,
                   std::unique_ptr<CollectiveSchedule> schedule, const UnitArithmetic& arithmetic)
    : call_(call),
      rank_(rank),
      size_(size),
      schedule_(std::move(schedule)),
      arithmetic_(arithmetic) {}

std::byte* SpanCall::Bytes::Make(size_t bytes) {
  memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes + kCacheLineBytes);
  const auto address = reinterpret_cast<uintptr_t>(memory_.get());
  return memory_.get() + (kCacheLineBytes - address % kCacheLineBytes) % kCacheLineBytes;
}

bool SpanCall::exchanges() const {
  return TraitsOf(call_.kind).local_counts;
}

// Elements of this rank's contribution.
size_t SpanCall::InputUnits() const {
  const ScheduleGoal& goal = schedule_->goal();
  return goal.Reduces() ? goal.VectorUnits() : BufferUnits(goal, rank_, kInputBuffer);
}

bool SpanCall::InputIsPacked() const {
  if (TraitsOf(call_.kind).iov) return false;
  return call_.kind != OpKind::kReduceScatterV ||
         ArePacked(call_.layout->in_counts, call_.layout->in_offsets);
}

bool SpanCall::OutputIsPacked() const {
  if (TraitsOf(call_.kind).iov) return false;
  return call_.kind != OpKind::kAllGatherV ||
         ArePacked(call_.layout->out_counts, call_.layout->out_offsets);
}

void SpanCall::PackInput(std::byte* to) const {
  const int blocks = TraitsOf(call_.kind).in_blocks ? size_ : 1;
  for (int block = 0; block < blocks; ++block) {
    const size_t count = InCount(call_, block);
    CopyIn(call_, block, 0, count, to);
    to += count * ElementBytes(call_);
  }
}

void SpanCall::MultiplyInput(const std::byte* from, std::byte* to) const {
  const void* const source = from;
  void* const destination = to;
  arithmetic_.first()({.sources = &source,
                       .source_count = 1,
                       .destinations = &destination,
                       .destination_count = 1,
                       .count = InputUnits(),
                       .divisor = 0,
                       .factors = &call_.custom->factor});
}

RunMemory SpanCall::Begin() {
  const size_t element_bytes = ElementBytes(call_);
  const bool multiplies = TraitsOf(call_.kind).reduces && call_.op == kOpPremulSum;
  RunMemory memory{.input = const_cast<std::byte*>(static_cast<const std::byte*>(call_.in)),
                   .output = static_cast<std::byte*>(call_.out)};
  const bool has_input = HasInput(call_, rank_) && (exchanges() || InputUnits() > 0);
  if (has_input && !exchanges() && !InputIsPacked()) {
    memory.input = input_.Make(InputUnits() * element_bytes);
    PackInput(memory.input);
  }
  if (has_input && multiplies) {
    memory.partials = partials_.Make(InputUnits() * arithmetic_.BytesOf(UnitForm::kAccumulator));
    MultiplyInput(memory.input, memory.partials);
  }
  const size_t out_bytes =
      exchanges() ? OutputBytes(call_, size_)
                  : BufferUnits(schedule_->goal(), rank_, kOutputBuffer) * element_bytes;
  if (!exchanges() && !OutputIsPacked()) {
    unpacked_ = output_.Make(out_bytes);
    memory.output = unpacked_;
  }
  const size_t in_bytes = exchanges() ? InputBytes(call_, size_) : InputUnits() * element_bytes;
  const bool copies = has_input && !multiplies && !schedule_->in_place() &&
                      Overlap(memory.input, in_bytes, memory.output, out_bytes);
  if (copies) {
    std::byte* const copy = input_.Make(in_bytes);
    std::memcpy(copy, memory.input, in_bytes);
    memory.input = copy;
  }
  memory.scratch = scratch_.Make(ScheduleRun::ScratchBytes(*schedule_, rank_, arithmetic_));
  return memory;
}

void SpanCall::Finish() {
  if (unpacked_ == nullptr) return;
  const std::byte* from = unpacked_;
  const int blocks = TraitsOf(call_.kind).out_blocks ? size_ : 1;
  for (int block = 0; block < blocks; ++block) {
    const size_t count = OutCount(call_, block);
    CopyOut(call_, block, 0, count, from);
    from += count * ElementBytes(call_);
  }
}

}  // namespace weft
