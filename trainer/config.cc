#include "trainer/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/shard.h"

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

constexpr double kLastRate = 0.05;  // of the peak

void CheckRange(const char* option, size_t value, size_t low, size_t high) {
  if (value < low || value > high) {
    throw BadInput(fmt::format("{} {} is out of range; use {} to {}", option, value, low, high));
  }
}

}  // namespace

double LearningRate(const TrainConfig& config, size_t step) {
  if (step < config.warmup) return config.lr * double(step + 1) / double(config.warmup);
  const size_t rest = config.steps > config.warmup ? config.steps - config.warmup : 1;
  const double progress = std::min(1.0, double(step - config.warmup) / double(rest));
  return config.lr * (kLastRate + (1 - kLastRate) * 0.5 * (1 + std::cos(M_PI * progress)));
}

void CheckConfig(const TrainConfig& config, size_t world_size) {
  CheckRange("--steps", config.steps, 1, kStepsMax);
  CheckRange("--seq", config.model.seq, 2, kSeqMax);
  CheckRange("--layers", config.model.layers, 1, kLayersMax);
  CheckRange("--width", config.model.width, 1, kWidthMax);
  CheckRange("--heads", config.model.heads, 1, config.model.width);
  CheckRange("--batch", config.global_batch, 1, kBatchMax);
  CheckRange("--accumulate", config.accumulate, 1, config.global_batch);
  if (config.model.width % config.model.heads != 0) {
    throw BadInput(fmt::format("--width {} is not a multiple of --heads {}; choose one that is",
                               config.model.width, config.model.heads));
  }
  const size_t pieces = world_size * config.accumulate;
  if (config.global_batch % pieces != 0) {
    throw BadInput(
        fmt::format("--batch {} cannot be dealt evenly to {} ranks x {} micro-batches; use a "
                    "multiple of {}",
                    config.global_batch, world_size, config.accumulate, pieces));
  }
  if (!(config.lr > 0 && config.lr < 10)) {
    throw BadInput(
        fmt::format("--lr {} is out of range; use more than 0 and less than 10", config.lr));
  }
  CheckRange("--prefetch", config.prefetch, 0, kPrefetchMax);
  CheckRange("--nonfinite-steps", config.nonfinite_steps, 1, kStepsMax);
  const size_t shard = config.shard_group;
  if (shard != 0 && world_size % shard != 0) {
    throw BadInput(
        fmt::format("--shard-group {} does not divide {} ranks; use a divisor", shard, world_size));
  }
  if (config.strategy == WEFT_SHARD_HYBRID_SHARD && (shard & (shard - 1)) != 0) {
    throw BadInput(
        fmt::format("--shard-group {} is not a power of two, which hybrid needs for the "
                    "bits of the other strategies",
                    shard));
  }
  if (config.elastic && config.strategy != WEFT_SHARD_NO_SHARD) {
    throw BadInput(
        "--elastic needs --strategy ddp: only there has every rank all weights and optimizer "
        "state");
  }
  if (config.strategy == WEFT_SHARD_FRACTION && config.memory_budget == 0) {
    throw BadInput(
        "--strategy fraction needs --memory-budget, the bytes that may be spent on keeping blocks "
        "unsharded");
  }
  if (!PrecisionSupported(config.precision)) {
    throw BadInput("--dtype bf16: oneDNN has no bfloat16 product for this CPU; use --dtype fp32");
  }
}

std::string ConfigText(const TrainConfig& t, size_t ranks) {
  const nlohmann::ordered_json json = {
      {"program", "weft_train"},
      {"ranks", ranks},
      {"layers", t.model.layers},
      {"width", t.model.width},
      {"heads", t.model.heads},
      {"seq", t.model.seq},
      {"steps", t.steps},
      {"batch", t.global_batch},
      {"accumulate", t.accumulate},
      {"lr", t.lr},
      {"warmup", t.warmup},
      {"seed", t.seed},
      {"strategy", weft_shard_preset_name(t.strategy)},
      {"dtype", t.precision == Precision::kBf16 ? "bf16" : "fp32"},
      {"optimizer", t.optimizer == WEFT_OPTIMIZER_MUON ? "muon" : "adamw"}};
  return json.dump(2) + "\n";
}

}  // namespace weft::trainer
