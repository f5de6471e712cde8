// How the model and what it needs are spread over the ranks: the names that options give to the library's presets.
//
//   config.strategy = ParseStrategy("zero2");        // throws BadInput, with the names there are
//   fmt::print("{}\n", weft_shard_preset_name(config.strategy));
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
// The preset of a name that --strategy takes, which is weft_shard_preset_name's; throws BadInput for any other.
weft_shard_preset_t ParseStrategy(const std::string& name);
// "local", "every" or "inner"; throws BadInput for anything else.
weft_shard_accumulation_t ParseAccumulation(const std::string& name);
// "move", "stable" or "apart"; throws BadInput for anything else.
weft_shard_views_t ParseViews(const std::string& name);
// "adamw" or "muon"; throws BadInput for anything else.
weft_optimizer_kind_t ParseOptimizer(const std::string& name);
// "fp32", "bf16" or "fp16"; throws BadInput for anything else.
weft_shard_wire_t ParseReduceType(const std::string& name);
// The names that these are read from.
const char* NameOf(weft_shard_accumulation_t accumulation);
const char* NameOf(weft_shard_views_t views);
const char* NameOf(weft_optimizer_kind_t optimizer);
const char* NameOf(weft_shard_wire_t reduce_type);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_STRATEGY_H_
