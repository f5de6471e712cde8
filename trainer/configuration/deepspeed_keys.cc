// DeepSpeed's keys but those of zero_optimization, as its documentation has them
// (deepspeed.ai/docs/config-json, release 0.17).
#include <fmt/core.h>

#include "trainer/configuration/keys.h"
#include "trainer/failure.h"

namespace weft::trainer {
namespace {

using Role = ConfigKey::Role;

std::string TextAt(const ConfigDocument& document, const char* key) {
  const ConfigValue* const value = document.Find(key);
  return value == nullptr ? "" : value->text;
}

KeyEffect ReadOptimizer(const ConfigValue& value, const ConfigDocument& document) {
  static const WordEffect words[] = {
      {"AdamW", {{"--optimizer=adamw"}}},
      {"Adam", {{"--optimizer=adamw"}, "decoupled decay, as DeepSpeed's Adam has by itself"}},
      {"Muon", {{"--optimizer=muon"}}},
      {"Lion", {{"--optimizer=lion"}}},
      {"Lamb", {{"--optimizer=lamb"}}},
      {"SGD", {{"--optimizer=sgd"}}},
  };
  return ByWord("optimizer.type", value, document, words);
}

KeyEffect ReadBetas(const ConfigValue& value, const ConfigDocument& document) {
  if (value.items.size() != 2)
    throw BadInput(document.file + ": optimizer.params.betas takes two numbers");
  return {{OptionWord("beta1", value.items[0].text), OptionWord("beta2", value.items[1].text)}};
}

// Adam without decoupled decay is another optimizer.
KeyEffect ReadDecoupled(const ConfigValue& value, const ConfigDocument& document) {
  if (value.text == "true") return {{}, "as always here"};
  throw BadInput(document.file +
                 ": optimizer.params.adam_w_mode false is Adam with its decay in the gradient, "
                 "which is not here; set it to true, or weight_decay to 0");
}

KeyEffect ReadScheduler(const ConfigValue& value, const ConfigDocument& document) {
  // Its warm-up is logarithmic unless it says otherwise.
  const bool log = TextAt(document, "scheduler.params.warmup_type") != "linear";
  const std::string shape = log ? "--warmup-shape=log" : "--warmup-shape=linear";
  const WordEffect words[] = {
      {"WarmupLR", {{"--schedule=constant", shape}}},
      {"WarmupDecayLR", {{"--schedule=linear", shape, "--final-rate=0"}}},
      {"WarmupCosineLR", {{"--schedule=cosine", shape, "--final-rate=0.0001"}}},
  };
  return ByWord("scheduler.type", value, document, words);
}

KeyEffect ReadWarmupType(const ConfigValue& value, const ConfigDocument& document) {
  static const WordEffect words[] = {{"log", {{"--warmup-shape=log"}}},
                                     {"linear", {{"--warmup-shape=linear"}}}};
  return ByWord("scheduler.params.warmup_type", value, document, words);
}

// Where warm-up begins, and WarmupDecayLR ends: as a part of the peak.
KeyEffect ReadLeastRate(const ConfigValue& value, const ConfigDocument& document) {
  const ConfigValue* peak = document.Find("scheduler.params.warmup_max_lr");
  if (peak == nullptr || peak->IsAuto()) peak = document.Find("optimizer.params.lr");
  const double least = std::stod(value.text);
  if (least == 0) return {{"--warmup-from=0"}};
  if (peak == nullptr || peak->kind != ConfigValue::Kind::kNumber || std::stod(peak->text) <= 0) {
    throw BadInput(document.file +
                   ": scheduler.params.warmup_min_lr is a part of warmup_max_lr here, which is not "
                   "given as a number above 0; give it");
  }
  const std::string part = fmt::format("{}", least / std::stod(peak->text));
  KeyEffect effect{{OptionWord("warmup-from", part)}};
  if (TextAt(document, "scheduler.type") == "WarmupDecayLR")
    effect.options.push_back(OptionWord("final-rate", part));
  return effect;
}

KeyEffect ReadBf16(const ConfigValue& value, const ConfigDocument& document) {
  if (value.text == "true") return {{"--dtype=bf16", "--param-dtype=bf16"}};
  const bool half = TextAt(document, "fp16.enabled") == "true";
  return half ? KeyEffect{{}, "fp16.enabled says which it is"} : KeyEffect{{"--dtype=fp32"}};
}

KeyEffect ReadNesterov(const ConfigValue& value, const ConfigDocument&) {
  return value.text == "true" ? KeyEffect{{"--nesterov"}} : KeyEffect{{}, "as always here"};
}

KeyEffect ReadTensorBoard(const ConfigValue& value, const ConfigDocument&) {
  return value.text == "true" ? KeyEffect{{"--tensorboard"}} : KeyEffect{{}, "as is the default"};
}

KeyEffect ReadFp16(const ConfigValue& value, const ConfigDocument&) {
  return value.text == "true" ? KeyEffect{{"--dtype=fp16", "--param-dtype=fp16"}}
                              : KeyEffect{{}, "as is the default"};
}

// The scale is that of float16 only: without it other options stay as they are.
template <const char* kOption>
KeyEffect ReadScale(const ConfigValue& value, const ConfigDocument& document) {
  if (TextAt(document, "fp16.enabled") == "true") return {{OptionWord(kOption, value.text)}};
  return {{}, "fp16.enabled is not true", false};
}

constexpr char kScale[] = "loss-scale";
constexpr char kScalePower[] = "loss-scale-power";
constexpr char kScaleWindow[] = "loss-scale-window";
constexpr char kScaleHysteresis[] = "loss-scale-hysteresis";

KeyEffect ReadReduceType(const ConfigValue& value, const ConfigDocument& document) {
  static const WordEffect words[] = {{"fp32", {{"--reduce-dtype=fp32"}}},
                                     {"bf16", {{"--reduce-dtype=bf16"}}},
                                     {"bfp16", {{"--reduce-dtype=bf16"}}},
                                     {"fp16", {{"--reduce-dtype=fp16"}}}};
  return ByWord("communication_data_type", value, document, words);
}

constexpr const char* kAlwaysAverage =
    "gradients are added in fp32 in one order and divided after it, which needs neither";
constexpr const char* kNoRecompute = "--recompute says what is computed again";
constexpr const char* kEventsPlace = "events lie in the folder of the run";
constexpr const char* kMetrics = "metrics.jsonl of the run has all figures of each step";

constexpr ConfigKey kDeepSpeedKeys[] = {
    {"train_batch_size", Takes::kWhole, Role::kOption, "batch",
     "sequences per step, over all ranks and micro-batches"},
    {"train_micro_batch_size_per_gpu", Takes::kWhole, Role::kOption, "micro-batch",
     "sequences of one micro-batch of one rank"},
    {"gradient_accumulation_steps", Takes::kWhole, Role::kOption, "accumulate",
     "micro-batches per step"},
    {"gradient_clipping", Takes::kNumber, Role::kOption, "clip",
     "the largest norm of the gradients"},
    {"optimizer.type", Takes::kText, Role::kOwn, "optimizer",
     "AdamW, Adam (with decoupled decay), Muon, Lion, Lamb or SGD", ReadOptimizer},
    {"optimizer.params.lr", Takes::kNumber, Role::kOption, "lr", "the peak learning rate"},
    {"optimizer.params.betas", Takes::kNumbers, Role::kOwn, "beta1, beta2", "of AdamW", ReadBetas},
    {"optimizer.params.eps", Takes::kNumber, Role::kOption, "eps", "of AdamW"},
    {"optimizer.params.weight_decay", Takes::kNumber, Role::kOption, "weight-decay",
     "of matrices; vectors do not decay"},
    {"optimizer.params.momentum", Takes::kNumber, Role::kOption, "momentum", "of SGD and Muon"},
    {"optimizer.params.nesterov", Takes::kBool, Role::kOwn, "nesterov", "of SGD", ReadNesterov},
    {"optimizer.params.torch_adam", Takes::kBool, Role::kNothing, "",
     "the optimizer is weft's, whose numbers are those of torch's"},
    {"optimizer.params.adam_w_mode", Takes::kBool, Role::kOwn, "",
     "decay is always decoupled; false is refused", ReadDecoupled},
    {"optimizer.params.bias_correction", Takes::kBool, Role::kAlways, "true",
     "moments are always corrected"},
    {"optimizer.params.amsgrad", Takes::kBool, Role::kAlways, "false", "there is no AMSGrad"},
    {"scheduler.type", Takes::kText, Role::kOwn, "schedule, warmup-shape, final-rate",
     "WarmupLR, WarmupDecayLR or WarmupCosineLR", ReadScheduler},
    {"scheduler.params.warmup_min_lr", Takes::kNumber, Role::kOwn, "warmup-from, final-rate",
     "where warm-up begins and WarmupDecayLR ends", ReadLeastRate},
    {"scheduler.params.warmup_max_lr", Takes::kNumber, Role::kOption, "lr",
     "the peak learning rate"},
    {"scheduler.params.warmup_num_steps", Takes::kWhole, Role::kOption, "warmup",
     "steps of warm-up"},
    {"scheduler.params.warmup_type", Takes::kText, Role::kOwn, "warmup-shape",
     "log, or linear, whose step n has the rate of DeepSpeed's step n + 1", ReadWarmupType},
    {"scheduler.params.total_num_steps", Takes::kWhole, Role::kOption, "steps", "steps of the run"},
    {"scheduler.params.warmup_min_ratio", Takes::kNumber, Role::kOption, "warmup-from",
     "where warm-up begins, as a part of the peak"},
    {"scheduler.params.cos_min_ratio", Takes::kNumber, Role::kOption, "final-rate",
     "where the cosine ends, as a part of the peak"},
    {"bf16.enabled", Takes::kBool, Role::kOwn, "dtype",
     "true: bf16 weights and products; false: fp32 ones", ReadBf16},
    {"bfloat16.enabled", Takes::kBool, Role::kOwn, "dtype", "as bf16.enabled", ReadBf16},
    {"fp16.enabled", Takes::kBool, Role::kOwn, "dtype, param-dtype",
     "true: fp16 weights and products, which are emulated", ReadFp16},
    {"fp16.auto_cast", Takes::kBool, Role::kNothing, "", "tokens are no numbers to be rounded"},
    {"fp16.loss_scale", Takes::kNumber, Role::kOwn, kScale, "0: dynamic", ReadScale<kScale>},
    {"fp16.initial_scale_power", Takes::kWhole, Role::kOwn, kScalePower,
     "a dynamic scale begins with 2 to this power", ReadScale<kScalePower>},
    {"fp16.loss_scale_window", Takes::kWhole, Role::kOwn, kScaleWindow,
     "steps without an overflow before the scale doubles", ReadScale<kScaleWindow>},
    {"fp16.hysteresis", Takes::kWhole, Role::kOwn, kScaleHysteresis,
     "overflows before the scale is halved", ReadScale<kScaleHysteresis>},
    {"fp16.consecutive_hysteresis", Takes::kBool, Role::kAlways, "false",
     "overflows count until the scale doubles"},
    {"fp16.min_loss_scale", Takes::kNumber, Role::kAlways, "1", "the least scale is 1"},
    {"amp.enabled", Takes::kBool, Role::kAlways, "false", "there is no Apex here; see fp16"},
    {"communication_data_type", Takes::kText, Role::kOwn, "reduce-dtype",
     "fp32, bf16 or fp16: gradients are rounded to it for their reduction", ReadReduceType},
    {"prescale_gradients", Takes::kBool, Role::kAlways, "false", kAlwaysAverage},
    {"gradient_predivide_factor", Takes::kNumber, Role::kNothing, "", kAlwaysAverage},
    {"sparse_gradients", Takes::kBool, Role::kAlways, "false", "gradients are dense"},
    {"data_types.grad_accum_dtype", Takes::kText, Role::kAlways, "fp32",
     "gradients are always fp32"},
    {"steps_per_print", Takes::kWhole, Role::kNothing, "", "the last step is always shown"},
    {"wall_clock_breakdown", Takes::kBool, Role::kNothing, "", kMetrics},
    {"dump_state", Takes::kBool, Role::kNothing, "", "config.json of the run has the state"},
    {"flops_profiler.enabled", Takes::kBool, Role::kNothing, "", "--dry-run counts operations"},
    {"tensorboard.enabled", Takes::kBool, Role::kOwn, "tensorboard", "events for it",
     ReadTensorBoard},
    {"tensorboard.output_path", Takes::kText, Role::kNothing, "", kEventsPlace},
    {"tensorboard.job_name", Takes::kText, Role::kNothing, "", kEventsPlace},
    {"wandb.enabled", Takes::kBool, Role::kNothing, "", "--metrics-command can log there"},
    {"csv_monitor.enabled", Takes::kBool, Role::kNothing, "", kMetrics},
    {"comms_logger.enabled", Takes::kBool, Role::kNothing, "", "weftctl shows what ranks wait for"},
    {"activation_checkpointing.partition_activations", Takes::kBool, Role::kNothing, "",
     kNoRecompute},
    {"activation_checkpointing.cpu_checkpointing", Takes::kBool, Role::kNothing, "", kNoRecompute},
    {"activation_checkpointing.contiguous_memory_optimization", Takes::kBool, Role::kNothing, "",
     kNoRecompute},
    {"activation_checkpointing.number_checkpoints", Takes::kAny, Role::kNothing, "", kNoRecompute},
    {"activation_checkpointing.synchronize_checkpoint_boundary", Takes::kBool, Role::kNothing, "",
     kNoRecompute},
    {"activation_checkpointing.profile", Takes::kBool, Role::kNothing, "", kNoRecompute},
    {"zero_allow_untested_optimizer", Takes::kBool, Role::kNothing, "",
     "all optimizers here work with all strategies"},
    {"zero_force_ds_cpu_optimizer", Takes::kBool, Role::kNothing, "",
     "the optimizer is weft's, wherever its state is"},
};

}  // namespace

std::span<const ConfigKey> DeepSpeedKeys() {
  return kDeepSpeedKeys;
}

}  // namespace weft::trainer
