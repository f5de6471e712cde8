// What tests of checkpoints save: one param, trained by AdamW; and where.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/context_owner.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test {

// A directory of the test's own, which goes with it.
class CheckpointFolder : public testing::Test {
 protected:
  CheckpointFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-checkpoint-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }

  ~CheckpointFolder() override { std::filesystem::remove_all(folder_); }

  std::string Directory() const { return folder_ + "/checkpoints"; }

  std::string folder_;
};

class CheckpointModel : public ContextOwner {
 public:
  static constexpr int64_t kRows = 11;
  static constexpr int64_t kColumns = 7;

  CheckpointModel(weft_group_t group, weft_shard_preset_t preset, int64_t rows = kRows,
                  const weft_shard_config_t* config = nullptr)
      : ContextOwner(group, config), count_(static_cast<size_t>(rows * kColumns)) {
    EXPECT_EQ(weft_shard_context_optimizer(context, nullptr), WEFT_SUCCESS);
    weft_shard_policy_t policy = {};
    policy.struct_size = sizeof(policy);
    policy.preset = preset;
    EXPECT_EQ(weft_shard_unit_begin(context, "block", &policy, &unit_), WEFT_SUCCESS);
    const int64_t shape[] = {rows, kColumns};
    EXPECT_EQ(AddParam(unit_, "weight", shape, 2, WEFT_FLOAT32, 0, &param_), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_unit_seal(unit_), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_context_finalize(context, nullptr), WEFT_SUCCESS) << weft_last_error();
  }

  void Step(int step) const {
    EXPECT_EQ(StepBegin(context), WEFT_SUCCESS);
    EXPECT_EQ(MicrobatchBegin(context, 0, 1), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_pre_forward(unit_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_post_forward(unit_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_pre_backward(unit_, nullptr), WEFT_SUCCESS);
    std::vector<float> gradients(count_);
    for (size_t i = 0; i < count_; ++i)
      gradients[i] = static_cast<float>(i % 5) - static_cast<float>(step);
    EXPECT_EQ(weft_shard_grad_ready(param_, gradients.data(), nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_post_backward(unit_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(UpdateAndEndStep(context, 0.01), WEFT_SUCCESS) << weft_last_error();
  }

  // A step as far as its first gather.
  weft_result_t BeginForward() const {
    weft_result_t result = StepBegin(context);
    if (result == WEFT_SUCCESS) result = MicrobatchBegin(context, 0, 1);
    return result == WEFT_SUCCESS ? weft_shard_pre_forward(unit_, nullptr) : result;
  }

  std::vector<float> Read() const {
    std::vector<float> values(count_);
    EXPECT_EQ(ReadValues(param_, values.data()), WEFT_SUCCESS) << weft_last_error();
    return values;
  }

 private:
  const size_t count_;
  weft_shard_unit_t unit_ = nullptr;
  weft_shard_param_t param_ = nullptr;
};

}  // namespace weft::test
