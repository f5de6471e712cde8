// The C++ wrapper of plans, hints, lists of units and param groups. Compiled as C++17.
#include <gtest/gtest.h>

#include "weft/shard_param_groups.hpp"
#include "weft/shard_plan.hpp"

#include "tests/install/local_ranks.h"

namespace {

const weft_shard_grouping_t kBlocks = {sizeof(weft_shard_grouping_t), "blocks.*", 0};

weft::ShardModel AddModel(const weft::ShardContext& context) {
  weft_shard_policy_t policy = {};
  policy.struct_size = sizeof(policy);
  policy.preset = WEFT_SHARD_FULL_SHARD;
  return weft::AddUnits(context,
                        {{"embed", {64, 8}},
                         {"blocks.0.weight", {32, 32}, WEFT_FLOAT32, WEFT_SHARD_PARAM_NO_DECAY},
                         {"blocks.1.weight", {32, 32}},
                         {"scale", {}}},
                        kBlocks, &policy);
}

TEST(ShardPlanWrapper, ADryPlanIsThatOfTheRanks) {
  weft_mesh_config_t config = {sizeof(config), 1, {"data"}, {2}};
  weft_test::OnRanks(2, [&](const weft::Group& group, int rank) {
    const weft::Mesh mesh(group);
    const weft::ShardContext context(mesh);
    const weft::ShardModel model = AddModel(context);
    ASSERT_EQ(model.units.size(), 4u);
    ASSERT_EQ(model.params.size(), 4u);
    std::vector<weft::ShardUnit> order = model.units;
    order.push_back(model.units[0]);
    weft::HintOrder(context, order);
    weft::UseWithin(model.units[3], model.units[2]);
    const weft_shard_plan_t finalized = context.Finalize();

    const weft::Mesh dry = weft::DryMesh(config, rank);
    const weft::ShardContext planned(dry);
    const weft::ShardModel same = AddModel(planned);
    order = same.units;
    order.push_back(same.units[0]);
    weft::HintOrder(planned, order);
    weft::UseWithin(same.units[3], same.units[2]);
    const weft_shard_plan_t plan = weft::PlanOf(planned);
    EXPECT_EQ(plan.peak_bytes, finalized.peak_bytes);
    EXPECT_EQ(plan.sent_bytes, finalized.sent_bytes);
    const weft::ShardInterval interval = weft::IntervalOf(same.params[1], rank);
    const weft_shard_part_t part = model.params[1].Part();
    EXPECT_EQ(interval.begin, part.begin);
    EXPECT_EQ(interval.count, part.count);
    EXPECT_THROW(planned.Finalize(), weft::Error);
  });
}

TEST(ShardParamGroupsWrapper, AGroupIsAddedChangedAndReadBack) {
  weft_test::OnRanks(1, [&](const weft::Group& group, int) {
    const weft::Mesh mesh(group);
    const weft::ShardContext context(mesh);
    context.SetOptimizer();
    weft_shard_param_group_t numbers = {};
    numbers.struct_size = sizeof(numbers);
    numbers.kind = WEFT_OPTIMIZER_SGD;
    numbers.learning_rate_factor = 0.5;
    const int number = weft::AddParamGroup(context, numbers);
    EXPECT_EQ(number, 1);
    const weft::ShardModel model = AddModel(context);
    weft::PutIntoGroup(model.params[0], number);
    EXPECT_EQ(model.params[0].Info().group, number);
    context.Finalize();
    numbers.learning_rate_factor = 0.25;
    weft::ChangeParamGroup(context, number, numbers);
    EXPECT_EQ(weft::ParamGroupOf(context, number).learning_rate_factor, 0.25);
    EXPECT_THROW(weft::ParamGroupOf(context, 2), weft::Error);
  });
}

}  // namespace
