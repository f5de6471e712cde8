// Keys of Accelerate's configuration file (accelerate 1.x), those of FSDP among them.
#include "trainer/configuration/keys.h"
#include "trainer/failure.h"

namespace weft::trainer {
namespace {

using Role = ConfigKey::Role;

KeyEffect ReadRecompute(const ConfigValue& value, const ConfigDocument&) {
  return {{value.text == "true" ? "--recompute=full" : "--recompute=none"}};
}

KeyEffect ReadMixed(const ConfigValue& value, const ConfigDocument& document) {
  static const WordEffect words[] = {
      {"no", {{"--dtype=fp32"}}},
      {"bf16", {{"--dtype=bf16"}}},
      {"fp16", {{"--dtype=fp16"}}},
      {"fp8", {{}, "products are in fp32, bf16 or fp16 here (--dtype)", false}},
  };
  return ByWord("mixed_precision", value, document, words);
}

KeyEffect ReadUseCpu(const ConfigValue& value, const ConfigDocument&) {
  if (value.text == "true") return {{}, "as always here"};
  return {{}, "the trainer computes on the processor", false};
}

KeyEffect ReadSharding(const ConfigValue& value, const ConfigDocument& document) {
  // By name, or by the number of torch's enumeration.
  static const WordEffect words[] = {{"FULL_SHARD", {{"--strategy=full-shard"}}},
                                     {"SHARD_GRAD_OP", {{"--strategy=shard-grad-op"}}},
                                     {"NO_SHARD", {{"--strategy=ddp"}}},
                                     {"HYBRID_SHARD", {{"--strategy=hybrid"}}},
                                     {"1", {{"--strategy=full-shard"}}},
                                     {"2", {{"--strategy=shard-grad-op"}}},
                                     {"3", {{"--strategy=ddp"}}},
                                     {"4", {{"--strategy=hybrid"}}}};
  return ByWord("fsdp_config.fsdp_sharding_strategy", value, document, words);
}

KeyEffect ReadReshard(const ConfigValue& value, const ConfigDocument& document) {
  if (value.kind == ConfigValue::Kind::kBool) {
    return {{value.text == "true" ? "--strategy=full-shard" : "--strategy=shard-grad-op"}};
  }
  return ReadSharding(value, document);  // what FSDP of version 1 took
}

KeyEffect ReadPrefetch(const ConfigValue& value, const ConfigDocument& document) {
  static const WordEffect words[] = {{"BACKWARD_PRE", {{"--prefetch=1"}}},
                                     {"BACKWARD_POST", {{"--prefetch=0"}}},
                                     {"NO_PREFETCH", {{"--prefetch=0"}}}};
  return ByWord("fsdp_config.fsdp_backward_prefetch", value, document, words);
}

KeyEffect ReadAccelerateStage(const ConfigValue& value, const ConfigDocument& document) {
  static const WordEffect words[] = {{"0", {{"--strategy=ddp"}}},
                                     {"1", {{"--strategy=zero1"}}},
                                     {"2", {{"--strategy=zero2"}}},
                                     {"3", {{"--strategy=full-shard"}}}};
  return ByWord("deepspeed_config.zero_stage", value, document, words);
}

KeyEffect ReadOffload(const ConfigValue& value, const ConfigDocument& document) {
  static const WordEffect words[] = {
      {"none", {}},
      {"cpu", {{}, "this device is the processor, in whose memory it is already", false}},
      {"nvme", {{}, "Accelerate's file has no folder for it; give --offload", false}},
  };
  return ByWord("deepspeed_config.offload_*_device", value, document, words);
}

constexpr const char* kLauncher = "weftrun starts the ranks, and says where";
constexpr const char* kOnlyCpu = "the trainer computes on the processor";
constexpr const char* kCompiled = "the model is compiled with the program";
constexpr const char* kUnits = "a unit is a block of the model";
constexpr const char* kCheckpoints =
    "a checkpoint is loaded on any number of ranks, each of which reads what it keeps";

constexpr ConfigKey kAccelerateKeys[] = {
    {"mixed_precision", Takes::kText, Role::kOwn, "dtype", "no: fp32 products; bf16; fp16",
     ReadMixed},
    {"use_cpu", Takes::kBool, Role::kOwn, "", kOnlyCpu, ReadUseCpu},
    {"compute_environment", Takes::kText, Role::kNothing, "", kLauncher},
    {"distributed_type", Takes::kText, Role::kNothing, "",
     "ranks are processes, whose number weftrun says; see --strategy"},
    {"num_machines", Takes::kWhole, Role::kNothing, "", kLauncher},
    {"num_processes", Takes::kWhole, Role::kNothing, "", kLauncher},
    {"machine_rank", Takes::kWhole, Role::kNothing, "", kLauncher},
    {"main_process_ip", Takes::kText, Role::kNothing, "", kLauncher},
    {"main_process_port", Takes::kWhole, Role::kNothing, "", kLauncher},
    {"main_training_function", Takes::kText, Role::kNothing, "", kLauncher},
    {"rdzv_backend", Takes::kText, Role::kNothing, "", kLauncher},
    {"same_network", Takes::kBool, Role::kNothing, "", kLauncher},
    {"enable_cpu_affinity", Takes::kBool, Role::kNothing, "", "weftrun binds ranks to processors"},
    {"debug", Takes::kBool, Role::kNothing, "", "weft always compares what ranks call"},
    {"gpu_ids", Takes::kAny, Role::kNothing, "", kOnlyCpu},
    {"downcast_bf16", Takes::kAny, Role::kNothing, "", "of TPUs"},
    {"tpu_env", Takes::kAny, Role::kNothing, "", "of TPUs"},
    {"tpu_use_cluster", Takes::kBool, Role::kNothing, "", "of TPUs"},
    {"tpu_use_sudo", Takes::kBool, Role::kNothing, "", "of TPUs"},
    {"dynamo_config.dynamo_backend", Takes::kText, Role::kNothing, "", kCompiled},
    {"dynamo_config.dynamo_mode", Takes::kText, Role::kNothing, "", kCompiled},
    {"dynamo_config.dynamo_use_dynamic", Takes::kBool, Role::kNothing, "", kCompiled},
    {"dynamo_config.dynamo_use_fullgraph", Takes::kBool, Role::kNothing, "", kCompiled},
    {"fsdp_config.fsdp_sharding_strategy", Takes::kAny, Role::kOwn, "strategy",
     "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, or 1 to 4", ReadSharding},
    {"fsdp_config.fsdp_reshard_after_forward", Takes::kAny, Role::kOwn, "strategy",
     "true: full-shard; false: shard-grad-op; or as fsdp_sharding_strategy", ReadReshard},
    {"fsdp_config.fsdp_version", Takes::kWhole, Role::kNothing, "", "the strategy says all"},
    {"fsdp_config.fsdp_backward_prefetch", Takes::kText, Role::kOwn, "prefetch",
     "BACKWARD_PRE: 1; BACKWARD_POST, NO_PREFETCH: 0", ReadPrefetch},
    {"fsdp_config.fsdp_forward_prefetch", Takes::kBool, Role::kNothing, "",
     "--prefetch counts for both directions"},
    {"fsdp_config.fsdp_offload_params", Takes::kBool, Role::kAlways, "false",
     "this device is the processor, in whose memory weights are already"},
    {"fsdp_config.fsdp_auto_wrap_policy", Takes::kText, Role::kNothing, "", kUnits},
    {"fsdp_config.fsdp_transformer_layer_cls_to_wrap", Takes::kAny, Role::kNothing, "", kUnits},
    {"fsdp_config.fsdp_min_num_params", Takes::kWhole, Role::kNothing, "", kUnits},
    {"fsdp_config.fsdp_use_orig_params", Takes::kBool, Role::kNothing, "",
     "weights keep their names and shapes"},
    {"fsdp_config.fsdp_sync_module_states", Takes::kBool, Role::kAlways, "true",
     "all ranks always begin with the values of rank 0"},
    {"fsdp_config.fsdp_cpu_ram_efficient_loading", Takes::kBool, Role::kNothing, "", kCheckpoints},
    {"fsdp_config.fsdp_state_dict_type", Takes::kText, Role::kNothing, "", kCheckpoints},
    {"fsdp_config.fsdp_activation_checkpointing", Takes::kBool, Role::kOwn, "recompute",
     "true: full; false: none", ReadRecompute},
    {"deepspeed_config.zero_stage", Takes::kWhole, Role::kOwn, "strategy",
     "as zero_optimization.stage", ReadAccelerateStage},
    {"deepspeed_config.gradient_accumulation_steps", Takes::kWhole, Role::kOption, "accumulate",
     "micro-batches per step"},
    {"deepspeed_config.gradient_clipping", Takes::kNumber, Role::kOption, "clip",
     "the largest norm of the gradients"},
    {"deepspeed_config.offload_optimizer_device", Takes::kText, Role::kOwn, "",
     "none, cpu: optimizer states stay in memory", ReadOffload},
    {"deepspeed_config.offload_param_device", Takes::kText, Role::kOwn, "",
     "none, cpu: weights stay in memory", ReadOffload},
    {"deepspeed_config.zero3_init_flag", Takes::kBool, Role::kNothing, "",
     "weights are sharded from their first moment"},
    {"deepspeed_config.zero3_save_16bit_model", Takes::kBool, Role::kNothing, "", kCheckpoints},
    {"deepspeed_config.deepspeed_multinode_launcher", Takes::kText, Role::kNothing, "", kLauncher},
    {"deepspeed_config.deepspeed_hostfile", Takes::kText, Role::kNothing, "", kLauncher},
};

}  // namespace

std::span<const ConfigKey> AccelerateKeys() {
  return kAccelerateKeys;
}

}  // namespace weft::trainer
