// Param groups: the formula and the numbers that a part of the params is updated with, as torch.optim's param_groups.
//
//   std::vector<OptimizerGroup> groups = {GroupOf(config)};            // group 0
//   WEFT_ASSIGN_OR_RETURN(OptimizerGroup more, Changed(groups[0], change, "param_group_add"));
//   groups.push_back(more);
//   GroupText(groups[1]);                                              // ranks compare it
//
// A group has the numbers of every kind, so that a change of kind finds those that the context's config says.
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/shard_param_groups.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/optimizer/optimizer_config.h"

namespace weft {

struct OptimizerGroup {
  weft_optimizer_kind_t kind = WEFT_OPTIMIZER_ADAMW;
  double learning_rate_factor = 1;  // x an update's
  double weight_decay_factor = 1;   // x the options'
  AdamWOptions adamw;               // the options of `kind` count
  SgdOptions sgd;
  LionOptions lion;
  LambOptions lamb;
  LarsOptions lars;
  MuonOptions muon;
};

// Group 0 of a context with this optimizer.
OptimizerGroup GroupOf(const OptimizerConfig& config);

// One of them; BAD_STATE if there are none, INVALID_ARGUMENT for a number that none has.
absl::StatusOr<OptimizerGroup> GroupAt(std::span<const OptimizerGroup> groups, int group,
                                       const char* call);

// `base` with what `change` names. INVALID_ARGUMENT, beginning with `call`, for numbers that make no sense together.
absl::StatusOr<OptimizerGroup> Changed(const OptimizerGroup& base,
                                       const weft_shard_param_group_t& change, const char* call);

// What the group's kind uses, each with its bit: Changed(any group, NumbersOf(g)) is updated as g.
weft_shard_param_group_t NumbersOf(const OptimizerGroup& group);

// All that decides the numbers, each under its name: "learning_rate_factor", "weight_decay", "beta1".
std::vector<std::pair<const char*, double>> NamedNumbers(const OptimizerGroup& group);

// All that decides the numbers, as "name value, name value, ..."; any two doubles have different texts.
std::string GroupText(const OptimizerGroup& group);

// A hash of all numbers of all groups.
uint64_t GroupsMark(std::span<const OptimizerGroup> groups);

const char* OptimizerKindName(weft_optimizer_kind_t kind);

// How many moments the optimizer keeps of an element.
int MomentCount(const OptimizerGroup& group);

// It updates whole params by their norms.
bool NeedsNorms(const OptimizerGroup& group);

// Whether the state that was kept for `from` is one for `to`: ADAMW and LAMB have the same moments, the others each their own.
// Ok, or INVALID_ARGUMENT that says which state differs.
absl::Status CheckSameState(const OptimizerGroup& from, const OptimizerGroup& to, int group);

// Of one update.
struct UpdateRate {
  double learning_rate = 0;
  bool decays = true;
};

// Options of one kind with the group's factors.
template <typename Options>
Options WithRate(Options options, const OptimizerGroup& group, const UpdateRate& rate) {
  options.learning_rate = rate.learning_rate * group.learning_rate_factor;
  options.weight_decay = rate.decays ? options.weight_decay * group.weight_decay_factor : 0;
  return options;
}

}  // namespace weft
