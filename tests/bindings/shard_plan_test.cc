// Plans without peers, order hints and lists of units through the C interface.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "weft/weft.h"

#include "tests/bindings/shard_calls.h"

namespace {

using testing::HasSubstr;

weft_mesh_t DryMesh(int nodes, int ranks_per_node, int rank) {
  const weft_mesh_config_t config = {sizeof(config), 2, {"node", "local"}, {nodes, ranks_per_node}};
  weft_mesh_t mesh = nullptr;
  EXPECT_EQ(weft_mesh_create_dry(&config, rank, &mesh), WEFT_SUCCESS) << weft_last_error();
  return mesh;
}

weft_shard_plan_t PlanOf(weft_shard_context_t context) {
  weft_shard_plan_t plan = {};
  plan.struct_size = sizeof(plan);
  EXPECT_EQ(weft_shard_context_plan(context, &plan), WEFT_SUCCESS) << weft_last_error();
  return plan;
}

// Embedding, three blocks, norm and head.
class ShardPlan : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& name : names_)
      specs_.push_back(
          {sizeof(weft_shard_param_config_t), name.c_str(), shape_, 2, WEFT_FLOAT32, 0});
    params_.resize(specs_.size());
    units_.resize(specs_.size());
    mesh_ = DryMesh(4, 2, 5);
    ASSERT_EQ(weft_shard_context_create(mesh_, nullptr, &context_), WEFT_SUCCESS);
  }

  void TearDown() override {
    EXPECT_EQ(weft_shard_context_destroy(context_), WEFT_SUCCESS);
    EXPECT_EQ(weft_mesh_destroy(mesh_), WEFT_SUCCESS);
  }

  // Returns how many units there are.
  size_t AddUnits(const char* by_prefix, size_t min_bytes) {
    const weft_shard_grouping_t grouping = {sizeof(grouping), by_prefix, min_bytes};
    weft_shard_policy_t policy = {};
    policy.struct_size = sizeof(policy);
    policy.preset = WEFT_SHARD_FULL_SHARD;
    size_t count = units_.size();
    EXPECT_EQ(weft_shard_add_units(context_, specs_.data(), specs_.size(), &grouping, &policy,
                                   params_.data(), units_.data(), &count),
              WEFT_SUCCESS)
        << weft_last_error();
    return count;
  }

  const int64_t shape_[2] = {1024, 8};
  const std::vector<std::string> names_ = {"embed.weight",    "blocks.0.norm",   "blocks.0.weight",
                                           "blocks.1.norm",   "blocks.1.weight", "blocks.2.norm",
                                           "blocks.2.weight", "norm.weight",     "head.weight"};
  std::vector<weft_shard_param_config_t> specs_;
  std::vector<weft_shard_param_t> params_;
  std::vector<weft_shard_unit_t> units_;
  weft_mesh_t mesh_ = nullptr;
  weft_shard_context_t context_ = nullptr;
};

TEST_F(ShardPlan, OfUnitsByPrefix) {
  ASSERT_EQ(AddUnits("blocks.*", 0), 5u);
  const weft_shard_plan_t plan = PlanOf(context_);
  EXPECT_EQ(plan.unit_count, 5u);
  EXPECT_EQ(plan.param_count, 9u);
  EXPECT_EQ(plan.element_count, 9u * 8192);
  EXPECT_EQ(plan.param_bytes, 9u * 8192 * 4 / 8);
  EXPECT_EQ(plan.resting_bytes, 2 * plan.param_bytes);
  EXPECT_EQ(plan.peak_bytes, plan.resting_bytes + plan.pool_bytes);
  EXPECT_EQ(plan.largest_unit_bytes, 2u * 8192 * 4);
  EXPECT_EQ(plan.traffic_bytes, 9u * 8192 * 4);
  // Twice, but for the unit with which forward ends.
  EXPECT_EQ(plan.gather_bytes, (2u * 9 - 2) * 8192 * 4);
  EXPECT_EQ(plan.sent_bytes, (plan.gather_bytes + plan.traffic_bytes) / 8 * 7);
  EXPECT_EQ(plan.sent_inner_bytes, 0u);
}

TEST_F(ShardPlan, OfUnitsBySize) {
  EXPECT_EQ(AddUnits(nullptr, 3u * 8192 * 4), 3u);
  EXPECT_EQ(PlanOf(context_).largest_unit_bytes, 3u * 8192 * 4);
}

TEST_F(ShardPlan, IntervalsOfAParamCoverIt) {
  ASSERT_EQ(AddUnits("blocks.*", 0), 5u);
  for (weft_shard_param_t param : params_) {
    size_t next = 0;
    for (int rank = 0; rank < 8; ++rank) {
      size_t begin = 0, count = 0;
      ASSERT_EQ(weft_shard_param_interval(param, rank, &begin, &count), WEFT_SUCCESS);
      if (count == 0) continue;
      EXPECT_EQ(begin, next);
      next = begin + count;
    }
    EXPECT_EQ(next, 8192u);
  }
}

TEST_F(ShardPlan, FollowsAHintUntilItIsTakenBack) {
  const size_t count = AddUnits("blocks.*", 0);
  const weft_shard_plan_t declared = PlanOf(context_);
  std::vector<weft_shard_unit_t> order(units_.begin(), units_.begin() + static_cast<long>(count));
  order.push_back(units_[0]);
  ASSERT_EQ(weft_shard_hint_order(context_, order.data(), order.size()), WEFT_SUCCESS);
  EXPECT_EQ(PlanOf(context_).gather_bytes, declared.gather_bytes + 2 * 8192 * 4 + 8192 * 4);
  ASSERT_EQ(weft_shard_hint_order(context_, nullptr, 0), WEFT_SUCCESS);
  EXPECT_EQ(PlanOf(context_).gather_bytes, declared.gather_bytes);
}

TEST_F(ShardPlan, KeepsWhatOthersAreWithin) {
  const size_t count = AddUnits("blocks.*", 0);
  const weft_shard_plan_t declared = PlanOf(context_);
  for (size_t unit = 1; unit < count; ++unit)
    ASSERT_EQ(weft_shard_unit_within(units_[unit], units_[0]), WEFT_SUCCESS);
  const weft_shard_plan_t nested = PlanOf(context_);
  EXPECT_EQ(nested.resting_bytes, declared.resting_bytes);
  EXPECT_GT(nested.pool_bytes, declared.pool_bytes);
}

TEST_F(ShardPlan, AnOlderCallerGetsTheFieldsThatItKnows) {
  ASSERT_EQ(AddUnits("blocks.*", 0), 5u);
  weft_shard_plan_t plan = {};
  plan.struct_size = offsetof(weft_shard_plan_t, optimizer_bytes);
  plan.peak_bytes = 77;
  ASSERT_EQ(weft_shard_context_plan(context_, &plan), WEFT_SUCCESS);
  EXPECT_EQ(plan.unit_count, 5u);
  EXPECT_EQ(plan.peak_bytes, 77u);
}

TEST_F(ShardPlan, NothingElseWorksOnADryMesh) {
  ASSERT_EQ(AddUnits("blocks.*", 0), 5u);
  weft_group_t group = nullptr;
  const char* const axis = "gpu";
  for (const weft_result_t result :
       {weft_shard_context_finalize(context_, nullptr), weft_shard_context_verify(context_),
        weft::StepBegin(context_), weft_shard_abort_step(context_, nullptr),
        weft_mesh_axis_group(mesh_, 0, &group), weft_mesh_group(mesh_, &axis, 1, &group)}) {
    EXPECT_EQ(result, WEFT_INVALID_USAGE);
    EXPECT_THAT(weft_last_error(), HasSubstr("dry"));
  }
}

TEST(ShardPreset, IsFoundByItsName) {
  for (int number = WEFT_SHARD_NO_SHARD; number <= WEFT_SHARD_FRACTION; ++number) {
    const auto preset = static_cast<weft_shard_preset_t>(number);
    weft_shard_preset_t found = preset == WEFT_SHARD_HPZ ? WEFT_SHARD_ZERO1 : WEFT_SHARD_HPZ;
    EXPECT_EQ(weft_shard_preset_by_name(weft_shard_preset_name(preset), &found), WEFT_SUCCESS);
    EXPECT_EQ(found, preset);
  }
  weft_shard_preset_t found = WEFT_SHARD_NO_SHARD;
  EXPECT_EQ(weft_shard_preset_by_name("zero3", &found), WEFT_SUCCESS);
  EXPECT_EQ(found, WEFT_SHARD_FULL_SHARD);
}

}  // namespace
