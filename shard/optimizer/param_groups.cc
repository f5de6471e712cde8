// One table of names, bits and places says which number is which; changing, reading back, comparing and hashing go by it, so that a
// number that is added cannot be left out of one of them.
#include "shard/optimizer/param_groups.h"

#include <array>
#include <bit>

#include "base/status.h"
#include "base/text.h"
#include "comm/group/number_hash.h"
#include "fmt/format.h"

namespace weft {
namespace {

// A number of weft_shard_param_group_t.
struct GroupNumber {
  const char* name;
  uint32_t bit;
  double weft_shard_param_group_t::*given;
};

constexpr GroupNumber kFactors[] = {
    {"learning_rate_factor", WEFT_OPTIMIZER_LEARNING_RATE_FACTOR,
     &weft_shard_param_group_t::learning_rate_factor},
    {"weight_decay_factor", WEFT_OPTIMIZER_WEIGHT_DECAY_FACTOR,
     &weft_shard_param_group_t::weight_decay_factor},
};

constexpr GroupNumber kNumbers[] = {
    {"beta1", WEFT_OPTIMIZER_BETA1, &weft_shard_param_group_t::beta1},
    {"beta2", WEFT_OPTIMIZER_BETA2, &weft_shard_param_group_t::beta2},
    {"epsilon", WEFT_OPTIMIZER_EPSILON, &weft_shard_param_group_t::epsilon},
    {"momentum", WEFT_OPTIMIZER_MOMENTUM, &weft_shard_param_group_t::momentum},
    {"trust", WEFT_OPTIMIZER_TRUST, &weft_shard_param_group_t::trust},
};

bool Meant(const weft_shard_param_group_t& given, uint32_t bit, double number) {
  return number != 0 || (given.fields & bit) != 0;
}

// Those of the kind's own options; weight decay is the config's.
weft_shard_param_group_t OptionsOf(const OptimizerGroup& group) {
  weft_shard_param_group_t numbers = {};
  const auto set = [&](double weft_shard_param_group_t::*number, uint32_t bit, double value) {
    numbers.*number = value;
    numbers.fields |= bit;
  };
  using Numbers = weft_shard_param_group_t;
  const auto set_betas = [&](const auto& options) {
    set(&Numbers::beta1, WEFT_OPTIMIZER_BETA1, options.beta1);
    set(&Numbers::beta2, WEFT_OPTIMIZER_BETA2, options.beta2);
  };
  switch (group.kind) {
    case WEFT_OPTIMIZER_ADAMW:
      set_betas(group.adamw);
      set(&Numbers::epsilon, WEFT_OPTIMIZER_EPSILON, group.adamw.epsilon);
      break;
    case WEFT_OPTIMIZER_SGD:
      set(&Numbers::momentum, WEFT_OPTIMIZER_MOMENTUM, group.sgd.momentum);
      numbers.nesterov = group.sgd.nesterov ? 1 : 0;
      numbers.fields |= WEFT_OPTIMIZER_NESTEROV;
      break;
    case WEFT_OPTIMIZER_LION:
      set_betas(group.lion);
      break;
    case WEFT_OPTIMIZER_LAMB:
      set_betas(group.lamb);
      set(&Numbers::epsilon, WEFT_OPTIMIZER_EPSILON, group.lamb.epsilon);
      break;
    case WEFT_OPTIMIZER_LARS:
      set(&Numbers::momentum, WEFT_OPTIMIZER_MOMENTUM, group.lars.momentum);
      set(&Numbers::trust, WEFT_OPTIMIZER_TRUST, group.lars.coefficient);
      break;
    case WEFT_OPTIMIZER_MUON:
      set(&Numbers::momentum, WEFT_OPTIMIZER_MOMENTUM, group.muon.momentum);
      numbers.nesterov = group.muon.nesterov ? 1 : 0;
      numbers.fields |= WEFT_OPTIMIZER_NESTEROV;
      break;
    case WEFT_OPTIMIZER_OWN:
      break;
  }
  return numbers;
}

// Before the group's factor.
double WeightDecayOf(const OptimizerGroup& group) {
  switch (group.kind) {
    case WEFT_OPTIMIZER_ADAMW:
      return group.adamw.weight_decay;
    case WEFT_OPTIMIZER_SGD:
      return group.sgd.weight_decay;
    case WEFT_OPTIMIZER_LION:
      return group.lion.weight_decay;
    case WEFT_OPTIMIZER_LAMB:
      return group.lamb.weight_decay;
    case WEFT_OPTIMIZER_LARS:
      return group.lars.weight_decay;
    case WEFT_OPTIMIZER_MUON:
      return group.muon.weight_decay;
    case WEFT_OPTIMIZER_OWN:
      return 0;
  }
  return 0;
}

const char* StateName(const OptimizerGroup& group) {
  switch (group.kind) {
    case WEFT_OPTIMIZER_ADAMW:
    case WEFT_OPTIMIZER_LAMB:
      return "means of gradients and of their squares";
    case WEFT_OPTIMIZER_SGD:
      return group.sgd.momentum == 0 ? "no moments" : "a sum of gradients";
    case WEFT_OPTIMIZER_LION:
      return "a mean of gradients";
    case WEFT_OPTIMIZER_LARS:
      return "a sum of steps";
    case WEFT_OPTIMIZER_MUON:
      return "a sum of gradients, for matrices";
    case WEFT_OPTIMIZER_OWN:
      return "nothing";
  }
  return "";
}

}  // namespace

OptimizerGroup GroupOf(const OptimizerConfig& config) {
  return {.kind = config.kind,
          .adamw = config.adamw,
          .sgd = config.sgd,
          .lion = config.lion,
          .lamb = config.lamb,
          .lars = config.lars,
          .muon = config.muon};
}

absl::StatusOr<OptimizerGroup> GroupAt(std::span<const OptimizerGroup> groups, int group,
                                       const char* call) {
  if (groups.empty()) {
    return MakeError(WEFT_BAD_STATE, {.operation = call},
                     StrCat(call,
                            ": the context has no optimizer, hence no param groups; give it one "
                            "with weft_shard_context_optimizer first"));
  }
  if (group >= 0 && static_cast<size_t>(group) < groups.size()) {
    return groups[static_cast<size_t>(group)];
  }
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = call},
                   StrCat(call, ": group is ", group, ", the context has ", groups.size(),
                          " param groups; count from 0, the context's own, and add others with "
                          "weft_shard_param_group_add"));
}

absl::StatusOr<OptimizerGroup> Changed(const OptimizerGroup& base,
                                       const weft_shard_param_group_t& change, const char* call) {
  OptimizerGroup group = base;
  const auto take = [&](uint32_t bit, double number, auto&... places) {
    if (Meant(change, bit, number)) ((places = number), ...);
  };
  if (change.kind != WEFT_OPTIMIZER_ADAMW || (change.fields & WEFT_OPTIMIZER_KIND) != 0) {
    group.kind = change.kind;
  }
  take(WEFT_OPTIMIZER_LEARNING_RATE_FACTOR, change.learning_rate_factor,
       group.learning_rate_factor);
  take(WEFT_OPTIMIZER_WEIGHT_DECAY_FACTOR, change.weight_decay_factor, group.weight_decay_factor);
  take(WEFT_OPTIMIZER_BETA1, change.beta1, group.adamw.beta1, group.lion.beta1, group.lamb.beta1);
  take(WEFT_OPTIMIZER_BETA2, change.beta2, group.adamw.beta2, group.lion.beta2, group.lamb.beta2);
  take(WEFT_OPTIMIZER_EPSILON, change.epsilon, group.adamw.epsilon, group.lamb.epsilon);
  take(WEFT_OPTIMIZER_MOMENTUM, change.momentum, group.sgd.momentum, group.lars.momentum,
       group.muon.momentum);
  take(WEFT_OPTIMIZER_TRUST, change.trust, group.lars.coefficient);
  if (change.nesterov != 0 || (change.fields & WEFT_OPTIMIZER_NESTEROV) != 0) {
    group.sgd.nesterov = change.nesterov != 0;
    group.muon.nesterov = change.nesterov != 0;
  }
  if (group.kind == WEFT_OPTIMIZER_LAMB && group.lamb.epsilon == 0) {
    return MakeError(WEFT_INVALID_ARGUMENT, {.operation = call},
                     StrCat(call, ": epsilon is 0; LAMB needs one above 0"));
  }
  return group;
}

weft_shard_param_group_t NumbersOf(const OptimizerGroup& group) {
  weft_shard_param_group_t numbers = OptionsOf(group);
  numbers.struct_size = sizeof(numbers);
  numbers.kind = group.kind;
  numbers.learning_rate_factor = group.learning_rate_factor;
  numbers.weight_decay_factor = group.weight_decay_factor;
  numbers.fields |= WEFT_OPTIMIZER_KIND | WEFT_OPTIMIZER_LEARNING_RATE_FACTOR |
                    WEFT_OPTIMIZER_WEIGHT_DECAY_FACTOR;
  return numbers;
}

std::vector<std::pair<const char*, double>> NamedNumbers(const OptimizerGroup& group) {
  const weft_shard_param_group_t numbers = NumbersOf(group);
  std::vector<std::pair<const char*, double>> named;
  const auto add = [&](const auto& table) {
    for (const GroupNumber& number : table) {
      if ((numbers.fields & number.bit) != 0)
        named.emplace_back(number.name, numbers.*number.given);
    }
  };
  add(kFactors);
  named.emplace_back("weight_decay", WeightDecayOf(group));
  add(kNumbers);
  if ((numbers.fields & WEFT_OPTIMIZER_NESTEROV) != 0)
    named.emplace_back("nesterov", numbers.nesterov);
  return named;
}

std::string GroupText(const OptimizerGroup& group) {
  std::string text = fmt::format("kind {}", OptimizerKindName(group.kind));
  for (const auto& [name, number] : NamedNumbers(group))
    text += fmt::format(", {} {}", name, number);
  return text;
}

uint64_t GroupsMark(std::span<const OptimizerGroup> groups) {
  NumberHash hash;
  for (const OptimizerGroup& group : groups) {
    const weft_shard_param_group_t numbers = NumbersOf(group);
    hash.Add(static_cast<uint64_t>(numbers.kind));
    hash.Add(static_cast<uint64_t>(numbers.nesterov));
    hash.Add(std::bit_cast<uint64_t>(WeightDecayOf(group)));
    const auto add = [&](const auto& table) {
      for (const GroupNumber& number : table)
        hash.Add(std::bit_cast<uint64_t>(numbers.*number.given + 0.0));
    };
    add(kFactors);
    add(kNumbers);
  }
  return hash.Get();
}

const char* OptimizerKindName(weft_optimizer_kind_t kind) {
  switch (kind) {
    case WEFT_OPTIMIZER_ADAMW:
      return "ADAMW";
    case WEFT_OPTIMIZER_SGD:
      return "SGD";
    case WEFT_OPTIMIZER_LION:
      return "LION";
    case WEFT_OPTIMIZER_LAMB:
      return "LAMB";
    case WEFT_OPTIMIZER_LARS:
      return "LARS";
    case WEFT_OPTIMIZER_OWN:
      return "OWN";
    case WEFT_OPTIMIZER_MUON:
      return "MUON";
  }
  return "unknown";
}

int MomentCount(const OptimizerGroup& group) {
  switch (group.kind) {
    case WEFT_OPTIMIZER_ADAMW:
    case WEFT_OPTIMIZER_LAMB:
      return 2;
    case WEFT_OPTIMIZER_SGD:
      return group.sgd.momentum == 0 ? 0 : 1;
    case WEFT_OPTIMIZER_OWN:
      return 0;
    default:
      return 1;
  }
}

bool NeedsNorms(const OptimizerGroup& group) {
  return group.kind == WEFT_OPTIMIZER_LAMB || group.kind == WEFT_OPTIMIZER_LARS;
}

absl::Status CheckSameState(const OptimizerGroup& from, const OptimizerGroup& to, int group) {
  const bool moments_of_both = MomentCount(from) == 2 && MomentCount(to) == 2;
  if (moments_of_both || (from.kind == to.kind && MomentCount(from) == MomentCount(to))) {
    return absl::OkStatus();
  }
  constexpr char kCall[] = "param_group_set";
  const auto text = [](const OptimizerGroup& of) {
    return of.kind == WEFT_OPTIMIZER_SGD
               ? fmt::format("SGD with momentum {} keeps {}", of.sgd.momentum, StateName(of))
               : fmt::format("{} keeps {}", OptimizerKindName(of.kind), StateName(of));
  };
  return MakeError(
      WEFT_INVALID_ARGUMENT, {.operation = kCall},
      StrCat(kCall, ": the state of group ", group, " stays from finalize on: ", text(from), ", ",
             text(to), "; change numbers only, or between ADAMW and LAMB"));
}

}  // namespace weft
