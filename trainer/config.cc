#include "trainer/config.h"

#include <cstdint>

#include <fmt/core.h>

#include "weft/shard.h"

#include "trainer/failure.h"
#include "trainer/optimizer_setup.h"

namespace weft::trainer {
namespace {

void CheckRange(const char* option, size_t value, size_t low, size_t high) {
  if (value < low || value > high) {
    throw BadInput(fmt::format("{} {} is out of range; use {} to {}", option, value, low, high));
  }
}

// Those that only Llama has, and what its heads must be.
void CheckArchitecture(const ModelConfig& m) {
  if (m.architecture == Architecture::kGpt2) {
    const ModelConfig plain;
    const char* const given = m.kv_heads != 0                        ? "--kv-heads"
                              : m.hidden != 0                        ? "--hidden"
                              : m.rope_theta != plain.rope_theta     ? "--rope-theta"
                              : m.norm_epsilon != plain.norm_epsilon ? "--norm-epsilon"
                                                                     : nullptr;
    if (given == nullptr) return;
    throw BadInput(
        fmt::format("{} is of Llama, and the model is a GPT-2; give --arch llama too", given));
  }
  CheckRange("--kv-heads", m.key_heads(), 1, m.heads);
  CheckRange("--hidden", m.hidden_width(), 1, kHiddenMax);
  if (m.heads % m.key_heads() != 0) {
    throw BadInput(fmt::format("--heads {} is not a multiple of --kv-heads {}; choose a divisor",
                               m.heads, m.key_heads()));
  }
  if (m.head_dim() % 2 != 0) {
    throw BadInput(
        fmt::format("--width {} over --heads {} is {}, which is odd; rotary positions need an even "
                    "number for each head",
                    m.width, m.heads, m.head_dim()));
  }
}

// For numbers that are no counts; `range` says in words which are legal.
void CheckNumber(const char* option, double value, bool legal, const char* range) {
  if (!legal) throw BadInput(fmt::format("{} {} is out of range; use {}", option, value, range));
}

void CheckNumbers(TrainConfig t) {
  ChooseOptimizerNumbers(t);
  constexpr double kMost = 1e6;  // of what has no natural end
  CheckNumber("--init-deviation", t.model.deviation,
              t.model.deviation >= 0 && t.model.deviation <= 10, "0 to 10");
  CheckNumber("--rope-theta", t.model.rope_theta,
              t.model.rope_theta >= 1 && t.model.rope_theta <= 1e9, "1 to 1000000000");
  CheckNumber("--norm-epsilon", t.model.norm_epsilon,
              t.model.norm_epsilon > 0 && t.model.norm_epsilon <= 1, "more than 0, up to 1");
  CheckNumber("--dropout", t.dropout, t.dropout >= 0 && t.dropout <= 0.99, "0 to 0.99");
  CheckNumber("--lr", t.lr, t.lr > 0 && t.lr < 10, "more than 0 and less than 10");
  if (t.lr_scaling != LrScaling::kNone && t.lr_batch == 0) {
    throw BadInput(fmt::format("--lr-scaling {} needs --lr-batch, the batch that --lr is meant for",
                               NameOf(t.lr_scaling)));
  }
  CheckNumber("--outlier-z", t.outlier_z,
              t.outlier_z == 0 || (t.outlier_z >= 1 && t.outlier_z <= kMost),
              "0, which skips no step, or 1 and more");
  CheckNumber("--final-rate", t.final_rate, t.final_rate >= 0 && t.final_rate <= 1, "0 to 1");
  CheckNumber("--warmup-from", t.warmup_from, t.warmup_from >= 0 && t.warmup_from <= 1, "0 to 1");
  CheckNumber("--weight-decay", t.weight_decay, t.weight_decay >= 0 && t.weight_decay <= kMost,
              "0 to 1000000");
  CheckNumber("--beta1", t.beta1, t.beta1 >= 0 && t.beta1 < 1, "0 to less than 1");
  CheckNumber("--beta2", t.beta2, t.beta2 >= 0 && t.beta2 < 1, "0 to less than 1");
  CheckNumber("--eps", t.epsilon, t.epsilon > 0 && t.epsilon <= 1, "more than 0, up to 1");
  CheckNumber("--momentum", t.momentum, t.momentum >= 0 && t.momentum < 1, "0 to less than 1");
  CheckNumber("--trust", t.trust, t.trust > 0 && t.trust <= 1, "more than 0, up to 1");
  CheckNumber("--muon-factor", t.muon_factor, t.muon_factor > 0 && t.muon_factor <= kMost,
              "more than 0, up to 1000000");
  CheckNumber("--loss-scale", t.loss_scale, t.loss_scale >= 0 && t.loss_scale <= 16777216,
              "0, for a dynamic one, to 16777216");
  CheckNumber("--clip", t.grad_clip, t.grad_clip >= 0 && t.grad_clip <= kMost,
              "0 to 1000000, 0 for no limit");
}

}  // namespace

size_t Order3BytesMax(const ProgramConfig& config) {
  if (config.order3 == Order3Choice::kOff) return 0;
  const bool usual = config.data == std::vector<std::string>{"auto"};  // about 20 MB
  return usual || config.order3 == Order3Choice::kOn ? SIZE_MAX : kOrder3BytesMax;
}

void CheckConfig(const TrainConfig& config, size_t world_size) {
  CheckRange("--steps", config.steps, 1, kStepsMax);
  CheckRange("--vocabulary", config.model.vocabulary, 2, kVocabularyMax);
  CheckRange("--seq", config.model.seq, 2, kSeqMax);
  CheckRange("--layers", config.model.layers, 1, kLayersMax);
  CheckRange("--width", config.model.width, 1, kWidthMax);
  CheckRange("--heads", config.model.heads, 1, config.model.width);
  CheckRange("--batch", config.global_batch, 1, kBatchMax);
  CheckRange("--accumulate", config.accumulate, 1, kBatchMax);
  if (config.model.width % config.model.heads != 0) {
    throw BadInput(fmt::format("--width {} is not a multiple of --heads {}; choose one that is",
                               config.model.width, config.model.heads));
  }
  CheckArchitecture(config.model);
  CheckBatch(config, world_size);
  CheckNumbers(config);
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
  if (config.offload_params && config.offload.empty()) {
    throw BadInput("--offload-params needs --offload, the folder for the files");
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

}  // namespace weft::trainer
