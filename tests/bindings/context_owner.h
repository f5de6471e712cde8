// A shard context over all ranks of a group, for as long as the object lives: what a test's model is made on.
//
//   class Model : public ContextOwner {
//    public:
//     explicit Model(weft_group_t group) : ContextOwner(group) { ... weft_shard_unit_begin(context, ...) ... }
//   };
#pragma once

#include <gtest/gtest.h>

#include "weft/weft.h"

namespace weft::test {

class ContextOwner {
 public:
  explicit ContextOwner(weft_group_t group, const weft_shard_config_t* config = nullptr) {
    EXPECT_EQ(weft_mesh_create(group, nullptr, &mesh_), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_shard_context_create(mesh_, config, &context), WEFT_SUCCESS)
        << weft_last_error();
  }

  ~ContextOwner() {
    EXPECT_EQ(weft_shard_context_destroy(context), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_mesh_destroy(mesh_), WEFT_SUCCESS) << weft_last_error();
  }

  ContextOwner(const ContextOwner&) = delete;
  ContextOwner& operator=(const ContextOwner&) = delete;

  weft_shard_context_t context = nullptr;

 private:
  weft_mesh_t mesh_ = nullptr;
};

}  // namespace weft::test
