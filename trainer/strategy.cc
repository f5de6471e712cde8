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

std::string StrategyName(weft_shard_preset_t strategy) {
  switch (strategy) {
    case WEFT_SHARD_NO_SHARD:
      return "ddp";
    case WEFT_SHARD_ZERO1:
      return "zero1";
    case WEFT_SHARD_ZERO2:
      return "zero2";
    case WEFT_SHARD_GRAD_OP:
      return "shard-grad-op";
    case WEFT_SHARD_FULL_SHARD:
      return "full-shard";
    case WEFT_SHARD_HYBRID_SHARD:
      return "hybrid";
    case WEFT_SHARD_HPZ:
      return "hpz";
    case WEFT_SHARD_FRACTION:
      return "fraction";
  }
  return "?";
}

weft_shard_preset_t ParseStrategy(const std::string& name) {
  if (name == "zero3") return WEFT_SHARD_FULL_SHARD;
  for (const weft_shard_preset_t strategy : AllStrategies()) {
    if (StrategyName(strategy) == name) return strategy;
  }
  throw BadInput("--strategy " + name + " is unknown; use " + kNames);
}

weft_shard_accumulation_t ParseAccumulation(const std::string& name) {
  if (name == "local") return WEFT_SHARD_LOCAL_THEN_REDUCE;
  if (name == "every") return WEFT_SHARD_REDUCE_EVERY;
  if (name == "inner") return WEFT_SHARD_INNER_EVERY_OUTER_LAST;
  throw BadInput("--accumulation " + name + " is unknown; use local, every or inner");
}

weft_shard_wire_t ParseReduceType(const std::string& name) {
  if (name == "fp32") return WEFT_SHARD_WIRE_GRADIENTS;
  if (name == "bf16") return WEFT_SHARD_WIRE_BFLOAT16;
  if (name == "fp16") return WEFT_SHARD_WIRE_FLOAT16;
  throw BadInput("--reduce-dtype " + name + " is unknown; use fp32, bf16 or fp16");
}

}  // namespace weft::trainer
