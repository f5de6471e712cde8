// For people who have a number of params and no model yet. A model of equal units is declared, and planned as finalize plans:
// what is kept, pooled and sent is read off that plan. Only the optimizer's bytes are not weft's but the caller's.
#include "shard/plan/estimate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/layout/interval_packing.h"
#include "shard/layout/mesh.h"
#include "shard/layout/placement.h"
#include "shard/offload/offload_to_file.h"
#include "shard/plan/plan.h"
#include "shard/step/needs.h"

namespace weft {
namespace {

weft_dtype_t ParamTypeOf(const BytesPerElement& mix) {
  return mix.params == 2 ? WEFT_BFLOAT16 : mix.params == 4 ? WEFT_FLOAT32 : WEFT_FLOAT64;
}

double UnitCountOf(const EstimateInput& input) {
  return std::ceil(input.param_count / std::ceil(input.largest_unit));
}

// One param each; the last one may be smaller.
Registry SyntheticUnits(const EstimateInput& input, weft_shard_preset_t preset) {
  Placement placement = PlacementOf(preset);
  placement.float32_gradients = input.mix.gradients != input.mix.params;
  Registry registry;
  auto left = static_cast<int64_t>(input.param_count);
  for (int i = 0; left > 0; ++i) {
    const int64_t count = std::min(left, static_cast<int64_t>(std::ceil(input.largest_unit)));
    const absl::StatusOr<int> unit = registry.BeginUnit(StrCat("unit", i), placement);
    WEFT_CHECK(unit.ok());
    WEFT_CHECK(
        registry.AddParam(*unit, StrCat("unit", i, ".weight"), &count, 1, ParamTypeOf(input.mix))
            .ok());
    WEFT_CHECK(registry.SealUnit(*unit).ok());
    left -= count;
  }
  return registry;
}

Accumulate AccumulateOf(weft_shard_accumulation_t accumulation) {
  if (accumulation == WEFT_SHARD_LOCAL_THEN_REDUCE) return Accumulate::kNothing;
  return accumulation == WEFT_SHARD_REDUCE_EVERY ? Accumulate::kReduced
                                                 : Accumulate::kSumsOfReplicas;
}

// As rank 0 sees it, whose shares are the largest ones.
absl::StatusOr<ContextPlan> PlanUnits(const EstimateInput& input, const Registry& registry,
                                      size_t pool_budget_bytes) {
  return MakePlan(
      {.registry = &registry,
       .member = {.rank = 0, .size = input.ranks},
       .inner = {.rank = 0, .size = input.shard_group > 0 ? input.shard_group : input.ranks},
       .accumulate = AccumulateOf(input.accumulation),
       .budget_bytes = pool_budget_bytes,
       .microbatches = input.micro_batches,
       .views = input.views});
}

// What rests goes to estimate->rest, and to a file what is offloaded.
void TakeRest(const EstimateInput& input, const ContextPlan& plan, Estimate* estimate) {
  size_t updated = 0;  // elements
  for (const Extent& extent : plan.layout.extents)
    updated += UpdatedBy(plan.layout, extent).count;
  RestBytes& rest = estimate->rest;
  rest = {.params = static_cast<double>(plan.numbers.param_bytes),
          .main = input.mix.main * static_cast<double>(updated),
          .gradients = static_cast<double>(plan.numbers.grad_bytes),
          .optimizer = input.mix.optimizer * static_cast<double>(updated)};
  if (!input.offload) return;
  estimate->offload_bytes = rest.main + rest.optimizer;
  rest.main = 0;
  rest.optimizer =
      std::min(estimate->offload_bytes, static_cast<double>(OffloadOptions::kBufferBytes));
  if (!input.offload_params || !PlacementOf(estimate->strategy).params_sharded) return;
  estimate->offload_bytes += std::exchange(rest.params, 0);
  rest.optimizer += static_cast<double>(OffloadPlan::kReadBytesMax);
}

// The last micro-batch's forward: when its first call begins, and the event with which backward does.
struct ForwardTime {
  int64_t begin = 0;
  int turn = 0;
};

ForwardTime LastForward(const std::vector<Event>& events) {
  const auto last = [&](Event::Kind kind) {
    const auto found = std::find_if(events.rbegin(), events.rend(),
                                    [&](const Event& event) { return event.kind == kind; });
    WEFT_CHECK(found != events.rend());
    return static_cast<int>(events.rend() - found) - 1;
  };
  return {.begin = TimeOf(last(Event::Kind::kMicrobatchBegin)),
          .turn = last(Event::Kind::kPostForward) + 1};
}

// The most that is in the pool at a time in forward.
double ForwardBytes(const Schedule& schedule, const ForwardTime& forward) {
  std::vector<Interval> intervals;
  for (const auto* const list : {&schedule.gathers, &schedule.gradients, &schedule.parts}) {
    for (const Residency& one : *list) {
      const int64_t begin = std::max(one.begin, forward.begin);
      const int64_t end = std::min(one.end, TimeOf(forward.turn) - 1);
      if (begin <= end) intervals.push_back({begin, end, one.bytes, 0});
    }
  }
  return static_cast<double>(MostAlive(intervals));
}

// What backward need not gather of params sharded at rest, and HPZ's parts.
double KeptBytes(const Layout& layout, const Schedule& schedule, const ForwardTime& forward) {
  size_t kept = 0;
  for (const Pack& unit : layout.units)
    kept += unit.bytes;
  for (const Residency& gather : schedule.gathers) {
    if (gather.need >= forward.turn) kept -= gather.bytes;
  }
  for (const Residency& part : schedule.parts) {
    if (part.need >= forward.turn) kept += part.bytes;
  }
  return static_cast<double>(kept);
}

SentElements SentElementsOf(const EstimateInput& input, const Placement& placement,
                            const Traffic& traffic) {
  // Sums of replicas travel in float32.
  const double reduced = placement.replicated ? std::max(input.mix.gradients, 4.0)  //
                                              : input.mix.gradients;
  const auto elements = [&](const SentBytes& sent) {
    return static_cast<double>(sent.gathered) / input.mix.params +
           static_cast<double>(sent.reduced) / reduced;
  };
  return {.all = elements(traffic.all),
          .inside = elements(traffic.inner),
          .across = elements(traffic.outer)};
}

Estimate EstimateOf(const EstimateInput& input, weft_shard_preset_t strategy,
                    const ContextPlan& plan) {
  const Placement placement = PlacementOf(strategy);
  Estimate estimate{.strategy = strategy};
  TakeRest(input, plan, &estimate);
  estimate.backward_bytes = static_cast<double>(plan.numbers.pool_bytes);
  estimate.peak_bytes = estimate.rest.Total() + estimate.backward_bytes;
  estimate.views_bytes =
      static_cast<double>(plan.numbers.pool_bytes - plan.numbers.moving_pool_bytes);
  const Schedule& schedule = plan.expected[WEFT_SHARD_TRAIN];
  if (!schedule.events.empty()) {
    const ForwardTime forward = LastForward(schedule.events);
    estimate.forward_bytes = ForwardBytes(schedule, forward);
    estimate.kept_params = KeptBytes(plan.layout, schedule, forward) / input.mix.params;
  }
  estimate.sent = SentElementsOf(input, placement, plan.traffic);
  estimate.sent_bytes = static_cast<double>(plan.numbers.sent_bytes);
  estimate.fits = input.budget_bytes == 0 || estimate.peak_bytes <= input.budget_bytes;
  return estimate;
}

absl::Status Refused(std::string_view sentence) {
  return MakeError(WEFT_INVALID_ARGUMENT, sentence);
}

// Larger than anything that exists, and small enough that no sum of bytes overflows.
constexpr double kParamsMax = 1e14;
constexpr double kElementBytesMax = 1e6;
// A plan has the shards of every unit, and the calls of a step.
constexpr double kUnitsMax = 1e4;
constexpr double kShardsMax = 1 << 25;
constexpr int kMicroBatchesMax = 4096;
// A budget above it is none.
constexpr double kPoolBytesMax = 0x1p62;

bool IsElementBytes(double value) {
  return value >= 0 && value <= kElementBytesMax;
}

absl::Status CheckMix(const BytesPerElement& mix) {
  if (IsElementBytes(mix.params) && mix.params > 0 && IsElementBytes(mix.main) &&
      IsElementBytes(mix.gradients) && IsElementBytes(mix.optimizer)) {
    return absl::OkStatus();
  }
  return Refused(StrCat(
      "a mix of ", mix.params, " (params), ", mix.main, " (main), ", mix.gradients,
      " (gradients) and ", mix.optimizer,
      " (optimizer) bytes per element: params must be above 0, the others not below, none above ",
      kElementBytesMax));
}

// Those of a type that weft has.
absl::Status CheckTypes(const BytesPerElement& mix) {
  const bool is_type = mix.params == 2 || mix.params == 4 || mix.params == 8;
  if (is_type && (mix.gradients == mix.params || (mix.params == 2 && mix.gradients == 4))) {
    return absl::OkStatus();
  }
  return Refused(StrCat("a mix of ", mix.params, " (params) and ", mix.gradients,
                        " (gradients) bytes per element: params have 2, 4 or 8, gradients as "
                        "many, or 4 where params have 2"));
}

}  // namespace

absl::Status CheckEstimateInput(const EstimateInput& input) {
  if (!(input.param_count >= 1) || input.param_count > kParamsMax) {
    return Refused(StrCat("a model of ", input.param_count,
                          " params: there must be at least one, and at most ", kParamsMax));
  }
  if (input.ranks < 1 || input.ranks > Mesh::kDryRanksMax) {
    return Refused(StrCat(input.ranks, " ranks: there must be at least one, and at most ",
                          Mesh::kDryRanksMax));
  }
  WEFT_RETURN_IF_ERROR(CheckMix(input.mix));
  WEFT_RETURN_IF_ERROR(CheckTypes(input.mix));
  if (!(input.largest_unit > 0) || input.largest_unit > input.param_count) {
    return Refused(StrCat("a largest unit of ", input.largest_unit, " params in a model of ",
                          input.param_count, ": it must have some, and no more than the model"));
  }
  const double units = UnitCountOf(input);
  if (units > kUnitsMax || units * input.ranks > kShardsMax) {
    return Refused(StrCat(units, " units on ", input.ranks, " ranks: there may be ", kUnitsMax,
                          " units, and ", kShardsMax, " shards of them together"));
  }
  if (input.micro_batches < 1 || input.micro_batches > kMicroBatchesMax) {
    return Refused(StrCat(input.micro_batches,
                          " micro-batches per step: there must be at least one, and at most ",
                          kMicroBatchesMax));
  }
  const int group = input.shard_group;
  if (group < 0 || group > input.ranks || (group != 0 && input.ranks % group != 0)) {
    return Refused(StrCat("shard groups of ", group, " ranks: ", input.ranks,
                          " ranks cannot be divided into such groups"));
  }
  if (!std::isfinite(input.budget_bytes) || input.budget_bytes < 0) {
    return Refused(StrCat("a budget of ", input.budget_bytes, " bytes: it must be above 0"));
  }
  return absl::OkStatus();
}

bool CanEstimate(const EstimateInput& input, weft_shard_preset_t strategy) {
  const Placement placement = PlacementOf(strategy);
  // As finalize asks of the mesh: sums of replicas have the same bits only if these have 2^k ranks.
  if (placement.replicated) return std::has_single_bit(static_cast<unsigned>(input.shard_group));
  if (placement.inner_part) return input.shard_group > 0;
  return strategy != WEFT_SHARD_FRACTION || input.budget_bytes > 0;
}

Estimate EstimateStrategy(const EstimateInput& input, weft_shard_preset_t strategy) {
  WEFT_CHECK(CanEstimate(input, strategy));
  const Registry registry = SyntheticUnits(input, strategy);
  const absl::StatusOr<ContextPlan> plan = PlanUnits(input, registry, 0);
  WEFT_CHECK(plan.ok());
  const Estimate estimate = EstimateOf(input, strategy, *plan);
  if (strategy != WEFT_SHARD_FRACTION) return estimate;
  // What is left for the pool. If that is too little, nothing is kept.
  const double pool_bytes = input.budget_bytes - estimate.rest.Total();
  const absl::StatusOr<ContextPlan> in_budget =
      PlanUnits(input, registry, static_cast<size_t>(std::clamp(pool_bytes, 1.0, kPoolBytesMax)));
  if (in_budget.ok()) return EstimateOf(input, strategy, *in_budget);
  Estimate least = EstimateStrategy(input, WEFT_SHARD_FULL_SHARD);
  least.strategy = strategy;
  return least;
}

std::vector<Estimate> EstimateAll(const EstimateInput& input) {
  std::vector<Estimate> estimates;
  for (int preset = WEFT_SHARD_NO_SHARD; preset <= WEFT_SHARD_FRACTION; ++preset) {
    const auto strategy = static_cast<weft_shard_preset_t>(preset);
    if (CanEstimate(input, strategy)) estimates.push_back(EstimateStrategy(input, strategy));
  }
  return estimates;
}

const Estimate* ChooseEstimate(const std::vector<Estimate>& estimates) {
  const Estimate* chosen = nullptr;
  for (const Estimate& one : estimates) {
    if (!one.fits) continue;
    if (chosen == nullptr || one.sent_bytes < chosen->sent_bytes ||
        (one.sent_bytes == chosen->sent_bytes && one.peak_bytes < chosen->peak_bytes)) {
      chosen = &one;
    }
  }
  return chosen;
}

}  // namespace weft
