// Computing is what a run is for, so it is the bottleneck only where nothing else is.
#include "trainer/reports/bottleneck.h"

#include <fmt/core.h>

namespace weft::trainer {
namespace {

constexpr double kSlow = 1.1;  // of the middle rank's computing
constexpr double kLowMfu = 0.4;

// From which part of a step on a phase is worth a word.
double NotedShare(Phase phase) {
  switch (phase) {
    case Phase::kData:
      return 0.02;
    case Phase::kOptimizer:
      return 0.2;
    default:
      return 0.05;
  }
}

std::string Hint(Phase phase, const TrainConfig& config) {
  switch (phase) {
    case Phase::kData:
      return "make files of tokens of the text (weft_train tokenize), and put them on a faster "
             "disk or into memory";
    case Phase::kGather:
      return config.prefetch < 2
                 ? "gather further ahead (--prefetch 2), or keep parameters whole between forward "
                   "and backward (--strategy shard-grad-op)"
                 : "keep parameters whole between forward and backward (--strategy shard-grad-op), "
                   "or give a rank more to compute (--micro-batch)";
    case Phase::kReduce:
      return config.no_overlap
                 ? "reduce during backward: leave out --no-overlap"
                 : "reduce less often (--accumulate with a larger --batch), or fewer bytes "
                   "(--reduce-dtype bf16)";
    case Phase::kOptimizer:
      return config.strategy == WEFT_SHARD_NO_SHARD
                 ? "let each rank update a part of the weights (--strategy zero1), or use a larger "
                   "--batch"
                 : "use a larger --batch, so that there are fewer updates for as many tokens";
    case Phase::kCheckpoint:
      return "save less often (--checkpoint-every)";
    case Phase::kForward:
    case Phase::kBackward:
      break;
  }
  return "";
}

const char* WhatTakes(Phase phase) {
  switch (phase) {
    case Phase::kData:
      return "Reading data";
    case Phase::kGather:
      return "Waiting for parameters";
    case Phase::kReduce:
      return "Waiting for gradients of other ranks";
    case Phase::kOptimizer:
      return "The update";
    case Phase::kCheckpoint:
      return "Saving";
    default:
      return "Computing";
  }
}

std::string OfComputing(double share, double mfu) {
  const std::string takes =
      fmt::format("Computing takes {:.0f} % of a step, as it should", 100 * share);
  if (mfu <= 0) return takes + ".";
  if (mfu < kLowMfu) {
    return fmt::format(
        "{}, but reaches only {:.0f} % of the rate of the fastest matrix product: larger "
        "micro-batches (--micro-batch) or a wider model would use the machine better.",
        takes, 100 * mfu);
  }
  return fmt::format(
      "{}, at {:.0f} % of the rate of the fastest matrix product: more ranks or --threads, where "
      "there are cores for them, make it faster.",
      takes, 100 * mfu);
}

}  // namespace

std::string BottleneckOf(const TrainConfig& config, const SpeedFacts& facts) {
  const double sum = facts.phases.Sum();
  if (sum <= 0) return "No step was timed.";
  const auto share = [&](Phase phase) {
    return facts.phases[phase] / sum;
  };
  const bool waits = share(Phase::kReduce) > NotedShare(Phase::kReduce) ||
                     share(Phase::kGather) > NotedShare(Phase::kGather);
  if (facts.ranks > 1 && facts.slowest >= 0 && facts.slowdown > kSlow && waits) {
    return fmt::format(
        "Rank {} takes {:.0f} % longer to compute than the middle rank, and the others wait for "
        "it: look at what else runs on its machine, and at its cores.",
        facts.slowest, 100 * (facts.slowdown - 1));
  }
  Phase largest = Phase::kForward;
  for (const Phase phase :
       {Phase::kData, Phase::kGather, Phase::kReduce, Phase::kOptimizer, Phase::kCheckpoint}) {
    if (share(phase) < NotedShare(phase)) continue;
    if (largest == Phase::kForward || share(phase) > share(largest)) largest = phase;
  }
  if (largest == Phase::kForward)
    return OfComputing(share(Phase::kForward) + share(Phase::kBackward), facts.mfu);
  return fmt::format("{} takes {:.0f} % of a step: {}.", WhatTakes(largest), 100 * share(largest),
                     Hint(largest, config));
}

}  // namespace weft::trainer
