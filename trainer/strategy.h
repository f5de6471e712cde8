// How the model and what it needs are spread over the ranks.
//
//   config.strategy = ParseStrategy("zero2");        // throws BadInput, with the names there are
//   fmt::print("{}\n", StrategyName(config.strategy));
//
// All strategies compute the same bits at equal rank count and accumulation; they differ in memory and
// traffic. Pure functions.
#ifndef WEFT_TRAINER_STRATEGY_H_
#define WEFT_TRAINER_STRATEGY_H_

#include <cstddef>
#include <string>
#include <vector>

namespace weft::trainer {

// What is cut between the ranks.
enum class Strategy {
  kDdp,          // nothing
  kZero1,        // optimizer state
  kZero2,        // and gradients
  kShardGradOp,  // and parameters, whole from forward to backward
  kFullShard,    // and parameters, whole only while used; zero3 is the same
  kHybrid,       // as kFullShard within groups of ranks, which are replicas of each other
  kHpz,          // as kFullShard, but between forward and backward a part by such a group is kept
  kFraction,     // as kFullShard, but as many blocks stay whole as a budget allows
};

// When gradients of several micro-batches are reduced.
enum class Accumulation {
  kLocal,  // after the last one
  kEvery,  // after each
  kInner,  // within the groups of kHybrid after each, across them after the last one; else as kEvery
};

// In what gradients are reduced.
enum class ReduceType { kFp32, kBf16, kFp16 };

// All of them, in the order of what they save.
const std::vector<Strategy>& AllStrategies();
// True if the ranks are cut into groups for it (--shard-group).
bool HasGroups(Strategy strategy);
// The ranks of a group unless the user says: the largest power of two that divides `world_size`, but not all.
size_t DefaultGroup(size_t world_size);
// The name that --strategy takes.
std::string StrategyName(Strategy strategy);
// Throws BadInput for a name that is unknown.
Strategy ParseStrategy(const std::string& name);
// "local", "every" or "inner"; throws BadInput for anything else.
Accumulation ParseAccumulation(const std::string& name);
// "fp32", "bf16" or "fp16"; throws BadInput for anything else.
ReduceType ParseReduceType(const std::string& name);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_STRATEGY_H_
