// Gradients after finish, bit for bit, against a single-threaded reference.
#include <atomic>
#include <string>
#include <tuple>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::gradients_test {
namespace {

struct Variant {
  const char* name;
  BucketLimits limits;
  bool overlap = true;
};

constexpr Variant kVariants[] = {
    {"OneBucketPerParam", {.bucket_bytes = 1, .first_bucket_bytes = 1}},
    {"SmallBuckets", {.bucket_bytes = 2048, .first_bucket_bytes = 300}},
    {"SmallBucketsNoOverlap", {.bucket_bytes = 2048, .first_bucket_bytes = 300}, false},
    {"OneBucket", {}},
};

// Runs the scenario's steps on all ranks and compares the gradients of each.
void ExpectReferenceGradients(GroupKind kind, const Scenario& scenario, const Variant& variant) {
  SCOPED_TRACE(StrCat(GroupKindName(kind), ", ", scenario.ranks, " ranks, ", variant.name,
                      ", seed ", scenario.seed));
  const std::vector<ModelParam> model = SmallModel();
  std::vector<std::vector<Elements>> expected;
  for (int step = 0; step < scenario.steps; ++step) {
    expected.push_back(ExpectedGradients(model, scenario, step));
  }
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, {.limits = variant.limits,
                                                            .accumulation = scenario.accumulation,
                                                            .overlap = variant.overlap,
                                                            .average = scenario.average}));
    WEFT_RETURN_IF_ERROR(Declare(*context, model));
    WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, context->Finalize());
    for (int step = 0; step < scenario.steps; ++step) {
      WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result,
                            RunStep(*context, model, scenario, rank, step));
      WEFT_ASSIGN_OR_RETURN(const auto gradients, ReadGradients(*context, model));
      for (size_t i = 0; i < model.size(); ++i) {
        EXPECT_EQ(gradients[i], expected[static_cast<size_t>(step)][i])
            << model[i].name << " on rank " << rank << " in step " << step;
      }
      const bool every = scenario.accumulation == WEFT_SHARD_REDUCE_EVERY;
      EXPECT_EQ(result.reduced_bytes,
                plan.traffic_bytes * static_cast<uint64_t>(every ? scenario.microbatches : 1));
      EXPECT_LE(result.comm_exposed_ns, result.comm_ns + 1'000'000'000);
      WEFT_RETURN_IF_ERROR(context->StepEnd());
    }
    return absl::OkStatus();
  };
  ExpectAllOk(RunRanks(kind, scenario.ranks, body));
}

class GradientsTest : public testing::TestWithParam<std::tuple<GroupKind, int>> {
 protected:
  void SetUp() override {
    if (LeftOut(kind(), ranks())) GTEST_SKIP() << "sampled";
  }

  GroupKind kind() const { return std::get<0>(GetParam()); }

  int ranks() const { return std::get<1>(GetParam()); }
};

TEST_P(GradientsTest, AreTheCanonicalAverageForAnyBucketsAndOverlap) {
  for (const Variant& variant : kVariants) {
    ExpectReferenceGradients(kind(), {.ranks = ranks()}, variant);
  }
}

TEST_P(GradientsTest, MayBecomeReadyInAnyOrderOnEachRank) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    ExpectReferenceGradients(kind(), {.seed = seed, .ranks = ranks(), .shuffle = true},
                             kVariants[seed % 2]);
  }
}

TEST_P(GradientsTest, MayBeMissing) {
  for (const int percent : {30, 100}) {
    ExpectReferenceGradients(
        kind(), {.ranks = ranks(), .missing_percent = percent, .shuffle = true}, kVariants[1]);
  }
}

TEST_P(GradientsTest, AreAddedLocallyThenReduced) {
  for (const int microbatches : {2, 3}) {
    ExpectReferenceGradients(
        kind(), {.ranks = ranks(), .microbatches = microbatches, .missing_percent = 20},
        kVariants[1]);
  }
}

TEST_P(GradientsTest, AreReducedEveryMicrobatch) {
  for (const int microbatches : {1, 2, 3}) {
    for (const Variant& variant : {kVariants[1], kVariants[2]}) {
      ExpectReferenceGradients(kind(),
                               {.ranks = ranks(),
                                .microbatches = microbatches,
                                .missing_percent = 20,
                                .accumulation = WEFT_SHARD_REDUCE_EVERY,
                                .shuffle = true},
                               variant);
    }
  }
}

TEST_P(GradientsTest, AreSummedOnRequest) {
  ExpectReferenceGradients(kind(), {.ranks = ranks(), .average = false}, kVariants[1]);
}

TEST_P(GradientsTest, MayComeFromSeveralThreads) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    ExpectReferenceGradients(
        kind(), {.seed = seed, .ranks = ranks(), .steps = 3, .shuffle = true, .grad_threads = 3},
        kVariants[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , GradientsTest, testing::Combine(testing::ValuesIn(kGroupKinds), testing::ValuesIn(kRankSet)),
    [](const auto& info) {
      return StrCat(GroupKindName(std::get<0>(info.param)), std::get<1>(info.param));
    });

// One step over three units of one param, in the given order of backward.
absl::StatusOr<weft_shard_step_result_t> StepInOrder(Context& context, uint64_t tag,
                                                     const std::vector<int>& order) {
  WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, tag));
  WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
  for (const int unit : order) {
    WEFT_RETURN_IF_ERROR(context.PreForward(unit));
    WEFT_RETURN_IF_ERROR(context.PostForward(unit));
  }
  for (const int unit : order) {
    WEFT_RETURN_IF_ERROR(context.PreBackward(unit));
    WEFT_RETURN_IF_ERROR(context.GradReady(unit, nullptr));
    WEFT_RETURN_IF_ERROR(context.PostBackward(unit));
  }
  WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
  WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result, context.Finish());
  WEFT_RETURN_IF_ERROR(context.StepEnd());
  return result;
}

TEST(Gradients, ReportThatTheOrderOfBucketsChanged) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(
            auto context,
            MakeContext(group, {.limits = {.bucket_bytes = 512, .first_bucket_bytes = 512}}));
        for (const char* name : {"a", "b", "c"}) {
          WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, name, {16}).status());
        }
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        struct {
          uint64_t tag;
          std::vector<int> order;
          int changed;
        } const steps[] = {{0, {2, 1, 0}, 0}, {0, {2, 1, 0}, 0}, {0, {1, 2, 0}, 1},
                           {7, {1, 2, 0}, 0}, {7, {1, 2, 0}, 0}, {0, {2, 1, 0}, 0}};
        for (const auto& step : steps) {
          WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result,
                                StepInOrder(*context, step.tag, step.order));
          EXPECT_EQ(result.order_changed, step.changed);
          EXPECT_EQ(result.reduced_bytes, 3u * 512);
          EXPECT_GT(result.comm_ns, 0);
        }
        return absl::OkStatus();
      }));
}

TEST(Gradients, OfOneHugeAndManyTinyParams) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 3, [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(
            auto context,
            MakeContext(group, {.limits = {.bucket_bytes = 4096, .first_bucket_bytes = 128}}));
        std::vector<int> order;
        for (int i = 0; i < 100; ++i) {
          const int64_t count = i == 40 ? 1'000'003 : 1;
          WEFT_ASSIGN_OR_RETURN(const int param,
                                AddUnitWithParam(*context, StrCat("u", i), {count}));
          order.insert(order.begin(), param);
        }
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
        WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
        for (const int unit : order) {
          WEFT_RETURN_IF_ERROR(context->PreForward(unit));
          WEFT_RETURN_IF_ERROR(context->PostForward(unit));
          WEFT_RETURN_IF_ERROR(context->PreBackward(unit));
          WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(unit));
          for (size_t i = 0; i < view.count; ++i) {
            static_cast<float*>(view.grad)[i] = static_cast<float>(rank * 3 + unit);
          }
          WEFT_RETURN_IF_ERROR(context->GradReady(unit, nullptr));
          WEFT_RETURN_IF_ERROR(context->PostBackward(unit));
        }
        WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
        WEFT_RETURN_IF_ERROR(context->Finish().status());
        for (const int unit : order) {
          WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(unit));
          size_t wrong = 0;
          for (size_t i = 0; i < view.count; ++i) {
            wrong += static_cast<const float*>(view.grad)[i] != static_cast<float>(3 + unit);
          }
          EXPECT_EQ(wrong, 0u) << "unit " << unit;
        }
        return context->StepEnd();
      }));
}

}  // namespace
}  // namespace weft::gradients_test
