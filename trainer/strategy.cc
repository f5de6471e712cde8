#include "trainer/strategy.h"

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

constexpr char kNames[] =
    "ddp, zero1, zero2, zero3, shard-grad-op, full-shard, hybrid, hpz or fraction";

}  // namespace

const std::vector<weft_shard_preset_t>& AllStrategies() {
  static const std::vector<weft_shard_preset_t> all = {
      WEFT_SHARD_NO_SHARD,   WEFT_SHARD_ZERO1,        WEFT_SHARD_ZERO2, WEFT_SHARD_GRAD_OP,
      WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_HPZ,   WEFT_SHARD_FRACTION};
  return all;
}

bool HasGroups(weft_shard_preset_t strategy) {
  return strategy == WEFT_SHARD_HYBRID_SHARD || strategy == WEFT_SHARD_HPZ;
}

size_t DefaultGroup(size_t world_size) {
  size_t group = 1;
  while (world_size % (2 * group) == 0 && 2 * group < world_size)
    group *= 2;
  return group;
}

weft_shard_preset_t ParseStrategy(const std::string& name) {
  weft_shard_preset_t strategy = WEFT_SHARD_NO_SHARD;
  if (weft_shard_preset_by_name(name.c_str(), &strategy) == WEFT_SUCCESS) return strategy;
  throw BadInput("--strategy " + name + " is unknown; use " + kNames);
}

weft_shard_accumulation_t ParseAccumulation(const std::string& name) {
  for (const auto known :
       {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY, WEFT_SHARD_INNER_EVERY_OUTER_LAST}) {
    if (name == NameOf(known)) return known;
  }
  throw BadInput("--accumulation " + name + " is unknown; use local, every or inner");
}

weft_shard_views_t ParseViews(const std::string& name) {
  for (const auto known :
       {WEFT_SHARD_VIEWS_MOVE, WEFT_SHARD_VIEWS_STABLE, WEFT_SHARD_VIEWS_APART}) {
    if (name == NameOf(known)) return known;
  }
  throw BadInput("--views " + name + " is unknown; use move, stable or apart");
}

weft_optimizer_kind_t ParseOptimizer(const std::string& name) {
  for (const auto known : {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_SGD, WEFT_OPTIMIZER_LION,
                           WEFT_OPTIMIZER_LAMB, WEFT_OPTIMIZER_LARS, WEFT_OPTIMIZER_MUON}) {
    if (name == NameOf(known)) return known;
  }
  throw BadInput("--optimizer " + name + " is unknown; use adamw, sgd, lion, lamb, lars or muon");
}

weft_shard_wire_t ParseReduceType(const std::string& name) {
  for (const auto known :
       {WEFT_SHARD_WIRE_GRADIENTS, WEFT_SHARD_WIRE_BFLOAT16, WEFT_SHARD_WIRE_FLOAT16}) {
    if (name == NameOf(known)) return known;
  }
  throw BadInput("--reduce-dtype " + name + " is unknown; use fp32, bf16 or fp16");
}

const char* NameOf(weft_shard_accumulation_t accumulation) {
  if (accumulation == WEFT_SHARD_REDUCE_EVERY) return "every";
  return accumulation == WEFT_SHARD_INNER_EVERY_OUTER_LAST ? "inner" : "local";
}

const char* NameOf(weft_shard_views_t views) {
  if (views == WEFT_SHARD_VIEWS_STABLE) return "stable";
  return views == WEFT_SHARD_VIEWS_APART ? "apart" : "move";
}

const char* NameOf(weft_optimizer_kind_t optimizer) {
  switch (optimizer) {
    case WEFT_OPTIMIZER_SGD:
      return "sgd";
    case WEFT_OPTIMIZER_LION:
      return "lion";
    case WEFT_OPTIMIZER_LAMB:
      return "lamb";
    case WEFT_OPTIMIZER_LARS:
      return "lars";
    case WEFT_OPTIMIZER_MUON:
      return "muon";
    default:
      return "adamw";
  }
}

const char* NameOf(weft_shard_wire_t reduce_type) {
  if (reduce_type == WEFT_SHARD_WIRE_BFLOAT16) return "bf16";
  return reduce_type == WEFT_SHARD_WIRE_FLOAT16 ? "fp16" : "fp32";
}

}  // namespace weft::trainer
