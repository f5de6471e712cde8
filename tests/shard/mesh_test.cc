// Meshes of one to as many axes as there may be: which ranks each axis has, and the gradients of a model that is sharded along the last
// one. How many that are is a struct's size, which does not change.
#include "shard/layout/mesh.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/shard.h"

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/layout/placement.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft {
namespace {

static_assert(WEFT_MESH_AXES_MAX == 6);
static_assert(sizeof(weft_mesh_config_t) == 2 * sizeof(size_t) + 6 * (sizeof(char*) + sizeof(int)));

const std::vector<std::vector<int>>& Meshes() {
  static const std::vector<std::vector<int>> meshes = {{1},
                                                       {8},
                                                       {2, 4},
                                                       {3, 2},
                                                       {2, 2, 2},
                                                       {2, 1, 2, 2},
                                                       {1, 2, 2, 2},
                                                       {2, 1, 2, 1, 2},
                                                       {1, 1, 2, 1, 4},
                                                       {2, 1, 2, 1, 1, 2},
                                                       {1, 2, 1, 1, 2, 2},
                                                       {1, 1, 1, 1, 1, 1}};
  return meshes;
}

int RanksOf(const std::vector<int>& sizes) {
  int ranks = 1;
  for (const int size : sizes)
    ranks *= size;
  return ranks;
}

// The sum of `value` over the ranks of a group.
absl::StatusOr<int64_t> SumOver(ProcessGroup& group, int64_t value) {
  WEFT_RETURN_IF_ERROR(group.Run({.kind = OpKind::kAllReduce,
                                  .dtype = WEFT_INT64,
                                  .op = WEFT_SUM,
                                  .count = 1,
                                  .in = &value,
                                  .out = &value}));
  return value;
}

// Each axis' ranks are those whose place on it alone is another one: found by their number, and by the sum of their bits.
TEST(Mesh, HasTheRanksOfEachAxis) {
  for (const std::vector<int>& sizes : Meshes()) {
    SCOPED_TRACE(testing::PrintToString(sizes));
    const int ranks = RanksOf(sizes);
    ExpectAllOk(
        RunRanks(GroupKind::kLocal, ranks,
                 [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                   std::vector<MeshAxis> axes;
                   for (size_t i = 0; i < sizes.size(); ++i)
                     axes.push_back({StrCat("axis", i), sizes[i]});
                   WEFT_ASSIGN_OR_RETURN(const auto mesh, Mesh::Create(std::move(group), axes));
                   EXPECT_EQ(mesh->size(), ranks);
                   int stride = ranks;
                   for (size_t axis = 0; axis < sizes.size(); ++axis) {
                     stride /= sizes[axis];
                     const int place = rank / stride % sizes[axis];
                     int64_t expected = 0;
                     for (int other = 0; other < sizes[axis]; ++other)
                       expected += int64_t{1} << (rank + (other - place) * stride);
                     ProcessGroup& along = *mesh->axis_group(axis);
                     EXPECT_EQ(along.size(), sizes[axis]) << "axis " << axis;
                     EXPECT_EQ(along.rank(), place) << "axis " << axis;
                     WEFT_ASSIGN_OR_RETURN(const int64_t sum, SumOver(along, int64_t{1} << rank));
                     EXPECT_EQ(sum, expected) << "axis " << axis;
                   }
                   if (sizes.size() == 1) return absl::OkStatus();
                   EXPECT_EQ(mesh->outer()->size(), ranks / sizes.back());
                   return absl::OkStatus();
                 }));
  }
}

TEST(Mesh, OfAnyNumberOfAxesHasTheGradientsOfOne) {
  const std::vector<ModelParam> model = SmallModel();
  for (const std::vector<int>& sizes : Meshes()) {
    const int inner = sizes.back();
    for (const weft_shard_preset_t preset :
         {WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_HPZ}) {
      if (preset != WEFT_SHARD_FULL_SHARD && sizes.size() < 2) continue;
      SCOPED_TRACE(StrCat(testing::PrintToString(sizes), ", ", PresetName(preset)));
      Scenario scenario{.ranks = RanksOf(sizes), .steps = 2};
      if (preset == WEFT_SHARD_HYBRID_SHARD) scenario.replica = inner;
      ExpectAllOk(RunRanks(
          GroupKind::kLocal, scenario.ranks,
          [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
            WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(std::move(group), {}, sizes));
            WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(preset)));
            WEFT_RETURN_IF_ERROR(context->Finalize().status());
            for (int step = 0; step < scenario.steps; ++step) {
              WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, rank, step).status());
              WEFT_RETURN_IF_ERROR(
                  ExpectOwn(*context, model, ExpectedGradients(model, scenario, step)));
              WEFT_RETURN_IF_ERROR(context->StepEnd());
            }
            return absl::OkStatus();
          }));
    }
  }
}

// A thousand ranks that nobody has, on six axes, keep what they keep on two.
TEST(Mesh, OfSixAxesPlansAsOfTwo) {
  const auto plan = [](const std::vector<int>& sizes) {
    std::vector<MeshAxis> axes;
    for (size_t i = 0; i < sizes.size(); ++i)
      axes.push_back({StrCat("axis", i), sizes[i]});
    const auto mesh = Mesh::CreateDry(axes, 777);
    EXPECT_TRUE(mesh.ok()) << mesh.status();
    const auto context = Context::Create(*mesh, {});
    EXPECT_TRUE(context.ok()) << context.status();
    EXPECT_TRUE(Declare(**context, SmallModel(), PlacementOf(WEFT_SHARD_HYBRID_SHARD)).ok());
    const absl::StatusOr<weft_shard_plan_t> made = (*context)->Plan();
    EXPECT_TRUE(made.ok()) << made.status();
    return std::pair(made->resting_bytes, made->sent_bytes);
  };
  EXPECT_EQ(plan({2, 4, 4, 2, 2, 8}), plan({128, 8}));
}

}  // namespace
}  // namespace weft
