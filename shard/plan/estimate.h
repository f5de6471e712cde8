// What each strategy costs per rank, in bytes at rest, bytes at the peak and bytes sent, of a model that is only a size: the
// plan (plan.h) of synthetic units.
//
//   EstimateInput input{.param_count = 7e9, .ranks = 4, .largest_unit = 7e9 / 32};
//   WEFT_RETURN_IF_ERROR(CheckEstimateInput(input));
//   const Estimate zero1 = EstimateStrategy(input, WEFT_SHARD_ZERO1);
//   zero1.rest.Total();   // 70e9
//
// docs/memory.md says how to read it, and what it leaves out (activations, the memory of the groups).
//
// Thread-safety: values and pure functions.
#pragma once

#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"

namespace weft {

// Bytes that one element of the model takes in each role, on one rank that keeps everything. Params and gradients are of a
// type that weft has: 2, 4 or 8 bytes; gradients as many, or 4 beside 2.
struct BytesPerElement {
  double params = 4;     // what forward and backward read, and what is gathered
  double main = 0;       // the optimizer's own copies of params, and of gradients where it has one
  double gradients = 4;  // what backward writes, and what is reduced
  double optimizer = 8;  // the optimizer's state, moments for example
};

// float32 throughout, with Adam: 16 bytes.
constexpr BytesPerElement kFp32Mix = {.params = 4, .main = 0, .gradients = 4, .optimizer = 8};
// The ZeRO paper's: float16 params and gradients, float32 copy and moments: 16 bytes.
constexpr BytesPerElement kFp16Mix = {.params = 2, .main = 4, .gradients = 2, .optimizer = 8};
// bfloat16 params, float32 gradients, copy and moments: 18 bytes.
constexpr BytesPerElement kBf16Mix = {.params = 2, .main = 4, .gradients = 4, .optimizer = 8};

struct EstimateInput {
  double param_count = 0;
  int ranks = 1;
  BytesPerElement mix = kFp32Mix;
  // Params of each unit but a last smaller one: above 0, at most param_count.
  double largest_unit = 0;
  int micro_batches = 1;  // per step
  // INNER_EVERY_OUTER_LAST: of HYBRID_SHARD; others reduce every micro-batch then.
  weft_shard_accumulation_t accumulation = WEFT_SHARD_LOCAL_THEN_REDUCE;
  int shard_group = 0;  // ranks, a divisor of `ranks`; 0: there is none, so neither HYBRID nor hpZ
  double budget_bytes = 0;  // per rank, for all that is estimated; 0: there is none, so no FRACTION
  weft_shard_views_t views = WEFT_SHARD_VIEWS_MOVE;
  // Main copies and the optimizer's state are in files (weft/shard_offload.h).
  bool offload = false;
  bool offload_params = false;  // with it, params that are sharded at rest
};

// Bytes per rank that stay from step to step.
struct RestBytes {
  double params = 0;
  double main = 0;
  double gradients = 0;
  double optimizer = 0;  // of what is offloaded, the parts that are in memory

  double Total() const { return params + main + gradients + optimizer; }
};

// Elements that a rank sends per step, by the ranks among which the collective runs.
struct SentElements {
  double all = 0;     // among all ranks
  double inside = 0;  // among those of a shard group
  double across = 0;  // among those with the same place in their shard groups

  double Total() const { return all + inside + across; }
};

struct Estimate {
  weft_shard_preset_t strategy = WEFT_SHARD_NO_SHARD;
  RestBytes rest;
  double offload_bytes = 0;   // in a rank's file; an update reads and writes as many
  double kept_params = 0;     // elements unsharded from forward to backward, own share included
  double forward_bytes = 0;   // above what rests, at the most, in forward
  double backward_bytes = 0;  // in backward: all of the pool
  double peak_bytes = 0;      // what rests, and backward_bytes
  double views_bytes = 0;     // the part of backward_bytes that views which move would not take
  SentElements sent;
  double sent_bytes = 0;
  bool fits = true;  // peak_bytes is not above the budget, if there is one
};

// OK, or INVALID_ARGUMENT with the value that makes no sense and what it must be.
absl::Status CheckEstimateInput(const EstimateInput& input);

// Whether `input` has what `strategy` needs: a shard group for HYBRID (of 2^k ranks) and hpZ, a budget for
// FRACTION.
bool CanEstimate(const EstimateInput& input, weft_shard_preset_t strategy);

// The costs of one strategy. `input` is one that CheckEstimateInput accepts and CanEstimate allows.
Estimate EstimateStrategy(const EstimateInput& input, weft_shard_preset_t strategy);

// All strategies that CanEstimate allows, in the order of the presets, which is that of what they save.
std::vector<Estimate> EstimateAll(const EstimateInput& input);

// The one to take: of those that fit the one that sends the fewest bytes, of these the one with the
// lowest peak, of these the first; nullptr if none fits.
const Estimate* ChooseEstimate(const std::vector<Estimate>& estimates);

}  // namespace weft
