// For people who have a number of params and no model yet. A context plans from its declarations (plan.h) with padding and
// uneven units; here a model is a size, any size, and shares are fractions. What is sharded is asked of the same placements,
// and plan_test holds both to the same figures.
#include "shard/plan/estimate.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/layout/placement.h"

namespace weft {
namespace {

// Elements that each rank sends of a reduce_scatter or an all_gather of `elements` among `ranks`;
// of an all_reduce twice that.
double Sent(double elements, int ranks) {
  return elements * (ranks - 1) / ranks;
}

bool AddsLocally(const EstimateInput& input) {
  return input.accumulation == WEFT_SHARD_LOCAL_THEN_REDUCE;
}

// Gradients that have to be summed before they are reduced cannot be given away unit by unit.
bool KeepsAllGradients(const EstimateInput& input, const Placement& placement) {
  return !placement.gradients_sharded || (AddsLocally(input) && input.micro_batches > 1);
}

// Gradients reduced with every micro-batch are added up beside the ones that backward writes, where
// those have a place of their own: all of them in NO_SHARD, the own share in ZERO1.
double AccumulatedElements(const EstimateInput& input, const Placement& placement, double share) {
  if (AddsLocally(input) || placement.gradients_sharded) return 0;
  return placement.optimizer_sharded ? share : input.param_count;
}

RestBytes RestOf(const EstimateInput& input, const Placement& placement) {
  const double all = input.param_count;
  const double share = all / (placement.replicated ? input.shard_group : input.ranks);
  const double gradients = (KeepsAllGradients(input, placement) ? all : share) +
                           AccumulatedElements(input, placement, share);
  const double optimizer = placement.optimizer_sharded ? share : all;
  return {.params = input.mix.params * (placement.params_sharded ? share : all),
          .main = input.mix.main * optimizer,
          .gradients = input.mix.gradients * gradients,
          .optimizer = input.mix.optimizer * optimizer};
}

// This unit and the next one, unless there is none.
double TwoUnits(const EstimateInput& input, double elements) {
  return std::min(2 * input.largest_unit, elements);
}

// Gradients of this unit, and of the one before, which are being reduced: where params are cut they lie where hers were, and where
// the next ones will be.
double UnitGradientBytes(const EstimateInput& input, const Placement& placement) {
  if (KeepsAllGradients(input, placement)) return 0;
  const double before = TwoUnits(input, input.param_count) - input.largest_unit;
  const double room = placement.params_sharded ? input.mix.params : 0;
  return input.largest_unit * input.mix.gradients +
         before * std::max(0.0, input.mix.gradients - room);
}

// FRACTION: what fits in whole units, besides two gathered on demand and the gradients of one.
double KeptByBudget(const EstimateInput& input, double gradient_bytes, double rest_bytes) {
  const double room =
      (input.budget_bytes - rest_bytes - gradient_bytes) / input.mix.params;  // elements
  if (room >= input.param_count) return input.param_count;
  const double beside = room - TwoUnits(input, input.param_count);
  return std::max(0.0, std::floor(beside / input.largest_unit)) * input.largest_unit;
}

// Sets what comes and goes during a step, and the peak.
void AddTransients(const EstimateInput& input, const Placement& placement, Estimate* estimate) {
  const double unit_gradients = UnitGradientBytes(input, placement);
  double gathered = 0;  // elements: what is kept, and what is gathered on top of it
  if (placement.params_sharded && placement.kept_between) {
    gathered = estimate->kept_params = input.param_count;
  } else if (placement.inner_part) {
    estimate->kept_params = input.param_count / input.shard_group;
    gathered = estimate->kept_params + TwoUnits(input, input.param_count);
  } else if (placement.params_sharded) {
    if (placement.preset == WEFT_SHARD_FRACTION) {
      estimate->kept_params = KeptByBudget(input, unit_gradients, estimate->rest.Total());
    }
    gathered = estimate->kept_params + TwoUnits(input, input.param_count - estimate->kept_params);
  }
  estimate->forward_bytes = gathered * input.mix.params;
  estimate->backward_bytes = estimate->forward_bytes + unit_gradients;
  estimate->peak_bytes = estimate->rest.Total() + estimate->backward_bytes;
}

// float32 goes across, where gradients are of 16 bits: a sum of a group's ranks is not rounded.
double AcrossBytes(const EstimateInput& input) {
  return std::max(input.mix.gradients, 4.0);
}

// HYBRID: FULL_SHARD inside, then an all_reduce of the share across.
void AddHybridTraffic(const EstimateInput& input, double reductions, Estimate* estimate) {
  const double once = Sent(input.param_count, input.shard_group);
  const double across_times = input.accumulation == WEFT_SHARD_REDUCE_EVERY ? reductions : 1;
  const double gathers = 2.0 * input.micro_batches;
  estimate->sent.inside = once * (gathers + reductions);
  estimate->sent.across =
      2 * across_times *
      Sent(input.param_count / input.shard_group, input.ranks / input.shard_group);
  estimate->sent_bytes = once * (gathers * input.mix.params + reductions * input.mix.gradients) +
                         estimate->sent.across * AcrossBytes(input);
}

// Params and gradients count with their own bytes.
void AddTraffic(const EstimateInput& input, const Placement& placement, Estimate* estimate) {
  const double reductions = AddsLocally(input) ? 1 : input.micro_batches;
  if (placement.replicated) return AddHybridTraffic(input, reductions, estimate);
  const double once = Sent(input.param_count, input.ranks);
  double reduced = reductions * once;
  double gathered = 0;
  if (!placement.optimizer_sharded) {
    reduced *= 2;  // an all_reduce
  } else if (!placement.params_sharded) {
    gathered = once;  // after the update
  } else {
    gathered = input.micro_batches * once;  // forward; backward again, unless it is there
    if (placement.inner_part) {
      estimate->sent.inside = input.micro_batches * Sent(input.param_count, input.shard_group);
    } else {
      gathered +=
          input.micro_batches * Sent(input.param_count - estimate->kept_params, input.ranks);
    }
  }
  estimate->sent.all = reduced + gathered;
  estimate->sent_bytes =
      reduced * input.mix.gradients + (gathered + estimate->sent.inside) * input.mix.params;
}

absl::Status Refused(std::string_view sentence) {
  return MakeError(WEFT_INVALID_ARGUMENT, sentence);
}

// Larger than anything that exists, and small enough that no product of them is infinite.
constexpr double kParamsMax = 1e18;
constexpr double kElementBytesMax = 1e6;

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

}  // namespace

absl::Status CheckEstimateInput(const EstimateInput& input) {
  if (!(input.param_count >= 1) || input.param_count > kParamsMax) {
    return Refused(StrCat("a model of ", input.param_count,
                          " params: there must be at least one, and at most ", kParamsMax));
  }
  if (input.ranks < 1) return Refused(StrCat(input.ranks, " ranks: there must be at least one"));
  WEFT_RETURN_IF_ERROR(CheckMix(input.mix));
  if (!(input.largest_unit > 0) || input.largest_unit > input.param_count) {
    return Refused(StrCat("a largest unit of ", input.largest_unit, " params in a model of ",
                          input.param_count, ": it must have some, and no more than the model"));
  }
  if (input.micro_batches < 1) {
    return Refused(
        StrCat(input.micro_batches, " micro-batches per step: there must be at least one"));
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
  if (placement.replicated || placement.inner_part) return input.shard_group > 0;
  return strategy != WEFT_SHARD_FRACTION || input.budget_bytes > 0;
}

Estimate EstimateStrategy(const EstimateInput& input, weft_shard_preset_t strategy) {
  WEFT_CHECK(CanEstimate(input, strategy));
  const Placement placement = PlacementOf(strategy);
  Estimate estimate{.strategy = strategy, .rest = RestOf(input, placement)};
  AddTransients(input, placement, &estimate);
  AddTraffic(input, placement, &estimate);
  estimate.fits = input.budget_bytes == 0 || estimate.peak_bytes <= input.budget_bytes;
  return estimate;
}

std::vector<Estimate> EstimateAll(const EstimateInput& input) {
  std::vector<Estimate> estimates;
  for (const weft_shard_preset_t strategy : kStrategies) {
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
