// What a plan says has to be what finalize does, so nothing is estimated: the layout is made, the expected steps are scheduled,
// and the numbers are read off these. finalize then allocates by the very same objects.
#include "shard/plan/plan.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/layout/global_interval.h"
#include "shard/layout/write_share.h"
#include "shard/offload/value_runs.h"
#include "shard/optimizer/optimizer_state.h"
#include "shard/step/prediction.h"

namespace weft {
namespace {

// What a rank sends on average when `bytes` are gathered or reduced among so many ranks.
uint64_t SentOf(uint64_t bytes, int ranks) {
  const auto n = static_cast<uint64_t>(ranks);
  return bytes / n * (n - 1) + bytes % n * (n - 1) / n;
}

// Gathers before forward and backward. A unit with a part that was kept is gathered along the last axis.
void AddGathers(const Layout& layout, const Schedule& schedule, const std::vector<UnitSpec>& units,
                Traffic& traffic) {
  std::vector<bool> has_part(units.size(), false);
  for (size_t i = 0; i < schedule.gather_count(); ++i) {
    const Occurrence gather = schedule.Gather(i);
    const auto unit = static_cast<size_t>(gather.index());
    traffic.gathered += gather.bytes();
    if (has_part[unit] || units[unit].placement.replicated) {
      traffic.inner.gathered += SentOf(gather.bytes(), layout.inner.size);
    } else {
      traffic.all.gathered += SentOf(gather.bytes(), layout.member.size);
    }
    has_part[unit] = gather.part() >= 0;
  }
}

// What gathers read from a file in a step: this rank's part of each unit that is offloaded.
uint64_t FetchedBytes(const Layout& layout, const OffloadPlan& offload, const Schedule& schedule) {
  uint64_t bytes = 0;
  if (!offload.windows.has_values) return bytes;
  std::vector<bool> has_part(layout.units.size(), false);
  for (size_t i = 0; i < schedule.gather_count(); ++i) {
    const Occurrence gather = schedule.Gather(i);
    const auto unit = static_cast<size_t>(gather.index());
    for (const int index : layout.units[unit].extents) {
      if (has_part[unit]) continue;
      for (const ValueRun& run : ValueRunsOf(offload.windows, index, offload.reads.slot_bytes))
        bytes += run.read_bytes();
    }
    has_part[unit] = gather.part() >= 0;
  }
  return bytes;
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
    traffic.inner.reduced +=
        reductions.times * SentOf(extent.range.count * size, layout.inner.size);
    traffic.outer.reduced +=
        reductions.across * 2 * SentOf(layout.OwnCount(extent) * size, replicas);
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
    traffic.all.reduced += reductions.times * (placement.optimizer_sharded ? once : 2 * once);
    if (!GathersUpdates(placement)) continue;
    traffic.gathered += bucket.param_bytes;
    traffic.all.gathered += SentOf(bucket.param_bytes, layout.member.size);
  }
}

uint64_t ReductionsOf(const PlanInput& input) {
  return static_cast<uint64_t>(input.reduces_every() ? input.microbatches : 1);
}

Traffic TrafficOf(const PlanInput& input, const ContextPlan& plan) {
  Traffic traffic;
  AddGathers(plan.layout, plan.expected[WEFT_SHARD_TRAIN], input.registry->units(), traffic);
  const uint64_t times = ReductionsOf(input);
  const bool across_once = input.accumulate == Accumulate::kSumsOfReplicas;
  AddReductions(plan.layout, {.times = times, .across = across_once ? 1 : times}, traffic);
  return traffic;
}

// This rank's share of the values, main copies and moments of all params.
void TakeCheckpointBytes(const PlanInput& input, const Layout& layout, weft_shard_plan_t* plan) {
  const std::vector<ParamSpec>& params = input.registry->params();
  for (size_t param = 0; param < params.size(); ++param) {
    const ParamSpec& spec = params[param];
    const size_t share = WriteShare(layout, layout.places[param], spec.count).count;
    const size_t values = DtypeSize(spec.dtype) * share;
    const bool offloaded = layout.spaces[static_cast<size_t>(layout.places[param].space)].offloaded;
    plan->checkpoint_value_bytes += offloaded ? 0 : values;
    plan->checkpoint_bytes += values;
    if (spec.frozen || input.groups.empty()) continue;
    const OptimizerGroup& group = input.groups[static_cast<size_t>(spec.group)];
    plan->checkpoint_bytes += NeedsOf(group, spec.dtype).floats() * sizeof(float) * share;
  }
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
  if (!input.groups.empty()) {
    plan.optimizer_bytes = ScratchBytes(input.groups, *input.registry, layout);
    plan.optimizer_bytes += input.offload_buffer_bytes == 0
                                ? StateBytes(input.groups, *input.registry, layout)
                                : made.offload.memory_bytes();
  }
  plan.offload_bytes = made.offload.windows.file_bytes;
  plan.offload_read_bytes = made.offload.windows.read_bytes +
                            FetchedBytes(layout, made.offload, made.expected[WEFT_SHARD_TRAIN]);
  plan.offload_written_bytes = made.offload.windows.written_bytes;
  TakeCheckpointBytes(input, layout, &plan);
  plan.pool_bytes = made.moving_bytes + made.places.bytes;
  for (const Pack& unit : layout.units)
    plan.largest_unit_bytes = std::max<uint64_t>(plan.largest_unit_bytes, unit.bytes);
  plan.prefetch = made.expected[WEFT_SHARD_TRAIN].prefetch;
  plan.resting_bytes = plan.param_bytes + plan.grad_bytes + plan.optimizer_bytes;
  plan.peak_bytes = plan.resting_bytes + plan.pool_bytes;
  plan.traffic_bytes = layout.reduced_bytes * ReductionsOf(input);
  plan.gather_bytes = made.traffic.gathered;
  plan.sent_inner_bytes = made.traffic.inner.total();
  plan.sent_bytes = made.traffic.all.total() + plan.sent_inner_bytes + made.traffic.outer.total();
  return plan;
}

// Training has its way with the places; evaluation keeps to them.
void MakeSchedules(const PlanInput& input, ContextPlan& plan) {
  if (input.views == WEFT_SHARD_VIEWS_APART) plan.places = PlacesApart(plan.layout);
  for (const weft_shard_mode_t mode : {WEFT_SHARD_TRAIN, WEFT_SHARD_EVAL}) {
    const FixedPlaces* const places = plan.places.offsets.empty() ? nullptr : &plan.places;
    plan.expected[mode] = MakeSchedule(ScheduleInputOf(input, plan.layout, mode, places),
                                       ExpectedEvents(input, mode));
    if (input.views == WEFT_SHARD_VIEWS_STABLE && places == nullptr) {
      plan.places = PlacesOf(plan.expected[mode], plan.layout);
    }
  }
}

size_t MovingBytes(const ContextPlan& plan) {
  size_t bytes = 0;
  for (const Schedule& schedule : plan.expected)
    bytes = std::max(bytes, schedule.pool_bytes);
  return bytes;
}

// What the pool would need if views moved.
size_t PoolBytesOfMovingViews(PlanInput input, const Layout& layout) {
  input.views = WEFT_SHARD_VIEWS_MOVE;
  ContextPlan moving;
  moving.layout = layout;
  MakeSchedules(input, moving);
  return MovingBytes(moving);
}

absl::Status OverBudget(const PlanInput& input, const weft_shard_plan_t& plan) {
  const bool moves = input.views == WEFT_SHARD_VIEWS_MOVE;
  return MakeError(
      WEFT_OUT_OF_MEMORY, {.operation = "finalize"},
      StrCat(
          "what is gathered needs at least ", plan.pool_bytes,
          moves ? " bytes at a time, the budget is " : " bytes with stable views, the budget is ",
          input.budget_bytes,
          moves ? std::string("; allow more, or declare smaller units")
                : StrCat(" (with views that move it would need ", plan.moving_pool_bytes,
                         "); allow more, or declare smaller units")));
}

}  // namespace

bool AnythingSharded(const Registry& registry) {
  return std::any_of(registry.units().begin(), registry.units().end(),
                     [](const UnitSpec& unit) { return unit.placement.optimizer_sharded; });
}

ScheduleInput ScheduleInputOf(const PlanInput& input, const Layout& layout, weft_shard_mode_t mode,
                              const FixedPlaces* places) {
  return {.layout = &layout,
          .units = &input.registry->units(),
          .train = mode == WEFT_SHARD_TRAIN,
          .reduces_every = input.reduces_every(),
          .overlap = input.overlap,
          .prefetch = input.overlap ? input.prefetch : 0,
          .budget_bytes = input.budget_bytes,
          .fixes_places = input.views != WEFT_SHARD_VIEWS_MOVE,
          .places = places};
}

std::vector<Event> ExpectedEvents(const PlanInput& input, weft_shard_mode_t mode) {
  const bool train = mode == WEFT_SHARD_TRAIN;
  if (input.runs != nullptr) return PredictEvents(*input.runs, train, input.microbatches);
  std::vector<int> order, within;
  for (const UnitSpec& unit : input.registry->units()) {
    order.push_back(static_cast<int>(order.size()));
    within.push_back(unit.within);
  }
  return PredictEvents(input.order == nullptr ? order : *input.order, within, train,
                       input.microbatches);
}

absl::StatusOr<ContextPlan> MakePlan(const PlanInput& input) {
  WEFT_RETURN_IF_ERROR(CheckGlobalIntervals(input.registry->params()));
  ContextPlan plan;
  plan.layout =
      MakeLayout(*input.registry, input.limits, input.member, input.inner, input.offload_params);
  const bool any_offloaded = std::any_of(plan.layout.spaces.begin(), plan.layout.spaces.end(),
                                         [](const Space& space) { return space.offloaded; });
  if (any_offloaded && input.groups.empty()) {
    return MakeError(WEFT_INVALID_USAGE, {.operation = "finalize"},
                     "params are to be offloaded, and the context has no optimizer that could "
                     "update them where they are; give it one, or offload nothing");
  }
  if (!input.groups.empty()) {
    WEFT_RETURN_IF_ERROR(CheckUpdatable(input.groups, *input.registry, plan.layout));
  }
  if (!input.groups.empty() && input.offload_buffer_bytes != 0) {
    plan.offload =
        PlanOffload(input.groups, *input.registry, plan.layout, input.offload_buffer_bytes);
  }
  const bool cut = AnythingSharded(*input.registry);
  if (cut) MakeSchedules(input, plan);
  plan.moving_bytes = MovingBytes(plan);
  plan.traffic = TrafficOf(input, plan);
  plan.numbers = NumbersOf(input, plan);
  plan.numbers.moving_pool_bytes = cut && input.views != WEFT_SHARD_VIEWS_MOVE
                                       ? PoolBytesOfMovingViews(input, plan.layout)
                                       : plan.numbers.pool_bytes;
  if (input.budget_bytes != 0 && plan.numbers.pool_bytes > input.budget_bytes) {
    return OverBudget(input, plan.numbers);
  }
  return plan;
}

}  // namespace weft
