// What a plan says has to be what finalize does, so nothing is estimated: the layout is made, the expected steps are scheduled,
// and the numbers are read off these. finalize then allocates by the very same objects.
#include "shard/plan/plan.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"

namespace weft {
namespace {

// What a rank sends on average when `bytes` are gathered or reduced among so many ranks.
uint64_t SentOf(uint64_t bytes, int ranks) {
  const auto n = static_cast<uint64_t>(ranks);
  return bytes / n * (n - 1) + bytes % n * (n - 1) / n;
}

struct Traffic {
  uint64_t gathered = 0;  // whole params
  uint64_t sent = 0;
  uint64_t sent_inner = 0;  // of which along the mesh's last axis

  void SendInner(uint64_t bytes) {
    sent += bytes;
    sent_inner += bytes;
  }
};

// Gathers before forward and backward. A unit of which a part was kept is gathered along the last axis.
void AddGathers(const Layout& layout, const Schedule& schedule, const std::vector<UnitSpec>& units,
                Traffic& traffic) {
  std::vector<bool> has_part(units.size(), false);
  for (size_t i = 0; i < schedule.gather_count(); ++i) {
    const Occurrence gather = schedule.Gather(i);
    const auto unit = static_cast<size_t>(gather.index());
    const bool inner = has_part[unit] || units[unit].placement.replicated;
    traffic.gathered += gather.bytes();
    if (inner) {
      traffic.SendInner(SentOf(gather.bytes(), layout.inner.size));
    } else {
      traffic.sent += SentOf(gather.bytes(), layout.member.size);
    }
    has_part[unit] = gather.part() >= 0;
  }
}

// How often gradients are reduced in a step, and sums of replicas across these.
struct Reductions {
  uint64_t times = 1;
  uint64_t across = 1;
};

// HYBRID_SHARD: a bucket's sums go along the last axis, then the own part of these across the others.
void AddChain(const Layout& layout, const Bucket& bucket, const Reductions& reductions,
              Traffic& traffic) {
  const int replicas = layout.member.size / layout.inner.size;
  for (const int index : bucket.pack.extents) {
    const Extent& extent = layout.extents[static_cast<size_t>(index)];
    const size_t size = std::max<size_t>(DtypeSize(layout.SpaceOf(extent).grad_dtype), 4);
    traffic.SendInner(reductions.times * SentOf(extent.range.count * size, layout.inner.size));
    traffic.sent += reductions.across * 2 * SentOf(layout.OwnCount(extent) * size, replicas);
  }
}

// Reductions of buckets, and the gathers of what was updated.
void AddReductions(const Layout& layout, const Reductions& reductions, Traffic& traffic) {
  for (const Bucket& bucket : layout.buckets) {
    const Placement& placement = layout.PlacementOf(bucket);
    if (placement.replicated) {
      AddChain(layout, bucket, reductions, traffic);
      continue;
    }
    const uint64_t once = SentOf(bucket.wire_bytes, layout.member.size);
    traffic.sent += reductions.times * (placement.optimizer_sharded ? once : 2 * once);
    if (!GathersUpdates(placement)) continue;
    traffic.gathered += bucket.param_bytes;
    traffic.sent += SentOf(bucket.param_bytes, layout.member.size);
  }
}

Traffic TrafficOf(const PlanInput& input, const ContextPlan& plan, uint64_t times) {
  Traffic traffic;
  AddGathers(plan.layout, plan.expected[WEFT_SHARD_TRAIN], input.registry->units(), traffic);
  const bool across_once = input.accumulate == Accumulate::kSumsOfReplicas;
  AddReductions(plan.layout, {.times = times, .across = across_once ? 1 : times}, traffic);
  return traffic;
}

weft_shard_plan_t NumbersOf(const PlanInput& input, const ContextPlan& made) {
  const Layout& layout = made.layout;
  weft_shard_plan_t plan = {};
  plan.struct_size = sizeof(plan);
  plan.unit_count = input.registry->units().size();
  plan.param_count = input.registry->params().size();
  plan.bucket_count = layout.buckets.size();
  for (const ParamSpec& param : input.registry->params())
    plan.element_count += param.count;
  for (const Space& space : layout.spaces) {
    const SpaceBytes bytes = SpaceBytesOf(space, input.accumulate);
    plan.param_bytes += bytes.data;
    plan.grad_bytes += bytes.grads + bytes.accumulated;
  }
  plan.padding_bytes =
      layout.data_padding_bytes + layout.grad_padding_bytes * (input.reduces_every() ? 2 : 1);
  if (input.optimizer != nullptr) plan.optimizer_bytes = StateBytes(*input.optimizer, layout);
  for (const Schedule& schedule : made.expected)
    plan.pool_bytes = std::max<uint64_t>(plan.pool_bytes, schedule.pool_bytes);
  for (const Pack& unit : layout.units)
    plan.largest_unit_bytes = std::max<uint64_t>(plan.largest_unit_bytes, unit.bytes);
  plan.prefetch = made.expected[WEFT_SHARD_TRAIN].prefetch;
  plan.resting_bytes = plan.param_bytes + plan.grad_bytes + plan.optimizer_bytes;
  plan.peak_bytes = plan.resting_bytes + plan.pool_bytes;
  const auto reductions = static_cast<uint64_t>(input.reduces_every() ? input.microbatches : 1);
  const Traffic traffic = TrafficOf(input, made, reductions);
  plan.traffic_bytes = layout.reduced_bytes * reductions;
  plan.gather_bytes = traffic.gathered;
  plan.sent_bytes = traffic.sent;
  plan.sent_inner_bytes = traffic.sent_inner;
  return plan;
}

}  // namespace

bool AnythingSharded(const Registry& registry) {
  return std::any_of(registry.units().begin(), registry.units().end(),
                     [](const UnitSpec& unit) { return unit.placement.optimizer_sharded; });
}

ScheduleInput ScheduleInputOf(const PlanInput& input, const Layout& layout,
                              weft_shard_mode_t mode) {
  return {.layout = &layout,
          .units = &input.registry->units(),
          .train = mode == WEFT_SHARD_TRAIN,
          .reduces_every = input.reduces_every(),
          .overlap = input.overlap,
          .prefetch = input.overlap ? input.prefetch : 0,
          .budget_bytes = input.budget_bytes};
}

std::vector<Event> ExpectedEvents(const PlanInput& input, weft_shard_mode_t mode) {
  const bool train = mode == WEFT_SHARD_TRAIN;
  return input.order == nullptr
             ? PredictEvents(input.registry->units().size(), train, input.microbatches)
             : PredictEvents(*input.order, train, input.microbatches);
}

absl::StatusOr<ContextPlan> MakePlan(const PlanInput& input) {
  if (input.optimizer != nullptr) WEFT_RETURN_IF_ERROR(CheckUpdatable(*input.registry));
  ContextPlan plan;
  plan.layout = MakeLayout(*input.registry, input.limits, input.member, input.inner);
  if (AnythingSharded(*input.registry)) {
    for (const weft_shard_mode_t mode : {WEFT_SHARD_TRAIN, WEFT_SHARD_EVAL}) {
      plan.expected[mode] =
          MakeSchedule(ScheduleInputOf(input, plan.layout, mode), ExpectedEvents(input, mode));
    }
  }
  plan.numbers = NumbersOf(input, plan);
  if (input.budget_bytes != 0 && plan.numbers.pool_bytes > input.budget_bytes) {
    return MakeError(WEFT_OUT_OF_MEMORY, {.operation = "finalize"},
                     StrCat("what is gathered needs at least ", plan.numbers.pool_bytes,
                            " bytes at a time, the budget is ", input.budget_bytes,
                            "; allow more, or declare smaller units"));
  }
  return plan;
}

}  // namespace weft
