// The shard calls that take structs, as one-liners for tests, and a struct that many of them start from.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/shard.h"
#include "weft/shard_param_groups.h"

namespace weft {

inline weft_result_t AddParam(weft_shard_unit_t unit, const char* name, const int64_t* shape,
                              int ndim, weft_dtype_t dtype, uint32_t flags,
                              weft_shard_param_t* param) {
  const weft_shard_param_config_t config = {.struct_size = sizeof(config),
                                            .name = name,
                                            .shape = shape,
                                            .ndim = ndim,
                                            .dtype = dtype,
                                            .flags = flags};
  return weft_shard_unit_add_param(unit, &config, param);
}

inline weft_result_t StepBegin(weft_shard_context_t context,
                               weft_shard_mode_t mode = WEFT_SHARD_TRAIN, uint64_t tag = 0) {
  const weft_shard_step_t step = {.struct_size = sizeof(step), .mode = mode, .tag = tag};
  return weft_shard_step_begin(context, &step);
}

inline weft_result_t MicrobatchBegin(weft_shard_context_t context, int index, int last) {
  const weft_shard_microbatch_t microbatch = {
      .struct_size = sizeof(microbatch), .index = index, .last = last};
  return weft_shard_microbatch_begin(context, &microbatch);
}

// The end of a step after its last backward: the micro-batch, the reductions, an update, the step. Stops at the first error.
inline weft_result_t UpdateAndEndStep(weft_shard_context_t context, double learning_rate) {
  weft_shard_update_t update = {};
  update.struct_size = sizeof(update);
  update.learning_rate = learning_rate;
  weft_result_t result = weft_shard_microbatch_end(context, nullptr);
  if (result == WEFT_SUCCESS) result = weft_shard_finish(context, nullptr, nullptr);
  if (result == WEFT_SUCCESS) result = weft_shard_optimizer_step(context, &update, nullptr);
  return result == WEFT_SUCCESS ? weft_shard_step_end(context) : result;
}

inline weft_result_t LoadValues(weft_shard_param_t param, const void* values, int root) {
  const weft_shard_load_t load = {.struct_size = sizeof(load), .values = values, .root = root};
  return weft_shard_param_load(param, &load);
}

inline weft_result_t ReadValues(weft_shard_param_t param, void* values,
                                int root = WEFT_SHARD_EVERY_RANK) {
  const weft_shard_read_t read = {.struct_size = sizeof(read), .values = values, .root = root};
  return weft_shard_param_read(param, &read);
}

// A param group that inherits everything.
inline weft_shard_param_group_t EmptyGroup() {
  weft_shard_param_group_t group = {};
  group.struct_size = sizeof(group);
  return group;
}

}  // namespace weft
