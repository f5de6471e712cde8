// The checkpoint calls that take structs, as one-liners for tests.
#pragma once

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "weft/weft.h"

namespace weft::test {

inline weft_checkpoint_t CreateCheckpoint(weft_group_t group, const std::string& directory,
                                          int64_t keep_last = 0, int64_t timeout_ns = 0) {
  weft_checkpoint_config_t config = {};
  config.struct_size = sizeof(config);
  config.directory = directory.c_str();
  config.keep_last = keep_last;
  config.timeout_ns = timeout_ns;
  config.config = "{\"lr\": 0.01}\n";
  weft_checkpoint_t checkpoint = nullptr;
  EXPECT_EQ(weft_checkpoint_create(group, &config, &checkpoint), WEFT_SUCCESS) << weft_last_error();
  return checkpoint;
}

inline weft_result_t Save(weft_checkpoint_t checkpoint, int64_t step, bool background = false,
                          bool in_place = false) {
  weft_checkpoint_save_config_t config = {};
  config.struct_size = sizeof(config);
  config.step = step;
  config.background = background ? 1 : 0;
  config.in_place = in_place ? 1 : 0;
  return weft_checkpoint_save(checkpoint, &config);
}

inline weft_result_t Load(weft_checkpoint_t checkpoint, uint32_t flags = 0, int64_t step = 0,
                          weft_checkpoint_loaded_t* loaded = nullptr) {
  weft_checkpoint_load_config_t config = {};
  config.struct_size = sizeof(config);
  config.flags = flags;
  config.step = step;
  weft_checkpoint_loaded_t answer = {};
  answer.struct_size = sizeof(answer);
  const weft_result_t result = weft_checkpoint_load(checkpoint, &config, &answer);
  if (loaded != nullptr) *loaded = answer;
  return result;
}

// Of a load that must succeed.
inline weft_checkpoint_loaded_t Loaded(weft_checkpoint_t checkpoint, uint32_t flags = 0,
                                       int64_t step = 0) {
  weft_checkpoint_loaded_t loaded = {};
  EXPECT_EQ(Load(checkpoint, flags, step, &loaded), WEFT_SUCCESS) << weft_last_error();
  return loaded;
}

}  // namespace weft::test
