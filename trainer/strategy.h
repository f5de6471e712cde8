// How the model and what it needs are spread over the ranks: the names that options give to the library's presets.
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

#include "weft/shard.h"

namespace weft::trainer {

// All of them, in the order of what they save.
const std::vector<weft_shard_preset_t>& AllStrategies();
// True if the ranks are cut into groups for it (--shard-group).
bool HasGroups(weft_shard_preset_t strategy);
// The ranks of a group unless the user says: the largest power of two that divides `world_size`, but not all.
size_t DefaultGroup(size_t world_size);
// The name that --strategy takes.
std::string StrategyName(weft_shard_preset_t strategy);
// Throws BadInput for a name that is unknown.
weft_shard_preset_t ParseStrategy(const std::string& name);
// "local", "every" or "inner"; throws BadInput for anything else.
weft_shard_accumulation_t ParseAccumulation(const std::string& name);
// "fp32", "bf16" or "fp16"; throws BadInput for anything else.
weft_shard_wire_t ParseReduceType(const std::string& name);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_STRATEGY_H_
