#include "trainer/strategy.h"

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

constexpr char kNames[] =
    "ddp, zero1, zero2, zero3, shard-grad-op, full-shard, hybrid, hpz or fraction";

}  // namespace

const std::vector<Strategy>& AllStrategies() {
  static const std::vector<Strategy> all = {
      Strategy::kDdp,       Strategy::kZero1,  Strategy::kZero2, Strategy::kShardGradOp,
      Strategy::kFullShard, Strategy::kHybrid, Strategy::kHpz,   Strategy::kFraction};
  return all;
}

bool HasGroups(Strategy strategy) {
  return strategy == Strategy::kHybrid || strategy == Strategy::kHpz;
}

size_t DefaultGroup(size_t world_size) {
  size_t group = 1;
  while (world_size % (2 * group) == 0 && 2 * group < world_size)
    group *= 2;
  return group;
}

std::string StrategyName(Strategy strategy) {
  switch (strategy) {
    case Strategy::kDdp:
      return "ddp";
    case Strategy::kZero1:
      return "zero1";
    case Strategy::kZero2:
      return "zero2";
    case Strategy::kShardGradOp:
      return "shard-grad-op";
    case Strategy::kFullShard:
      return "full-shard";
    case Strategy::kHybrid:
      return "hybrid";
    case Strategy::kHpz:
      return "hpz";
    case Strategy::kFraction:
      return "fraction";
  }
  return "?";
}

Strategy ParseStrategy(const std::string& name) {
  if (name == "zero3") return Strategy::kFullShard;
  for (const Strategy strategy : AllStrategies()) {
    if (StrategyName(strategy) == name) return strategy;
  }
  throw BadInput("--strategy " + name + " is unknown; use " + kNames);
}

Accumulation ParseAccumulation(const std::string& name) {
  if (name == "local") return Accumulation::kLocal;
  if (name == "every") return Accumulation::kEvery;
  if (name == "inner") return Accumulation::kInner;
  throw BadInput("--accumulation " + name + " is unknown; use local, every or inner");
}

ReduceType ParseReduceType(const std::string& name) {
  if (name == "fp32") return ReduceType::kFp32;
  if (name == "bf16") return ReduceType::kBf16;
  if (name == "fp16") return ReduceType::kFp16;
  throw BadInput("--reduce-dtype " + name + " is unknown; use fp32, bf16 or fp16");
}

}  // namespace weft::trainer
