// A plan that was made without peers is what finalize then does, on every rank; and it costs nothing.
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/node/heap.h"
#include "gmock/gmock.h"
#include "shard/plan/estimate.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::plan_test {
namespace {

using testing::HasSubstr;

struct Case {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  std::vector<int> axes = {1};
  ContextOptions options;
  CutRule cut = CutRule::kElements;
  bool float32_gradients = false;
};

std::string Text(const weft_shard_plan_t& plan) {
  return StrCat("units ", plan.unit_count, " params ", plan.param_count, " buckets ",
                plan.bucket_count, " elements ", plan.element_count, " param ", plan.param_bytes,
                " grad ", plan.grad_bytes, " padding ", plan.padding_bytes, " traffic ",
                plan.traffic_bytes, " optimizer ", plan.optimizer_bytes, " pool ", plan.pool_bytes,
                " gather ", plan.gather_bytes, " largest ", plan.largest_unit_bytes, " prefetch ",
                plan.prefetch, " resting ", plan.resting_bytes, " peak ", plan.peak_bytes, " sent ",
                plan.sent_bytes, " inner ", plan.sent_inner_bytes);
}

// All kinds of params that an optimizer updates.
std::vector<ModelParam> UpdatableModel() {
  std::vector<ModelParam> model = SmallModel();
  std::erase_if(model, [](const ModelParam& param) { return param.dtype == WEFT_FLOAT64; });
  return model;
}

std::vector<MeshAxis> AxesOf(const Case& one) {
  std::vector<MeshAxis> axes;
  for (size_t i = 0; i < one.axes.size(); ++i)
    axes.push_back({StrCat("axis", i), one.axes[i]});
  return axes;
}

int RanksOf(const Case& one) {
  int ranks = 1;
  for (const int size : one.axes)
    ranks *= size;
  return ranks;
}

absl::Status DeclareAll(Context& context, const Case& one) {
  Placement placement = PlacementOf(one.preset);
  placement.cut = one.cut;
  placement.float32_gradients = one.float32_gradients;
  WEFT_RETURN_IF_ERROR(context.SetOptimizer({}));
  return Declare(context, UpdatableModel(), placement);
}

absl::StatusOr<std::unique_ptr<Context>> DryContext(const Case& one, int rank) {
  WEFT_ASSIGN_OR_RETURN(auto mesh, Mesh::CreateDry(AxesOf(one), rank));
  WEFT_ASSIGN_OR_RETURN(auto context, Context::Create(mesh, one.options));
  WEFT_RETURN_IF_ERROR(DeclareAll(*context, one));
  return context;
}

// What each rank says of one param.
absl::Status ExpectIntervals(Context& context, const Case& one,
                             const std::vector<std::vector<OwnedElements>>& parts) {
  for (int rank = 0; rank < RanksOf(one); ++rank) {
    const std::vector<OwnedElements>& of_rank = parts[static_cast<size_t>(rank)];
    for (size_t p = 0; p < of_rank.size(); ++p) {
      WEFT_ASSIGN_OR_RETURN(const OwnedElements owned, context.Interval(static_cast<int>(p), rank));
      EXPECT_EQ(owned.begin, of_rank[p].begin) << "param " << p << " of rank " << rank;
      EXPECT_EQ(owned.count, of_rank[p].count) << "param " << p << " of rank " << rank;
    }
  }
  return absl::OkStatus();
}

// Plans on the mesh itself and on a dry one, before finalize and after it, on every rank.
void ExpectPlansAgree(const Case& one) {
  SCOPED_TRACE(StrCat(PresetName(one.preset), ", ", RanksOf(one), " ranks of ", one.axes.size(),
                      " axes, cut ", static_cast<int>(one.cut), ", prefetch ",
                      one.options.prefetch));
  const int ranks = RanksOf(one);
  std::vector<std::vector<OwnedElements>> parts(static_cast<size_t>(ranks));
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto mesh, Mesh::Create(group, AxesOf(one)));
    WEFT_ASSIGN_OR_RETURN(auto context, Context::Create(mesh, one.options));
    WEFT_RETURN_IF_ERROR(DeclareAll(*context, one));
    WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t before, context->Plan());
    WEFT_ASSIGN_OR_RETURN(auto dry, DryContext(one, rank));
    WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t without_peers, dry->Plan());
    WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t finalized, context->Finalize());
    WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t after, context->Plan());
    EXPECT_EQ(Text(before), Text(finalized)) << "rank " << rank;
    EXPECT_EQ(Text(without_peers), Text(finalized)) << "rank " << rank;
    EXPECT_EQ(Text(after), Text(finalized)) << "rank " << rank;
    EXPECT_EQ(finalized.pool_bytes, context->pool_bytes());
    for (size_t p = 0; p < UpdatableModel().size(); ++p) {
      WEFT_ASSIGN_OR_RETURN(const auto part, context->OwnPart(static_cast<int>(p)));
      parts[static_cast<size_t>(rank)].push_back({part.second, part.first.count});
    }
    return absl::OkStatus();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, ranks, body));
  const auto compare = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto mesh, Mesh::Create(group, AxesOf(one)));
    WEFT_ASSIGN_OR_RETURN(auto context, Context::Create(mesh, one.options));
    WEFT_RETURN_IF_ERROR(DeclareAll(*context, one));
    WEFT_RETURN_IF_ERROR(ExpectIntervals(*context, one, parts));
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    WEFT_RETURN_IF_ERROR(ExpectIntervals(*context, one, parts));
    WEFT_ASSIGN_OR_RETURN(auto dry, DryContext(one, rank));
    return ExpectIntervals(*dry, one, parts);
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, ranks, compare));
}

constexpr BucketLimits kSmallBuckets = {.bucket_bytes = 2048, .first_bucket_bytes = 1024};

TEST(Plan, IsWhatFinalizeDoesForEveryPresetAndCut) {
  for (const weft_shard_preset_t preset :
       {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2, WEFT_SHARD_GRAD_OP,
        WEFT_SHARD_FULL_SHARD, WEFT_SHARD_FRACTION}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      const auto cut = static_cast<CutRule>(ranks % 3);
      ExpectPlansAgree({preset, {ranks}, {.limits = kSmallBuckets}, cut});
      ExpectPlansAgree({preset,
                        {ranks},
                        {.limits = kSmallBuckets,
                         .accumulation = WEFT_SHARD_REDUCE_EVERY,
                         .overlap = ranks != 2,
                         .prefetch = ranks,
                         .microbatches = 2},
                        CutRule::kElements,
                        /*float32_gradients=*/true});
    }
  }
}

TEST(Plan, IsWhatFinalizeDoesOnMeshesOfSeveralAxes) {
  for (const std::vector<int>& axes :
       std::vector<std::vector<int>>{{1, 2}, {2, 1}, {2, 2}, {1, 4}}) {
    for (const weft_shard_preset_t preset :
         {WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_HPZ, WEFT_SHARD_FULL_SHARD}) {
      ExpectPlansAgree({preset, axes, {.limits = kSmallBuckets}});
    }
  }
}

TEST(Plan, RefusesWhatFinalizeWouldRefuse) {
  const auto planned = [](const Case& one) {
    const absl::StatusOr<std::unique_ptr<Context>> context = DryContext(one, 0);
    return context.ok() ? (*context)->Plan().status() : context.status();
  };
  absl::Status refused = planned({WEFT_SHARD_FULL_SHARD, {2}, {.budget_bytes = 1000}});
  EXPECT_EQ(ResultOf(refused), WEFT_OUT_OF_MEMORY);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("context_plan: what is gathered needs"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the budget is 1000"));
  refused = planned({WEFT_SHARD_HYBRID_SHARD, {4}});
  EXPECT_EQ(ResultOf(refused), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("context_plan: HYBRID_SHARD and HPZ need"));
  refused = planned({WEFT_SHARD_HYBRID_SHARD, {2, 3}});
  EXPECT_THAT(std::string(refused.message()), HasSubstr("power of two"));

  const auto mesh = Mesh::CreateDry({{"data", 2}}, 1);
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  const auto context = Context::Create(*mesh, {});
  ASSERT_TRUE((*context)->SetOptimizer({}).ok());
  const auto unit = (*context)->BeginUnit("open");
  EXPECT_EQ(ResultOf((*context)->Plan().status()), WEFT_BAD_STATE);
  const int64_t count = 4;
  ASSERT_TRUE((*context)->AddParam(*unit, "wide", &count, 1, WEFT_FLOAT64).ok());
  ASSERT_TRUE((*context)->SealUnit(*unit).ok());
  EXPECT_EQ(ResultOf((*context)->Plan().status()), WEFT_UNSUPPORTED);
}

TEST(Plan, ChangesWithTheDeclarations) {
  const auto mesh = Mesh::CreateDry({{"data", 2}}, 0);
  const auto context = Context::Create(*mesh, {});
  EXPECT_EQ((*context)->Plan()->element_count, 0u);
  ASSERT_TRUE(AddUnitWithParam(**context, "a", {20}).ok());
  EXPECT_EQ((*context)->Plan()->element_count, 20u);
  ASSERT_TRUE(AddUnitWithParam(**context, "b", {30}).ok());
  EXPECT_EQ((*context)->Plan()->element_count, 50u);
  EXPECT_EQ((*context)->Plan()->optimizer_bytes, 0u);
  ASSERT_TRUE((*context)->SetOptimizer({}).ok());
  EXPECT_EQ((*context)->Plan()->optimizer_bytes, 2u * 256 * sizeof(float));
}

TEST(DryMesh, CanBePlannedOnly) {
  const absl::StatusOr<std::unique_ptr<Context>> made = DryContext({.axes = {2, 2}}, 3);
  ASSERT_TRUE(made.ok()) << made.status();
  Context& context = **made;
  for (const absl::Status& status :
       {context.Finalize().status(), context.Broadcast(0), context.Verify(),
        context.View(0).status(), context.Load(0, nullptr, 0), context.Read(0, nullptr),
        context.Updated(), context.StepBegin(WEFT_SHARD_TRAIN, 0), context.PreForward(0),
        context.Finish().status(), context.StepEnd(), context.AbortStep("why")}) {
    EXPECT_EQ(ResultOf(status), WEFT_INVALID_USAGE) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("mesh is dry"));
  }
  EXPECT_TRUE(context.Plan().ok());
  EXPECT_EQ(ResultOf(context.Interval(0, 4).status()), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(context.Interval(0, -1).status()), WEFT_INVALID_ARGUMENT);
}

TEST(DryMesh, RefusesSizesAndRanksThatMakeNoSense) {
  for (const std::vector<MeshAxis>& axes :
       std::vector<std::vector<MeshAxis>>{{},
                                          {{"", 2}},
                                          {{"a", 0}},
                                          {{"a", -2}},
                                          {{"a", 2}, {"a", 2}},
                                          {{"a", 2}, {"b", 2}},  // rank 4 is not among them
                                          {{"a", 1 << 20}, {"b", 1 << 20}, {"c", 1 << 20}}}) {
    EXPECT_EQ(ResultOf(Mesh::CreateDry(axes, 4).status()), WEFT_INVALID_ARGUMENT);
  }
  EXPECT_EQ(ResultOf(Mesh::CreateDry({{"a", 2}}, -1).status()), WEFT_INVALID_ARGUMENT);
  const auto mesh = Mesh::CreateDry({{"a", 3}, {"b", 4}}, 11);
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  EXPECT_EQ((*mesh)->size(), 12);
  EXPECT_EQ((*mesh)->inner_rank(), 3);
  EXPECT_EQ((*mesh)->inner_size(), 4);
}

// 7e9 params in float32 with AdamW, in 32 units: what `weftctl plan` says of them.
void ExpectEstimate(weft_shard_preset_t preset, weft_shard_preset_t strategy, int nodes,
                    int per_node) {
  SCOPED_TRACE(StrCat(PresetName(preset), " on ", nodes, " x ", per_node));
  constexpr int kUnits = 32;
  constexpr int64_t kUnit = 218'750'000;
  const auto mesh = Mesh::CreateDry({{"node", nodes}, {"gpu", per_node}}, /*rank=*/0);
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  const auto context = Context::Create(*mesh, {});
  ASSERT_TRUE((*context)->SetOptimizer({}).ok());
  for (int i = 0; i < kUnits; ++i) {
    const auto unit = (*context)->BeginUnit(StrCat("blocks.", i), PlacementOf(preset));
    ASSERT_TRUE(
        (*context)->AddParam(*unit, StrCat("blocks.", i, ".weight"), &kUnit, 1, WEFT_FLOAT32).ok());
    ASSERT_TRUE((*context)->SealUnit(*unit).ok());
  }
  const auto plan = (*context)->Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Estimate estimate = EstimateStrategy({.param_count = 7e9,
                                              .ranks = nodes * per_node,
                                              .largest_unit = kUnit,
                                              .shard_group = per_node},
                                             strategy);
  EXPECT_EQ(plan->element_count, 7'000'000'000u);
  EXPECT_EQ(static_cast<double>(plan->resting_bytes), estimate.rest.Total());
  EXPECT_EQ(static_cast<double>(plan->peak_bytes), estimate.peak_bytes);
  EXPECT_EQ(static_cast<double>(plan->sent_bytes), estimate.sent_bytes);
  EXPECT_NEAR(static_cast<double>(plan->sent_inner_bytes), estimate.sent.inside * 4, 4);
}

TEST(Plan, OfSevenBillionParamsOnAThousandRanksIsTheEstimate) {
  for (const auto& [nodes, per_node] : {std::pair(8, 8), std::pair(128, 8)}) {
    ExpectEstimate(WEFT_SHARD_NO_SHARD, WEFT_SHARD_NO_SHARD, nodes, per_node);
    ExpectEstimate(WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO1, nodes, per_node);
    ExpectEstimate(WEFT_SHARD_ZERO2, WEFT_SHARD_ZERO2, nodes, per_node);
    ExpectEstimate(WEFT_SHARD_GRAD_OP, WEFT_SHARD_GRAD_OP, nodes, per_node);
    ExpectEstimate(WEFT_SHARD_FULL_SHARD, WEFT_SHARD_FULL_SHARD, nodes, per_node);
    ExpectEstimate(WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_HYBRID_SHARD, nodes, per_node);
    ExpectEstimate(WEFT_SHARD_HPZ, WEFT_SHARD_HPZ, nodes, per_node);
  }
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

}  // namespace
}  // namespace weft::plan_test
