#include "trainer/strategy.h"

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

constexpr char kNames[] = "ddp, zero1, zero2, zero3, shard-grad-op, full-shard or fraction";

}  // namespace

const std::vector<Strategy>& AllStrategies() {
  static const std::vector<Strategy> all = {Strategy::kDdp,       Strategy::kZero1,
                                            Strategy::kZero2,     Strategy::kShardGradOp,
                                            Strategy::kFullShard, Strategy::kFraction};
  return all;
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
  const bool later = name == "hybrid" || name == "hpz";
  throw BadInput("--strategy " + name + " is " + (later ? "not in this version" : "unknown") +
                 "; use " + kNames);
}

Accumulation ParseAccumulation(const std::string& name) {
  if (name == "local") return Accumulation::kLocal;
  if (name == "every") return Accumulation::kEvery;
  throw BadInput("--accumulation " + name + " is unknown; use local or every");
}

}  // namespace weft::trainer
