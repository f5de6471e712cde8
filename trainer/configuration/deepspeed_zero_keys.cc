// DeepSpeed's keys of zero_optimization (deepspeed.ai/docs/config-json, release 0.17).
#include <fmt/core.h>

#include "trainer/configuration/keys.h"
#include "trainer/failure.h"

namespace weft::trainer {
namespace {

using Role = ConfigKey::Role;

constexpr uint64_t kElementBytes = 4;  // gradients and main weights are fp32

KeyEffect ReadZeroStage(const ConfigValue& value, const ConfigDocument& document) {
  static const WordEffect words[] = {{"0", {{"--strategy=ddp"}}},
                                     {"1", {{"--strategy=zero1"}}},
                                     {"2", {{"--strategy=zero2"}}},
                                     {"3", {{"--strategy=full-shard"}}}};
  return ByWord("zero_optimization.stage", value, document, words);
}

// DeepSpeed takes a processor's memory for the place that is not the device's. Here it is the device's.
KeyEffect ReadDevice(const char* part, const char* what, const ConfigValue& value,
                     const ConfigDocument& document) {
  const std::string key = fmt::format("zero_optimization.{}.device", part);
  if (value.text == "none") return {};
  if (value.text == "cpu")
    return {{},
            fmt::format("this device is the processor, in whose memory {} are already", what),
            false};
  if (value.text != "nvme") {
    throw BadInput(fmt::format("{}: {} {} is unknown; use none, cpu or nvme", document.file, key,
                               value.Shown()));
  }
  const ConfigValue* const path =
      document.Find(fmt::format("zero_optimization.{}.nvme_path", part));
  if (path == nullptr || path->kind != ConfigValue::Kind::kText || path->IsAuto() ||
      path->text.empty()) {
    throw BadInput(
        fmt::format("{}: {} is \"nvme\" and there is no nvme_path beside it; give the "
                    "folder for the files",
                    document.file, key));
  }
  return {{OptionWord("offload", path->text)}};
}

KeyEffect ReadOptimizerDevice(const ConfigValue& value, const ConfigDocument& document) {
  return ReadDevice("offload_optimizer", "optimizer states", value, document);
}

KeyEffect ReadParamDevice(const ConfigValue& value, const ConfigDocument& document) {
  KeyEffect effect = ReadDevice("offload_param", "weights", value, document);
  if (!effect.options.empty()) effect.options.push_back("--offload-params");
  return effect;
}

KeyEffect ReadPath(const char* part, const ConfigDocument& document) {
  const ConfigValue* const device = document.Find(fmt::format("zero_optimization.{}.device", part));
  if (device != nullptr && device->text == "nvme") return {{}, "--offload"};
  return {{}, "the device beside it is not nvme", false};
}

KeyEffect ReadOptimizerPath(const ConfigValue&, const ConfigDocument& document) {
  return ReadPath("offload_optimizer", document);
}

KeyEffect ReadParamPath(const ConfigValue&, const ConfigDocument& document) {
  return ReadPath("offload_param", document);
}

KeyEffect ReadOverlap(const ConfigValue& value, const ConfigDocument&) {
  return {{value.text == "true" ? "--no-overlap=false" : "--no-overlap=true"}};
}

KeyEffect ReadBucket(const ConfigValue& value, const ConfigDocument& document) {
  const uint64_t elements = WholeOf("zero_optimization.reduce_bucket_size", value, document);
  return {{OptionWord("bucket-size", fmt::format("{}", elements * kElementBytes))}};
}

KeyEffect ReadLive(const ConfigValue& value, const ConfigDocument& document) {
  const uint64_t elements =
      WholeOf("zero_optimization.stage3_max_live_parameters", value, document);
  return {{OptionWord("memory-budget", fmt::format("{}", elements * kElementBytes))}};
}

// `ranks` of a group below which the strategy is that of the stage.
KeyEffect ReadGroup(const char* key, const char* strategy, uint64_t least, const ConfigValue& value,
                    const ConfigDocument& document) {
  const uint64_t ranks = value.text[0] == '-' ? 0 : WholeOf(key, value, document);
  if (ranks < least) return {};
  return {{OptionWord("strategy", strategy), OptionWord("shard-group", fmt::format("{}", ranks))}};
}

KeyEffect ReadHpz(const ConfigValue& value, const ConfigDocument& document) {
  return ReadGroup("zero_optimization.zero_hpz_partition_size", "hpz", 2, value, document);
}

KeyEffect ReadMics(const ConfigValue& value, const ConfigDocument& document) {
  return ReadGroup("zero_optimization.mics_shard_size", "hybrid", 1, value, document);
}

constexpr const char* kByBlock =
    "a block of the model is gathered at once, --prefetch of them ahead";
constexpr const char* kNotQuantized = "what ranks exchange is not quantized; see --reduce-dtype";
constexpr const char* kNoPinned = "memory is pinned for a GPU, and there is none in the run";
constexpr const char* kWindows = "offloaded state has windows of 64 MiB in memory";

constexpr ConfigKey kZeroKeys[] = {
    {"zero_optimization.stage", Takes::kWhole, Role::kOwn, "strategy",
     "0: ddp, 1: zero1, 2: zero2, 3: full-shard", ReadZeroStage},
    {"zero_optimization.zero_hpz_partition_size", Takes::kWhole, Role::kOwn,
     "strategy hpz, shard-group", "from 2 on: ranks that keep a block between forward and backward",
     ReadHpz},
    {"zero_optimization.mics_shard_size", Takes::kWhole, Role::kOwn, "strategy hybrid, shard-group",
     "from 1 on: ranks of a replica", ReadMics},
    {"zero_optimization.overlap_comm", Takes::kBool, Role::kOwn, "no-overlap",
     "false: gradients are reduced after backward", ReadOverlap},
    {"zero_optimization.reduce_bucket_size", Takes::kWhole, Role::kOwn, "bucket-size",
     "elements of 4 bytes that are reduced together", ReadBucket},
    {"zero_optimization.stage3_max_live_parameters", Takes::kWhole, Role::kOwn, "memory-budget",
     "elements of 4 bytes for what is gathered", ReadLive},
    {"zero_optimization.offload_optimizer.device", Takes::kText, Role::kOwn, "offload",
     "nvme: files in nvme_path; cpu, none: optimizer states stay in memory", ReadOptimizerDevice},
    {"zero_optimization.offload_optimizer.nvme_path", Takes::kText, Role::kOwn, "offload",
     "the folder for device nvme", ReadOptimizerPath},
    {"zero_optimization.offload_optimizer.pin_memory", Takes::kBool, Role::kNothing, "", kNoPinned},
    {"zero_optimization.offload_optimizer.ratio", Takes::kNumber, Role::kNothing, "",
     "all of it is offloaded, or nothing"},
    {"zero_optimization.offload_optimizer.buffer_count", Takes::kWhole, Role::kNothing, "",
     kWindows},
    {"zero_optimization.offload_optimizer.fast_init", Takes::kBool, Role::kNothing, "", kWindows},
    {"zero_optimization.offload_optimizer.pipeline_read", Takes::kBool, Role::kNothing, "",
     kWindows},
    {"zero_optimization.offload_optimizer.pipeline_write", Takes::kBool, Role::kNothing, "",
     kWindows},
    {"zero_optimization.offload_param.device", Takes::kText, Role::kOwn, "offload, offload-params",
     "nvme: files in nvme_path; cpu, none: weights stay in memory", ReadParamDevice},
    {"zero_optimization.offload_param.nvme_path", Takes::kText, Role::kOwn, "offload",
     "the folder for device nvme", ReadParamPath},
    {"zero_optimization.offload_param.pin_memory", Takes::kBool, Role::kNothing, "", kNoPinned},
    {"zero_optimization.offload_param.buffer_count", Takes::kWhole, Role::kNothing, "", kWindows},
    {"zero_optimization.offload_param.buffer_size", Takes::kWhole, Role::kNothing, "", kWindows},
    {"zero_optimization.offload_param.max_in_cpu", Takes::kWhole, Role::kNothing, "", kWindows},
    {"zero_optimization.reduce_scatter", Takes::kBool, Role::kAlways, "true",
     "gradients of sharded weights are always reduce-scattered"},
    {"zero_optimization.allgather_partitions", Takes::kBool, Role::kAlways, "true",
     "updated weights are always gathered"},
    {"zero_optimization.contiguous_gradients", Takes::kBool, Role::kAlways, "true",
     "gradients always lie side by side"},
    {"zero_optimization.round_robin_gradients", Takes::kBool, Role::kNothing, "",
     "weft divides gradients evenly by itself"},
    {"zero_optimization.allgather_bucket_size", Takes::kWhole, Role::kNothing, "", kByBlock},
    {"zero_optimization.stage3_prefetch_bucket_size", Takes::kWhole, Role::kNothing, "", kByBlock},
    {"zero_optimization.stage3_max_reuse_distance", Takes::kWhole, Role::kNothing, "", kByBlock},
    {"zero_optimization.stage3_param_persistence_threshold", Takes::kWhole, Role::kNothing, "",
     "small weights are gathered with their block, which costs no message of their own"},
    {"zero_optimization.stage3_model_persistence_threshold", Takes::kWhole, Role::kNothing, "",
     kByBlock},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", Takes::kBool, Role::kNothing,
     "", "checkpoints have whole weights in fp32, and load on any number of ranks"},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save", Takes::kBool, Role::kNothing, "",
     "checkpoints have whole weights in fp32, and load on any number of ranks"},
    {"zero_optimization.sub_group_size", Takes::kWhole, Role::kNothing, "",
     "the optimizer updates a bucket at a time"},
    {"zero_optimization.ignore_unused_parameters", Takes::kBool, Role::kNothing, "",
     "the model uses all of its weights"},
    {"zero_optimization.legacy_stage1", Takes::kBool, Role::kAlways, "false",
     "there is one kind of stage 1"},
    {"zero_optimization.cpu_offload", Takes::kBool, Role::kAlways, "false",
     "this device is the processor, in whose memory optimizer states are already"},
    {"zero_optimization.elastic_checkpoint", Takes::kBool, Role::kNothing, "",
     "checkpoints load on any number of ranks"},
    {"zero_optimization.load_from_fp32_weights", Takes::kBool, Role::kAlways, "true",
     "main weights are always fp32"},
    {"zero_optimization.zero_quantized_weights", Takes::kBool, Role::kAlways, "false",
     kNotQuantized},
    {"zero_optimization.zero_quantized_gradients", Takes::kBool, Role::kAlways, "false",
     kNotQuantized},
    {"zero_optimization.zero_quantized_nontrainable_weights", Takes::kBool, Role::kAlways, "false",
     kNotQuantized},
    {"zero_optimization.mics_hierarchical_params_gather", Takes::kBool, Role::kNothing, "",
     "ranks of several nodes always gather in two levels"},
};

}  // namespace

std::span<const ConfigKey> DeepSpeedZeroKeys() {
  return kZeroKeys;
}

}  // namespace weft::trainer
