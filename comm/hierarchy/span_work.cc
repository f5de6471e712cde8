#include "comm/hierarchy/span_work.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/cache_line.h"
#include "base/status.h"
#include "comm/hierarchy/span_group.h"
#include "comm/kernels/reduce.h"
#include "comm/kernels/reduce_stage.h"
#include "comm/node/call_identity.h"
#include "comm/schedule/algorithms.h"
#include "fmt/format.h"

namespace weft {
namespace {

std::optional<GoalKind> GoalKindOf(OpKind kind) {
  switch (kind) {
    case OpKind::kBarrier:
      return GoalKind::kBarrier;
    case OpKind::kAllReduce:
      return GoalKind::kAllReduce;
    case OpKind::kReduce:
      return GoalKind::kReduce;
    case OpKind::kBroadcast:
      return GoalKind::kBroadcast;
    case OpKind::kAllGather:
      return GoalKind::kAllGather;
    case OpKind::kReduceScatter:
      return GoalKind::kReduceScatter;
    case OpKind::kGather:
      return GoalKind::kGather;
    case OpKind::kScatter:
      return GoalKind::kScatter;
    case OpKind::kAllToAll:
      return GoalKind::kAllToAll;
    default:
      return std::nullopt;
  }
}

absl::Status NoSchedule(const Collective& call) {
  const char* const name = OpKindName(call.kind);
  return MakeError(WEFT_UNSUPPORTED, {.operation = name},
                   fmt::format("{}: this version has it on one node only", name));
}

bool Overlap(const std::byte* a, size_t a_bytes, const std::byte* b, size_t b_bytes) {
  return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

// Direct has one crossing, and adds what comes from up to 64 ranks at once; halving along the tree sends as few bytes and
// needs no more than log2 of them at a time.
absl::StatusOr<std::unique_ptr<CollectiveSchedule>> ScheduleOf(const Collective& call, int size) {
  const std::optional<GoalKind> kind = GoalKindOf(call.kind);
  if (!kind || (TraitsOf(call.kind).reduces && call.custom != nullptr)) return NoSchedule(call);
  ScheduleGoal goal{.kind = *kind, .participants = size, .count = call.count};
  if (*kind == GoalKind::kBarrier) goal.count = 0;
  if (goal.HasRoot()) goal.root = call.root;
  for (const char* const algorithm :
       {*kind == GoalKind::kBarrier ? "bruck" : "direct", "tree_halving", "binomial"}) {
    if (size > kSourcesMax && std::string_view(algorithm) == "direct" && goal.Reduces()) continue;
    auto schedule = MakeSchedule(algorithm, goal);
    if (schedule.ok()) return schedule;
  }
  return NoSchedule(call);
}

absl::StatusOr<std::shared_ptr<SpanWork>> SpanWork::Make(std::shared_ptr<SpanGroup> group,
                                                         const Collective& call, Isa isa) {
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveSchedule> schedule,
                        ScheduleOf(call, group->size()));
  const UnitArithmetic arithmetic =
      TraitsOf(call.kind).reduces ? UnitArithmetic::Of(isa, call.dtype, call.op, group->size())
                                  : UnitArithmetic(ElementBytes(call));
  return std::make_shared<SpanWork>(std::move(group), call, std::move(schedule), arithmetic);
}

SpanWork::SpanWork(std::shared_ptr<SpanGroup> group, const Collective& call,
                   std::unique_ptr<CollectiveSchedule> schedule, const UnitArithmetic& arithmetic)
    : group_(std::move(group)),
      call_(call),
      schedule_(std::move(schedule)),
      arithmetic_(arithmetic) {}

void SpanWork::Begin(uint64_t sequence, int64_t deadline_ns) {
  sequence_ = sequence;
  deadline_ns_ = deadline_ns;
  const int rank = group_->rank();
  const size_t element_bytes = arithmetic_.BytesOf(UnitForm::kElement);
  const size_t in_bytes = BufferUnits(schedule_->goal(), rank, kInputBuffer) * element_bytes;
  const size_t out_bytes = BufferUnits(schedule_->goal(), rank, kOutputBuffer) * element_bytes;
  RunMemory memory{.input = const_cast<std::byte*>(static_cast<const std::byte*>(call_.in)),
                   .output = static_cast<std::byte*>(call_.out)};
  if (!schedule_->in_place() && Overlap(memory.input, in_bytes, memory.output, out_bytes)) {
    copied_.assign(memory.input, memory.input + in_bytes);
    memory.input = copied_.data();
  }
  scratch_.resize(ScheduleRun::ScratchBytes(*schedule_, rank, arithmetic_) + kCacheLineBytes);
  const auto address = reinterpret_cast<uintptr_t>(scratch_.data());
  memory.scratch =
      scratch_.data() + (kCacheLineBytes - address % kCacheLineBytes) % kCacheLineBytes;
  run_.emplace(*schedule_, rank, memory, arithmetic_,
               RunRoute{.transport = &group_->transport(),
                        .peers = group_->peers(),
                        .stream = {group_->group_id(), sequence},
                        .signature = SignatureOf(IdentityOf(call_), /*in_line=*/false)});
}

bool SpanWork::Test() {
  if (!ended()) group_->StepAll();
  return ended();
}

absl::Status SpanWork::Wait(int64_t timeout_ns) {
  return group_->WaitFor(*this, timeout_ns);
}

const void* SpanWork::moved_with() const {
  return group_.get();
}

void SpanWork::LeaveToProgress() {
  if (!ended()) group_->LeaveToProgress(Asking::kNow);
}

}  // namespace weft
