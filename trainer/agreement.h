// What ranks must have in common before they train a model or use it, and how they end together if
// they have not.
//
//   config.train.precision = AgreeOnPrecision(group, config);
//   AgreeOnConfig(group, ResolveConfig(config, corpus, size));     // throws BadInput on all ranks alike
//
// Every function is collective over the ranks of the group. Thread-safety: values.
#ifndef WEFT_TRAINER_AGREEMENT_H_
#define WEFT_TRAINER_AGREEMENT_H_

#include <string>
#include <vector>

#include "weft/group.h"

#include "trainer/config.h"
#include "trainer/resolved_config.h"

namespace weft::trainer {

// The precision of --dtype; where ranks have left it to their CPUs, the best that all of these
// have.
Precision AgreeOnPrecision(weft_group_t group, const ProgramConfig& config);

// What the ranks differ in, with the values and whose they are; "" if they are alike. The same
// sentence on all ranks.
std::string WhereRanksDiffer(weft_group_t group, const ResolvedConfig& own);

// Throws BadInput on all ranks if they differ: "the ranks would `verb` different things".
void AgreeOnConfig(weft_group_t group, const ResolvedConfig& own, const char* verb = "train");

// "ranks 0, 2 and 3", "rank 1"; of many the first ones.
std::string NameRanks(const std::vector<size_t>& ranks);

// Throws BadInput once all ranks are here to do the same: none is to end the group while another
// one is still being told.
[[noreturn]] void ThrowOnAllRanks(weft_group_t group, const std::string& sentence);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_AGREEMENT_H_
