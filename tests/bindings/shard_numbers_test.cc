// Numbers of a shard context's configs for which 0 is a value: it is meant where `fields` says so, else it is the default.
#include <cstdint>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "local_threads.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test::shard_numbers_test {
namespace {

// One param of one element under AdamW.
class OneWeight {
 public:
  OneWeight(const weft_shard_config_t* config, const weft_optimizer_config_t& optimizer) {
    const weft_group_config_t named = ConfigNamed("one");
    EXPECT_EQ(weft_group_create_local(1, &named, &group_), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_mesh_create(group_, nullptr, &mesh_), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_shard_context_create(mesh_, config, &context_), WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(weft_shard_context_optimizer(context_, &optimizer), WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(weft_shard_unit_begin(context_, "unit", nullptr, &unit_), WEFT_SUCCESS);
    EXPECT_EQ(AddParam(unit_, "weight", nullptr, 0, WEFT_FLOAT32, 0, &param_), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_unit_seal(unit_), WEFT_SUCCESS);
    plan_.struct_size = sizeof(plan_);
    EXPECT_EQ(weft_shard_context_finalize(context_, &plan_), WEFT_SUCCESS) << weft_last_error();
  }

  OneWeight(const OneWeight&) = delete;
  OneWeight& operator=(const OneWeight&) = delete;

  ~OneWeight() {
    EXPECT_EQ(weft_shard_context_destroy(context_), WEFT_SUCCESS);
    EXPECT_EQ(weft_mesh_destroy(mesh_), WEFT_SUCCESS);
    EXPECT_EQ(weft_group_destroy(group_), WEFT_SUCCESS);
  }

  // One step with that gradient; returns by how much the weight has changed.
  float Step(float gradient) {
    const float before = Weight();
    EXPECT_EQ(StepBegin(context_, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
    EXPECT_EQ(MicrobatchBegin(context_, 0, 1), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_pre_forward(unit_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_post_forward(unit_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_pre_backward(unit_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_grad_ready(param_, &gradient, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_post_backward(unit_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(UpdateAndEndStep(context_, 0.125), WEFT_SUCCESS) << weft_last_error();
    return Weight() - before;
  }

  float Weight() {
    float value = 0;
    EXPECT_EQ(ReadValues(param_, &value), WEFT_SUCCESS) << weft_last_error();
    return value;
  }

 private:
  weft_group_t group_ = nullptr;
  weft_mesh_t mesh_ = nullptr;
  weft_shard_context_t context_ = nullptr;
  weft_shard_unit_t unit_ = nullptr;
  weft_shard_param_t param_ = nullptr;
  weft_shard_plan_t plan_ = {};
};

weft_optimizer_config_t AdamW() {
  weft_optimizer_config_t config = {};
  config.struct_size = sizeof(config);
  return config;
}

// Without momentum the second step goes where its own gradient points, with the default's it goes on as the first did.
TEST(ShardNumbers, ABetaOfZeroIsMeantOrTheDefault) {
  OneWeight usual(nullptr, AdamW());
  EXPECT_LT(usual.Step(1), 0);
  EXPECT_LT(usual.Step(-0.5F), 0);

  weft_optimizer_config_t without = AdamW();
  without.fields = WEFT_OPTIMIZER_BETA1;
  OneWeight memoryless(nullptr, without);
  EXPECT_LT(memoryless.Step(1), 0);
  EXPECT_GT(memoryless.Step(-0.5F), 0);
}

// Both betas and epsilon 0: the learning rate in the direction of the gradient's sign, to the bit.
TEST(ShardNumbers, AllZerosAreMeantTogether) {
  weft_optimizer_config_t config = AdamW();
  config.fields = WEFT_OPTIMIZER_BETA1 | WEFT_OPTIMIZER_BETA2 | WEFT_OPTIMIZER_EPSILON;
  OneWeight weight(nullptr, config);
  EXPECT_EQ(weight.Step(4), -0.125F);
  EXPECT_EQ(weight.Step(-1024), 0.125F);
}

TEST(ShardNumbers, APrefetchOfZeroIsMeantOrOne) {
  const weft_group_config_t named = ConfigNamed("plan");
  for (const bool meant : {false, true}) {
    weft_group_t group = nullptr;
    ASSERT_EQ(weft_group_create_local(1, &named, &group), WEFT_SUCCESS) << weft_last_error();
    weft_mesh_t mesh = nullptr;
    ASSERT_EQ(weft_mesh_create(group, nullptr, &mesh), WEFT_SUCCESS) << weft_last_error();
    weft_shard_config_t config = {};
    config.struct_size = sizeof(config);
    config.fields = meant ? WEFT_SHARD_PREFETCH : 0;
    weft_shard_context_t context = nullptr;
    ASSERT_EQ(weft_shard_context_create(mesh, &config, &context), WEFT_SUCCESS)
        << weft_last_error();
    weft_shard_policy_t policy = {};
    policy.struct_size = sizeof(policy);
    policy.preset = WEFT_SHARD_FULL_SHARD;
    for (const char* const name : {"a", "b", "c"}) {
      weft_shard_unit_t unit = nullptr;
      weft_shard_param_t param = nullptr;
      const int64_t shape = 1'000;
      ASSERT_EQ(weft_shard_unit_begin(context, name, &policy, &unit), WEFT_SUCCESS);
      ASSERT_EQ(AddParam(unit, name, &shape, 1, WEFT_FLOAT32, 0, &param), WEFT_SUCCESS)
          << weft_last_error();
      ASSERT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
    }
    weft_shard_plan_t plan = {};
    plan.struct_size = sizeof(plan);
    ASSERT_EQ(weft_shard_context_finalize(context, &plan), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(plan.prefetch, meant ? 0 : 1);
    EXPECT_EQ(weft_shard_context_destroy(context), WEFT_SUCCESS);
    EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS);
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  }
}

}  // namespace
}  // namespace weft::test::shard_numbers_test
