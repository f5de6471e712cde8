// Gradients that are infinite or NaN: nobody updates, and it is said once, by the rank and the param that has the first
// one, or ends the training after so many steps.
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "weft/log.h"

#include "base/log.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "tests/shard/all_presets.h"
#include "tests/shard/gradient_step.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::nonfinite_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kRanks = 4;

// Warnings of all ranks while it exists.
class Warnings {
 public:
  Warnings() { SetLogCallback(&Note, this); }

  ~Warnings() { SetLogCallback(nullptr, nullptr); }

  std::vector<std::string> Take() {
    std::lock_guard lock(mutex_);
    return std::exchange(texts_, {});
  }

 private:
  static void Note(weft_log_level_t, const char* message, void* user) {
    auto* const self = static_cast<Warnings*>(user);
    std::lock_guard lock(self->mutex_);
    self->texts_.emplace_back(message);
  }

  std::mutex mutex_;
  std::vector<std::string> texts_;
};

// Where a step's gradients are not finite: on rank `rank`, before they are reduced.
struct Spoiled {
  int rank = -1;  // -1: nowhere
  int param = 0;
  size_t element = 0;
  float value = std::numeric_limits<float>::quiet_NaN();
};

std::vector<ModelParam> Model() {
  return {{"embed", "embed.tokens", {19, 53}, WEFT_FLOAT32},
          {"block", "block.weight", {61, 37}, WEFT_FLOAT32},
          {"block", "block.frozen", {3}, WEFT_FLOAT32, /*frozen=*/true},
          {"head", "head.bias", {701}, WEFT_FLOAT32}};
}

absl::StatusOr<std::unique_ptr<Context>> Make(std::shared_ptr<ProcessGroup> group,
                                              weft_shard_preset_t preset,
                                              const OptimizerConfig& optimizer) {
  WEFT_ASSIGN_OR_RETURN(
      auto context,
      MakeContext(std::move(group), {.limits = {.bucket_bytes = 4096, .first_bucket_bytes = 1024}},
                  SizesOfAxes(preset, kRanks)));
  WEFT_RETURN_IF_ERROR(context->SetOptimizer(optimizer));
  WEFT_RETURN_IF_ERROR(Declare(*context, Model(), PlacementOf(preset)));
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  return context;
}

absl::Status Backward(Context& context, int rank, const std::vector<Spoiled>& spoiled) {
  const std::vector<ModelParam> model = Model();
  const std::vector<int> units = UnitsOf(model);
  return RunGradientStep(context, model, [&](int unit) -> absl::Status {
    for (size_t p = 0; p < model.size(); ++p) {
      if (units[p] != unit || model[p].frozen) continue;
      std::vector<float> gradient(model[p].count(), 0.25f);
      for (const Spoiled& one : spoiled) {
        if (one.rank == rank && one.param == static_cast<int>(p)) gradient[one.element] = one.value;
      }
      WEFT_RETURN_IF_ERROR(context.GradReady(static_cast<int>(p), gradient.data()));
    }
    return absl::OkStatus();
  });
}

// A step; *failure is what optimizer_step returned.
absl::StatusOr<weft_shard_update_result_t> Step(Context& context, int rank,
                                                const std::vector<Spoiled>& spoiled,
                                                absl::Status* failure = nullptr) {
  WEFT_RETURN_IF_ERROR(Backward(context, rank, spoiled));
  absl::StatusOr<weft_shard_update_result_t> result = context.OptimizerStep(UpdateWith(0.01));
  if (failure != nullptr) *failure = result.status();
  WEFT_RETURN_IF_ERROR(context.StepEnd());
  if (result.ok() || failure == nullptr) return result;
  return weft_shard_update_result_t{};
}

class NonfiniteTest : public testing::TestWithParam<weft_shard_preset_t> {};

// Whoever computed it, the sum is not finite on the rank that keeps this part of the gradient.
int OwnerOf(Context& context, int param, size_t element) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto owned = context.Interval(param, rank);
    if (owned.ok() && element - owned->begin < owned->count) return rank;
  }
  return -1;
}

TEST_P(NonfiniteTest, IsSaidOnceWithParamAndRank) {
  Warnings warnings;
  // The later one in the order of backward, on another rank: the first by param counts.
  const std::vector<Spoiled> spoiled = {
      {.rank = 2, .param = 1, .element = 1111},
      {.rank = 0, .param = 3, .element = 5, .value = std::numeric_limits<float>::infinity()}};
  int owner = -1;
  ExpectAllOk(RunRanks(GroupKind::kLocal, kRanks,
                       [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                         WEFT_ASSIGN_OR_RETURN(auto context,
                                               Make(std::move(group), GetParam(), {}));
                         if (rank == 0) owner = OwnerOf(*context, 1, 1111);
                         WEFT_RETURN_IF_ERROR(Step(*context, rank, {}).status());
                         for (int step = 0; step < 5; ++step) {
                           WEFT_ASSIGN_OR_RETURN(const auto result, Step(*context, rank, spoiled));
                           EXPECT_EQ(result.skipped, 1);
                           EXPECT_EQ(result.nonfinite, 2);
                           EXPECT_EQ(result.update_count, 1);
                         }
                         WEFT_ASSIGN_OR_RETURN(const auto result, Step(*context, rank, {}));
                         EXPECT_EQ(result.skipped, 0);
                         return absl::OkStatus();
                       }));
  // With NO_SHARD each rank counts its share of what all of them have.
  const std::string who = GetParam() == WEFT_SHARD_NO_SHARD
                              ? "in the part of rank "
                              : "in the part of rank " + std::to_string(owner) + ";";
  EXPECT_THAT(
      warnings.Take(),
      ElementsAre(AllOf(HasSubstr("step 2: 2 reduced gradient elements are infinite or NaN"),
                        HasSubstr("parameter block.weight (element 1111 of 2257)"), HasSubstr(who),
                        HasSubstr("nothing was updated"))));
}

TEST_P(NonfiniteTest, FailsAfterSoManyStepsInARowOnAllRanksAlike) {
  Warnings warnings;
  OptimizerConfig optimizer;
  optimizer.nonfinite = WEFT_NONFINITE_FAIL;
  optimizer.nonfinite_steps = 3;
  const std::vector<Spoiled> spoiled = {{.rank = 1, .param = 0, .element = 0}};
  std::vector<std::string> sentences(kRanks);
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, kRanks,
               [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                 WEFT_ASSIGN_OR_RETURN(auto context, Make(std::move(group), GetParam(), optimizer));
                 for (const bool spoil : {true, true, false, true, true}) {
                   WEFT_RETURN_IF_ERROR(
                       Step(*context, rank, spoil ? spoiled : std::vector<Spoiled>()).status());
                 }
                 absl::Status failure;
                 WEFT_RETURN_IF_ERROR(Step(*context, rank, spoiled, &failure).status());
                 EXPECT_EQ(ResultOf(failure), WEFT_CORRUPT) << failure;
                 sentences[static_cast<size_t>(rank)] = std::string(failure.message());
                 // What was trained can still be saved.
                 std::vector<float> values(701);
                 WEFT_RETURN_IF_ERROR(context->Read(3, values.data()));
                 for (const float value : values)
                   EXPECT_TRUE(std::isfinite(value));
                 return absl::OkStatus();
               }));
  for (const std::string& sentence : sentences) {
    EXPECT_EQ(sentence, sentences[0]);
    EXPECT_THAT(sentence, AllOf(HasSubstr("step 6"), HasSubstr("parameter embed.tokens (element 0"),
                                HasSubstr("step 3 in a row")));
  }
  EXPECT_EQ(warnings.Take().size(), 2u) << "of each run of steps the first";
}

INSTANTIATE_TEST_SUITE_P(Presets, NonfiniteTest, testing::ValuesIn(kAllPresets),
                         [](const auto& info) { return std::string(PresetName(info.param)); });

TEST(Nonfinite, IsSkippedSilentlyIfSoAsked) {
  Warnings warnings;
  OptimizerConfig optimizer;
  optimizer.nonfinite = WEFT_NONFINITE_SKIP;
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, Make(std::move(group), WEFT_SHARD_ZERO1, optimizer));
        for (int step = 0; step < 3; ++step) {
          WEFT_ASSIGN_OR_RETURN(const auto result, Step(*context, rank, {{.rank = 0}}));
          EXPECT_EQ(result.skipped, 1);
        }
        return absl::OkStatus();
      }));
  EXPECT_THAT(warnings.Take(), IsEmpty());
}

// Overflows that lower the scale are its business; once it cannot fall they are not.
TEST(Nonfinite, OfADynamicLossScaleCountsAtItsLeastValueOnly) {
  Warnings warnings;
  OptimizerConfig optimizer;
  optimizer.dynamic_scale = true;
  optimizer.scale.initial = 4;
  optimizer.scale.hysteresis = 1;
  optimizer.nonfinite = WEFT_NONFINITE_FAIL;
  optimizer.nonfinite_steps = 2;
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, Make(std::move(group), WEFT_SHARD_ZERO1, optimizer));
        for (const double scale : {2.0, 1.0, 1.0}) {
          WEFT_ASSIGN_OR_RETURN(const auto result, Step(*context, rank, {{.rank = 0}}));
          EXPECT_EQ(result.loss_scale, scale);
        }
        absl::Status failure;
        WEFT_RETURN_IF_ERROR(Step(*context, rank, {{.rank = 0}}, &failure).status());
        EXPECT_EQ(ResultOf(failure), WEFT_CORRUPT) << failure;
        return absl::OkStatus();
      }));
  EXPECT_EQ(warnings.Take().size(), 1u);
}

// ---- updates that are not the same on all ranks ---------------------------------------------------

TEST(OptimizerStep, OfOtherNumbersOnARankIsAMismatchThatNamesBoth) {
  struct Case {
    weft_shard_update_t outlier;
    const char* odd_text;
    const char* text;
  };

  for (const Case& one :
       {Case{UpdateWith(0.5, 1), "rank 2 passed learning_rate 0.5, ", "passed learning_rate 0.25;"},
        Case{UpdateWith(0.25, 2), "rank 2 passed norm_max 2, ", "passed norm_max 1;"},
        Case{UpdateWith(0.5, 0), "rank 2 passed learning_rate 0.5, norm_max 0, ",
             "passed learning_rate 0.25, norm_max 1;"}}) {
    for (const weft_shard_preset_t preset : kAllPresets) {
      SCOPED_TRACE(PresetName(preset));
      ExpectAllOk(RunRanks(
          GroupKind::kLocal, kRanks,
          [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
            WEFT_ASSIGN_OR_RETURN(auto context, Make(std::move(group), preset, {}));
            WEFT_RETURN_IF_ERROR(Backward(*context, rank, {}));
            const absl::Status found =
                context->OptimizerStep(rank == 2 ? one.outlier : UpdateWith(0.25, 1)).status();
            EXPECT_EQ(ResultOf(found), WEFT_MISMATCH) << found;
            EXPECT_THAT(std::string(found.message()),
                        AllOf(HasSubstr(one.odd_text), HasSubstr("ranks 0, 1, 3 passed"),
                              HasSubstr(one.text)));
            WEFT_RETURN_IF_ERROR(context->StepEnd());
            std::vector<float> values(701);
            WEFT_RETURN_IF_ERROR(context->Read(3, values.data()));
            for (const float value : values)
              EXPECT_EQ(value, 0) << "nothing was updated";
            WEFT_RETURN_IF_ERROR(Backward(*context, rank, {}));
            WEFT_ASSIGN_OR_RETURN(const auto result, context->OptimizerStep(UpdateWith(0.25, 1)));
            EXPECT_EQ(result.update_count, 1);
            return context->StepEnd();
          }));
    }
  }
}

TEST(OptimizerStep, TakesZerosOfBothSignsAsTheSame) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, Make(std::move(group), WEFT_SHARD_ZERO1, {}));
        WEFT_RETURN_IF_ERROR(Backward(*context, rank, {}));
        WEFT_RETURN_IF_ERROR(context->OptimizerStep(UpdateWith(rank == 0 ? 0.0 : -0.0)).status());
        return context->StepEnd();
      }));
}

}  // namespace
}  // namespace weft::nonfinite_test
