// The C interface: bad input gives a status and a sentence and touches nothing; a step works.
#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "base/status.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "bindings/c/last_error.h"
#include "comm/node/make_group.h"
#include "gmock/gmock.h"
#include "tests/bindings/shard_calls.h"
#include "tests/shard/ranks.h"

namespace weft {
namespace {

thread_local std::string last_error;

}  // namespace

// Stand-ins for what the rest of bindings/c provides.
weft_result_t KeepFailure(const absl::Status& failure) {
  last_error = std::string(failure.message());
  return ResultOf(failure);
}

absl::Status CheckGroup(std::string_view call, weft_group_t group) {
  return IsGroup(group) ? absl::OkStatus()
                        : CallError(WEFT_INVALID_ARGUMENT, call, "group is not a group");
}

namespace {

using testing::HasSubstr;

void ExpectRefused(weft_result_t result, weft_result_t expected, const char* text) {
  EXPECT_EQ(result, expected);
  EXPECT_THAT(last_error, HasSubstr(text));
}

// A mesh and a context of one rank.
class ShardCTest : public testing::Test {
 protected:
  void SetUp() override {
    auto groups = CreateLocalGroups(1, {});
    ASSERT_TRUE(groups.ok()) << groups.status();
    group_.SetLive(true);
    group_.group.Set((*groups)[0]);
    ASSERT_EQ(weft_mesh_create(&group_, nullptr, &mesh_), WEFT_SUCCESS);
    ASSERT_EQ(weft_shard_context_create(mesh_, nullptr, &context_), WEFT_SUCCESS);
  }

  void TearDown() override {
    EXPECT_EQ(weft_shard_context_destroy(context_), WEFT_SUCCESS);
    EXPECT_EQ(weft_mesh_destroy(mesh_), WEFT_SUCCESS);
    group_.group->Close();
  }

  weft_group group_;
  weft_mesh_t mesh_ = nullptr;
  weft_shard_context_t context_ = nullptr;
};

TEST_F(ShardCTest, RefusesNull) {
  int storage = 0;
  void* const any = &storage;
  const auto refused = [](weft_result_t result) {
    ExpectRefused(result, WEFT_INVALID_ARGUMENT, "NULL");
  };
  weft_mesh_t mesh = nullptr;
  refused(weft_mesh_create(nullptr, nullptr, &mesh));
  refused(weft_mesh_create(&group_, nullptr, nullptr));
  refused(weft_shard_context_create(nullptr, nullptr, &context_));
  refused(weft_shard_context_create(mesh_, nullptr, nullptr));
  refused(weft_shard_context_finalize(nullptr, nullptr));
  refused(weft_shard_context_broadcast(nullptr, 0));
  refused(weft_shard_context_verify(nullptr));
  weft_shard_unit_t unit = nullptr;
  refused(weft_shard_unit_begin(nullptr, "a", nullptr, &unit));
  refused(weft_shard_unit_begin(context_, nullptr, nullptr, &unit));
  refused(weft_shard_unit_begin(context_, "a", nullptr, nullptr));
  weft_shard_param_t param = nullptr;
  const int64_t shape = 1;
  refused(AddParam(nullptr, "w", &shape, 1, WEFT_FLOAT32, 0, &param));
  refused(weft_shard_unit_seal(nullptr));
  weft_shard_view_t view = {sizeof(view)};
  refused(weft_shard_param_view(nullptr, &view));
  refused(StepBegin(nullptr, WEFT_SHARD_TRAIN, 0));
  refused(MicrobatchBegin(nullptr, 0, 1));
  refused(weft_shard_pre_forward(nullptr, nullptr));
  refused(weft_shard_post_forward(nullptr, nullptr));
  refused(weft_shard_pre_backward(nullptr, nullptr));
  refused(weft_shard_grad_ready(nullptr, any, nullptr));
  refused(weft_shard_post_backward(nullptr, nullptr));
  refused(weft_shard_microbatch_end(nullptr, nullptr));
  refused(weft_shard_finish(nullptr, nullptr, nullptr));
  refused(weft_shard_step_end(nullptr));
  refused(weft_shard_abort_step(nullptr, nullptr));
  EXPECT_EQ(mesh, nullptr);
  EXPECT_EQ(unit, nullptr);
  EXPECT_EQ(param, nullptr);
  EXPECT_EQ(weft_mesh_destroy(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_context_destroy(nullptr), WEFT_SUCCESS);
}

TEST_F(ShardCTest, RefusesNullInsideOfAParam) {
  weft_shard_unit_t unit = nullptr;
  ASSERT_EQ(weft_shard_unit_begin(context_, "a", nullptr, &unit), WEFT_SUCCESS);
  weft_shard_param_t param = nullptr;
  const int64_t shape = 1;
  ExpectRefused(AddParam(unit, nullptr, &shape, 1, WEFT_FLOAT32, 0, &param), WEFT_INVALID_ARGUMENT,
                "name is NULL");
  ExpectRefused(AddParam(unit, "w", nullptr, 1, WEFT_FLOAT32, 0, &param), WEFT_INVALID_ARGUMENT,
                "shape of w is NULL");
  ExpectRefused(AddParam(unit, "w", &shape, 1, WEFT_FLOAT32, 0, nullptr), WEFT_INVALID_ARGUMENT,
                "param is NULL");
  ExpectRefused(AddParam(unit, "w", &shape, 1, WEFT_FLOAT32, 66, &param), WEFT_INVALID_ARGUMENT,
                "flags of w are 66");
  EXPECT_EQ(AddParam(unit, "scalar", nullptr, 0, WEFT_FLOAT32, 0, &param), WEFT_SUCCESS);
}

TEST_F(ShardCTest, RefusesHandlesOfAnotherKind) {
  ExpectRefused(StepBegin(reinterpret_cast<weft_shard_context_t>(mesh_), WEFT_SHARD_TRAIN, 0),
                WEFT_INVALID_ARGUMENT, "not the handle of a context");
  weft_shard_context_t context = nullptr;
  ExpectRefused(
      weft_shard_context_create(reinterpret_cast<weft_mesh_t>(context_), nullptr, &context),
      WEFT_INVALID_ARGUMENT, "not the handle of a mesh");
}

TEST_F(ShardCTest, RefusesBadMeshes) {
  weft_mesh_t mesh = nullptr;
  const auto create = [&](weft_mesh_config_t config) {
    return weft_mesh_create(&group_, &config, &mesh);
  };
  for (const size_t size : {size_t{1}, sizeof(weft_mesh_config_t) - 1, SIZE_MAX}) {
    ExpectRefused(create({size, 0, {}, {}}), WEFT_INVALID_ARGUMENT, "struct_size");
  }
  ExpectRefused(create({0, 1, {"data"}, {1}}), WEFT_INVALID_ARGUMENT, "struct_size is 0");
  constexpr size_t kSize = sizeof(weft_mesh_config_t);
  ExpectRefused(create({kSize, -1, {}, {}}), WEFT_INVALID_ARGUMENT, "axis_count is -1");
  ExpectRefused(create({kSize, 7, {}, {}}), WEFT_INVALID_ARGUMENT, "axis_count is 7; 0 to 6");
  ExpectRefused(create({kSize, 1, {}, {1}}), WEFT_INVALID_ARGUMENT, "axis 0 is NULL");
  ExpectRefused(create({kSize, 1, {"data"}, {2}}), WEFT_INVALID_ARGUMENT, "size 2");
  EXPECT_EQ(mesh, nullptr);
  EXPECT_EQ(create({kSize, 2, {"a", "b"}, {1, 1}}), WEFT_SUCCESS);
  weft_group_t along = nullptr;
  ExpectRefused(weft_mesh_axis_group(mesh, 2, &along), WEFT_INVALID_ARGUMENT, "axis is 2");
  EXPECT_EQ(weft_mesh_axis_group(mesh, 1, &along), WEFT_SUCCESS);
  EXPECT_TRUE(weft::IsGroup(along));
  const char* const names[] = {"b", "a", "b"};
  weft_group_t group = nullptr;
  ExpectRefused(weft_mesh_group(mesh, names, 3, &group), WEFT_INVALID_ARGUMENT, "n is 3");
  ExpectRefused(weft_mesh_group(mesh, names, 0, &group), WEFT_INVALID_ARGUMENT, "n is 0");
  const char* const twice[] = {"b", "b"};
  ExpectRefused(weft_mesh_group(mesh, twice, 2, &group), WEFT_INVALID_ARGUMENT,
                "axis b is named twice; name each of a, b at most once");
  EXPECT_EQ(weft_mesh_group(mesh, names, 1, &group), WEFT_SUCCESS);
  EXPECT_EQ(group, along);
  EXPECT_EQ(weft_mesh_group(mesh, names, 2, &group), WEFT_SUCCESS);
  EXPECT_TRUE(weft::IsGroup(group));
  EXPECT_NE(group, along);
  const weft_group_t all = group;
  EXPECT_EQ(weft_mesh_group(mesh, names + 1, 2, &group), WEFT_SUCCESS);
  EXPECT_EQ(group, all);
  EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS);
  mesh = nullptr;
  EXPECT_EQ(create({kSize, 1, {"data"}, {1}}), WEFT_SUCCESS);
  EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS);
}

TEST_F(ShardCTest, RefusesBadConfigs) {
  weft_shard_context_t context = nullptr;
  weft_shard_config_t config = {sizeof(config) - 1};
  ExpectRefused(weft_shard_context_create(mesh_, &config, &context), WEFT_INVALID_ARGUMENT,
                "struct_size");
  config = {sizeof(config)};
  config.timeout_ns = -5;
  ExpectRefused(weft_shard_context_create(mesh_, &config, &context), WEFT_INVALID_ARGUMENT,
                "timeout_ns is -5");
  config = {sizeof(config)};
  const int unknown = 3;
  std::memcpy(&config.accumulation, &unknown, sizeof(unknown));
  ExpectRefused(weft_shard_context_create(mesh_, &config, &context), WEFT_INVALID_ARGUMENT,
                "accumulation is 3");
  EXPECT_EQ(context, nullptr);
}

TEST_F(ShardCTest, TakesMemoryFromTheCaller) {
  struct Asked {
    size_t bytes[4] = {};
    int live = 0;
    int given_back = 0;
  } asked;

  weft_shard_allocator_t allocator = {sizeof(allocator)};
  allocator.allocate = [](size_t bytes, size_t alignment, weft_shard_tier_t tier,
                          void* user) -> void* {
    auto* const told = static_cast<Asked*>(user);
    told->bytes[tier] += bytes;
    ++told->live;
    return ::operator new (bytes, std::align_val_t{alignment});
  };
  allocator.release = [](void* memory, size_t, weft_shard_tier_t, void* user) {
    --static_cast<Asked*>(user)->live;
    ::operator delete (memory, std::align_val_t{64});
  };
  allocator.user = &asked;
  allocator.release_user = [](void* user) {
    EXPECT_EQ(static_cast<Asked*>(user)->live, 0) << "after the last release";
    ++static_cast<Asked*>(user)->given_back;
  };
  weft_shard_config_t config = {sizeof(config)};
  config.allocator = &allocator;
  config.poison = 1;
  weft_shard_context_t context = nullptr;
  ASSERT_EQ(weft_shard_context_create(mesh_, &config, &context), WEFT_SUCCESS) << last_error;
  allocator = {};  // was copied
  weft_shard_unit_t unit = nullptr;
  weft_shard_policy_t policy = {sizeof(policy), WEFT_SHARD_FULL_SHARD};
  ASSERT_EQ(weft_shard_unit_begin(context, "a", &policy, &unit), WEFT_SUCCESS);
  weft_shard_param_t param = nullptr;
  const int64_t shape = 1000;
  ASSERT_EQ(AddParam(unit, "w", &shape, 1, WEFT_FLOAT32, 0, &param), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
  weft_shard_plan_t plan = {sizeof(plan)};
  ASSERT_EQ(weft_shard_context_finalize(context, &plan), WEFT_SUCCESS) << last_error;
  EXPECT_EQ(asked.bytes[WEFT_SHARD_TIER_PARAMS], plan.param_bytes);
  EXPECT_EQ(asked.bytes[WEFT_SHARD_TIER_GRADIENTS], plan.grad_bytes);
  EXPECT_EQ(asked.bytes[WEFT_SHARD_TIER_OPTIMIZER], 0u);
  EXPECT_EQ(asked.bytes[WEFT_SHARD_TIER_POOL], plan.pool_bytes);
  EXPECT_EQ(asked.live, 3);
  EXPECT_EQ(asked.given_back, 0);
  EXPECT_EQ(weft_shard_context_destroy(context), WEFT_SUCCESS);
  EXPECT_EQ(asked.live, 0);
  EXPECT_EQ(asked.given_back, 1);
}

TEST_F(ShardCTest, RefusesUnknownPolicies) {
  weft_shard_unit_t unit = nullptr;
  weft_shard_policy_t policy = {sizeof(policy), WEFT_SHARD_FULL_SHARD, WEFT_SHARD_CUT_BLOCK, -1};
  ExpectRefused(weft_shard_unit_begin(context_, "a", &policy, &unit), WEFT_INVALID_ARGUMENT,
                "cut_rows is -1");
  policy.cut_rows = 0;
  const int unknown = 17;
  std::memcpy(&policy.preset, &unknown, sizeof(unknown));
  ExpectRefused(weft_shard_unit_begin(context_, "a", &policy, &unit), WEFT_INVALID_ARGUMENT,
                "preset is 17");
  EXPECT_EQ(unit, nullptr);
  policy.preset = WEFT_SHARD_NO_SHARD;
  EXPECT_EQ(weft_shard_unit_begin(context_, "a", &policy, &unit), WEFT_SUCCESS);
}

TEST_F(ShardCTest, RefusesToDestroyAMeshInUse) {
  ExpectRefused(weft_mesh_destroy(mesh_), WEFT_INVALID_USAGE, "1 shard contexts use the mesh");
}

TEST_F(ShardCTest, TrainsAStep) {
  weft_shard_unit_t unit = nullptr;
  ASSERT_EQ(weft_shard_unit_begin(context_, "linear", nullptr, &unit), WEFT_SUCCESS);
  weft_shard_param_t weight = nullptr;
  weft_shard_param_t bias = nullptr;
  const int64_t shape[] = {2, 3};
  ASSERT_EQ(AddParam(unit, "w", shape, 2, WEFT_FLOAT32, 0, &weight), WEFT_SUCCESS);
  ASSERT_EQ(AddParam(unit, "b", shape, 1, WEFT_FLOAT32, WEFT_SHARD_PARAM_FROZEN, &bias),
            WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
  weft_shard_view_t view = {sizeof(view)};
  ExpectRefused(weft_shard_param_view(weight, &view), WEFT_BAD_STATE, "not finalized");
  weft_shard_plan_t plan = {};
  ExpectRefused(weft_shard_context_finalize(context_, &plan), WEFT_INVALID_ARGUMENT, "struct_size");
  plan.struct_size = sizeof(plan);
  ASSERT_EQ(weft_shard_context_finalize(context_, &plan), WEFT_SUCCESS);
  EXPECT_EQ(plan.element_count, 8u);
  EXPECT_EQ(plan.struct_size, sizeof(plan));

  ASSERT_EQ(weft_shard_param_view(bias, &view), WEFT_SUCCESS);
  EXPECT_EQ(view.grad, nullptr);
  ASSERT_EQ(weft_shard_param_view(weight, &view), WEFT_SUCCESS);
  EXPECT_EQ(view.count, 6u);
  EXPECT_EQ(view.dtype, WEFT_FLOAT32);
  ASSERT_EQ(weft_shard_context_broadcast(context_, 0), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_context_verify(context_), WEFT_SUCCESS);

  ExpectRefused(StepBegin(context_, static_cast<weft_shard_mode_t>(7), 0), WEFT_INVALID_ARGUMENT,
                "mode is 7");
  ASSERT_EQ(StepBegin(context_, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
  ExpectRefused(MicrobatchBegin(context_, 0, 2), WEFT_INVALID_ARGUMENT, "last is 2");
  ASSERT_EQ(MicrobatchBegin(context_, 0, 1), WEFT_SUCCESS);
  ExpectRefused(weft_shard_pre_forward(unit, &view), WEFT_UNSUPPORTED, "stream");
  ASSERT_EQ(weft_shard_pre_forward(unit, nullptr), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_post_forward(unit, nullptr), WEFT_SUCCESS);
  ExpectRefused(weft_shard_grad_ready(weight, nullptr, nullptr), WEFT_BAD_STATE, "pre_backward");
  ASSERT_EQ(weft_shard_pre_backward(unit, nullptr), WEFT_SUCCESS);
  const float gradient[] = {1, 2, 3, 4, 5, 6};
  ASSERT_EQ(weft_shard_grad_ready(weight, gradient, nullptr), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_post_backward(unit, nullptr), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_microbatch_end(context_, nullptr), WEFT_SUCCESS);
  weft_shard_step_result_t result = {sizeof(result)};
  ASSERT_EQ(weft_shard_finish(context_, nullptr, &result), WEFT_SUCCESS);
  EXPECT_EQ(result.reduced_bytes, 512u);
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(static_cast<float*>(view.grad)[i], gradient[i]);
  ASSERT_EQ(weft_shard_step_end(context_), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_abort_step(context_, nullptr), WEFT_SUCCESS);
  ExpectRefused(StepBegin(context_, WEFT_SHARD_TRAIN, 0), WEFT_ABORTED, "no reason given");
}

// Gradients of two params that are written: one in place, one not at all in the second micro-batch, nor in the second step.
TEST_F(ShardCTest, AGradientThatIsWrittenIsUnsetUntilItIsReady) {
  constexpr int64_t kCount = 3;
  weft_shard_unit_t unit = nullptr;
  ASSERT_EQ(weft_shard_unit_begin(context_, "linear", nullptr, &unit), WEFT_SUCCESS);
  weft_shard_param_t params[2] = {};
  ASSERT_EQ(AddParam(unit, "w", &kCount, 1, WEFT_FLOAT32, WEFT_SHARD_PARAM_WRITES_GRAD, &params[0]),
            WEFT_SUCCESS);
  ASSERT_EQ(AddParam(unit, "v", &kCount, 1, WEFT_FLOAT32, WEFT_SHARD_PARAM_WRITES_GRAD, &params[1]),
            WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
  weft_shard_plan_t plan = {sizeof(plan)};
  ASSERT_EQ(weft_shard_context_finalize(context_, &plan), WEFT_SUCCESS);
  const auto view_of = [](weft_shard_param_t param) {
    weft_shard_view_t view = {sizeof(view)};
    EXPECT_EQ(weft_shard_param_view(param, &view), WEFT_SUCCESS);
    return view;
  };
  EXPECT_EQ(view_of(params[0]).grad_unset, 0);
  const float twos[] = {2, 2, 2};
  for (int step = 0; step < 2; ++step) {
    ASSERT_EQ(StepBegin(context_, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      ASSERT_EQ(MicrobatchBegin(context_, microbatch, microbatch), WEFT_SUCCESS);
      ASSERT_EQ(weft_shard_pre_forward(unit, nullptr), WEFT_SUCCESS);
      ASSERT_EQ(weft_shard_post_forward(unit, nullptr), WEFT_SUCCESS);
      ASSERT_EQ(weft_shard_pre_backward(unit, nullptr), WEFT_SUCCESS);
      const weft_shard_view_t view = view_of(params[0]);
      EXPECT_EQ(view.grad_unset, microbatch == 0 ? 1 : 0);
      for (int64_t i = 0; i < kCount; ++i) {
        float& value = static_cast<float*>(view.grad)[i];
        value = view.grad_unset != 0 ? 1 : value + 1;
      }
      ASSERT_EQ(weft_shard_grad_ready(params[0], nullptr, nullptr), WEFT_SUCCESS);
      EXPECT_EQ(view_of(params[0]).grad_unset, 0);
      if (step == 0 && microbatch == 0) {
        ASSERT_EQ(weft_shard_grad_ready(params[1], twos, nullptr), WEFT_SUCCESS);
      }
      ASSERT_EQ(weft_shard_post_backward(unit, nullptr), WEFT_SUCCESS);
      ASSERT_EQ(weft_shard_microbatch_end(context_, nullptr), WEFT_SUCCESS);
    }
    ASSERT_EQ(weft_shard_finish(context_, nullptr, nullptr), WEFT_SUCCESS);
    for (int64_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(static_cast<float*>(view_of(params[0]).grad)[i], 2);
      EXPECT_EQ(static_cast<float*>(view_of(params[1]).grad)[i], step == 0 ? 2 : 0);
    }
    ASSERT_EQ(weft_shard_step_end(context_), WEFT_SUCCESS);
  }
}

}  // namespace
}  // namespace weft
