// Steps of more micro-batches than their schedule has written: they replay it, in its pool, and add the right gradients.
#include <vector>

#include "base/status.h"
#include "gtest/gtest.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"

namespace weft::many_microbatches_test {
namespace {

constexpr int kRanks = 4;
constexpr int kMicrobatches = 14;
constexpr weft_shard_preset_t kPresets[] = {WEFT_SHARD_ZERO2,      WEFT_SHARD_GRAD_OP,
                                            WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD,
                                            WEFT_SHARD_HPZ,        WEFT_SHARD_FRACTION};

TEST(ManyMicrobatches, AreReplayedByAScheduleOfAFew) {
  for (const weft_shard_preset_t preset : kPresets) {
    for (const bool every : {false, true}) {
      SCOPED_TRACE(testing::Message() << PresetName(preset) << " every " << every);
      const bool two_axes = preset == WEFT_SHARD_HYBRID_SHARD || preset == WEFT_SHARD_HPZ;
      ExpectAllOk(RunRanks(
          GroupKind::kLocal, kRanks,
          [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
            const ContextOptions options{
                .limits = {.bucket_bytes = 2000, .first_bucket_bytes = 1000},
                .accumulation = every ? WEFT_SHARD_REDUCE_EVERY : WEFT_SHARD_LOCAL_THEN_REDUCE,
                .average = false,
                .budget_bytes = preset == WEFT_SHARD_FRACTION ? size_t{12'000} : 0,
                .microbatches = kMicrobatches};
            WEFT_ASSIGN_OR_RETURN(
                auto context,
                MakeContext(std::move(group), options,
                            two_axes ? std::vector<int>{2, kRanks / 2} : std::vector<int>{}));
            ExactModel model(*context, ExactUnits(4, preset), rank, kRanks);
            WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, model.Finalize());
            for (int step = 0; step < 2; ++step) {
              WEFT_ASSIGN_OR_RETURN(
                  const auto result,
                  model.Train(ScriptOf({0, 1, 2, 3}, {3, 2, 1, 0}, kMicrobatches)));
              EXPECT_EQ(result.replayed, 1);
              EXPECT_EQ(result.pool_bytes, plan.pool_bytes);
              EXPECT_EQ(context->spilled_bytes_max(), 0u);
            }
            return model.ExpectWeights();
          }));
    }
  }
}

// A step that nothing was known of is learnt, and replayed the next time.
TEST(ManyMicrobatches, OfAnotherOrderAreLearnt) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(
            auto context,
            MakeContext(std::move(group), {.average = false, .microbatches = kMicrobatches}));
        ExactModel model(*context, ExactUnits(4, WEFT_SHARD_FULL_SHARD), rank, 2);
        WEFT_RETURN_IF_ERROR(model.Finalize().status());
        for (int step = 0; step < 3; ++step) {
          WEFT_ASSIGN_OR_RETURN(const auto result, model.Train(ScriptOf({2, 0, 1, 3}, {3, 1, 0, 2},
                                                                        kMicrobatches + 2)));
          EXPECT_EQ(result.replayed, step == 0 ? 0 : 1) << "step " << step;
        }
        return model.ExpectWeights();
      }));
}

}  // namespace
}  // namespace weft::many_microbatches_test
