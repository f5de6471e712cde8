// Params that several units use: one storage, one gradient, whole while any of the units is used.
#include <numeric>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::tied_test {
namespace {

constexpr weft_shard_preset_t kPresets[] = {WEFT_SHARD_NO_SHARD,   WEFT_SHARD_ZERO1,
                                            WEFT_SHARD_ZERO2,      WEFT_SHARD_GRAD_OP,
                                            WEFT_SHARD_FULL_SHARD, WEFT_SHARD_FRACTION};

// embed has the table, head uses it again; both have a param of their own, and so has what is between.
struct Tied {
  int embed = 0;
  int body = 1;
  int head = 2;
  int table = 0;
  std::vector<int64_t> counts = {517, 130, 260};  // of table, body.weight, head.bias
};

absl::Status Declare(Context& context, const Tied& model, weft_shard_preset_t preset) {
  const char* const units[] = {"embed", "body", "head"};
  const char* const params[] = {"table", "body.weight", "head.bias"};
  for (size_t i = 0; i < 3; ++i) {
    WEFT_ASSIGN_OR_RETURN(const int unit, context.BeginUnit(units[i], PlacementOf(preset)));
    WEFT_RETURN_IF_ERROR(
        context.AddParam(unit, params[i], &model.counts[i], 1, WEFT_FLOAT32).status());
    if (unit == model.head) {
      WEFT_RETURN_IF_ERROR(context.TieParam(unit, "head.weight", model.table));
    }
    WEFT_RETURN_IF_ERROR(context.SealUnit(unit));
  }
  return absl::OkStatus();
}

// Small integers: sums are exact.
float Gradient(int step, int rank, int param, int use, size_t element) {
  uint64_t key = Mix(static_cast<uint64_t>(step));
  for (const int part : {rank, param, use})
    key = Mix(key + static_cast<uint64_t>(part));
  return static_cast<float>(Mix(key + element) % 15) - 7;
}

absl::Status Give(Context& context, const Tied& model, int step, int rank, int param, int use) {
  std::vector<float> gradient(static_cast<size_t>(model.counts[static_cast<size_t>(param)]));
  for (size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = Gradient(step, rank, param, use, i);
  return context.GradReady(param, gradient.data());
}

// All values of a whole param are `value`.
absl::Status ExpectWhole(Context& context, int param, float value) {
  WEFT_ASSIGN_OR_RETURN(const ParamView view, context.View(param));
  const auto* const data = static_cast<const float*>(view.data);
  EXPECT_NE(data, nullptr);
  for (size_t i = 0; data != nullptr && i < view.count; ++i) {
    if (data[i] != value) return absl::InternalError(StrCat("param ", param, " at ", i));
  }
  return absl::OkStatus();
}

absl::Status Microbatch(Context& context, const Tied& model, int step, int rank, float weight) {
  for (const int unit : {model.embed, model.body, model.head}) {
    WEFT_RETURN_IF_ERROR(context.PreForward(unit));
    if (unit != model.body) WEFT_RETURN_IF_ERROR(ExpectWhole(context, model.table, weight));
    WEFT_RETURN_IF_ERROR(context.PostForward(unit));
  }
  WEFT_RETURN_IF_ERROR(context.PreBackward(model.head));
  // Recomputing is a use of both as well.
  WEFT_RETURN_IF_ERROR(context.PreForward(model.head));
  WEFT_RETURN_IF_ERROR(context.PostForward(model.head));
  WEFT_RETURN_IF_ERROR(ExpectWhole(context, model.table, weight));
  WEFT_RETURN_IF_ERROR(Give(context, model, step, rank, 2, 0));
  WEFT_RETURN_IF_ERROR(Give(context, model, step, rank, model.table, 0));
  WEFT_RETURN_IF_ERROR(context.PostBackward(model.head));
  WEFT_RETURN_IF_ERROR(context.PreBackward(model.body));
  WEFT_RETURN_IF_ERROR(Give(context, model, step, rank, 1, 0));
  WEFT_RETURN_IF_ERROR(context.PostBackward(model.body));
  WEFT_RETURN_IF_ERROR(context.PreBackward(model.embed));
  WEFT_RETURN_IF_ERROR(ExpectWhole(context, model.table, weight));
  WEFT_RETURN_IF_ERROR(Give(context, model, step, rank, model.table, 1));
  return context.PostBackward(model.embed);
}

absl::Status ExpectGradients(Context& context, const Tied& model, int step, int ranks) {
  for (int param = 0; param < 3; ++param) {
    WEFT_ASSIGN_OR_RETURN(const auto part, context.OwnPart(param));
    const auto& [view, begin] = part;
    const auto* const grad = static_cast<const float*>(view.grad);
    for (size_t i = 0; i < view.count; ++i) {
      float sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        for (int use = 0; use < (param == model.table ? 2 : 1); ++use)
          sum += Gradient(step, rank, param, use, begin + i);
      }
      if (grad[i] != sum) return absl::InternalError(StrCat("gradient ", param, " at ", begin + i));
    }
  }
  return absl::OkStatus();
}

void ExpectTraining(weft_shard_preset_t preset, int ranks, int prefetch) {
  SCOPED_TRACE(StrCat(PresetName(preset), ", ", ranks, " ranks, prefetch ", prefetch));
  const Tied model;
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context,
                          MakeContext(group, {.average = false, .prefetch = prefetch}));
    WEFT_RETURN_IF_ERROR(Declare(*context, model, preset));
    WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, context->Finalize());
    std::vector<float> values(517, 3.0f);
    WEFT_RETURN_IF_ERROR(context->Load(model.table, values.data(), Context::kEveryRank));
    for (int step = 0; step < 4; ++step) {
      WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
      WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
      WEFT_RETURN_IF_ERROR(Microbatch(*context, model, step, rank, 3.0f));
      WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
      WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result, context->Finish());
      // The recomputing is not expected in the first step.
      if (step > 0 && preset != WEFT_SHARD_NO_SHARD) {
        EXPECT_EQ(result.replayed, 1) << step;
      }
      WEFT_RETURN_IF_ERROR(ExpectGradients(*context, model, step, ranks));
      WEFT_RETURN_IF_ERROR(context->StepEnd());
    }
    EXPECT_EQ(context->pool_bytes(), plan.pool_bytes);
    return absl::OkStatus();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, ranks, body));
}

TEST(Tied, GradientsOfAllUsesAreAddedWithEveryPreset) {
  for (const weft_shard_preset_t preset : kPresets) {
    for (const int ranks : {1, 2, 3}) {
      for (const int prefetch : {0, 1, 4})
        ExpectTraining(preset, ranks, prefetch);
    }
  }
}

// What is legal for a unit is legal for those it is tied to, or nothing happens.
TEST(Tied, AnIllegalCallChangesNothing) {
  const Tied model;
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, {.average = false}));
    WEFT_RETURN_IF_ERROR(Declare(*context, model, WEFT_SHARD_FULL_SHARD));
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
    EXPECT_EQ(ResultOf(context->View(model.table).status()), WEFT_BAD_STATE);
    WEFT_RETURN_IF_ERROR(context->PreForward(model.head));
    WEFT_RETURN_IF_ERROR(context->View(model.table).status());
    EXPECT_EQ(ResultOf(context->PreBackward(model.head)), WEFT_BAD_STATE);
    WEFT_RETURN_IF_ERROR(context->PostForward(model.head));
    EXPECT_EQ(ResultOf(context->PostForward(model.head)), WEFT_BAD_STATE);
    WEFT_RETURN_IF_ERROR(context->PreBackward(model.embed));
    const absl::Status both = context->PreBackward(model.head);
    EXPECT_EQ(ResultOf(both), WEFT_BAD_STATE);
    EXPECT_NE(both.message().find("unit embed is in backward"), absl::string_view::npos) << both;
    WEFT_RETURN_IF_ERROR(context->PostBackward(model.embed));
    WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
    WEFT_RETURN_IF_ERROR(context->Finish().status());
    WEFT_RETURN_IF_ERROR(context->StepEnd());
    // And it goes on.
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 1));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
    WEFT_RETURN_IF_ERROR(Microbatch(*context, model, 9, rank, 0.0f));
    WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
    WEFT_RETURN_IF_ERROR(context->Finish().status());
    return ExpectGradients(*context, model, 9, group->size());
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
}

TEST(Tied, DeclarationsAreCheckedAndCompared) {
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
    const int64_t count = 5;
    WEFT_ASSIGN_OR_RETURN(const int first, context->BeginUnit("first"));
    WEFT_RETURN_IF_ERROR(context->AddParam(first, "a", &count, 1, WEFT_FLOAT32).status());
    WEFT_RETURN_IF_ERROR(context->AddParam(first, "b", &count, 1, WEFT_FLOAT32).status());
    EXPECT_EQ(ResultOf(context->TieParam(first, "c", 0)), WEFT_INVALID_ARGUMENT);
    WEFT_RETURN_IF_ERROR(context->SealUnit(first));
    WEFT_ASSIGN_OR_RETURN(const int second, context->BeginUnit("second"));
    EXPECT_EQ(ResultOf(context->TieParam(second, "", 0)), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(ResultOf(context->TieParam(second, "b", 0)), WEFT_INVALID_ARGUMENT);
    WEFT_RETURN_IF_ERROR(context->TieParam(second, "c", rank == 1 ? 1 : 0));
    WEFT_RETURN_IF_ERROR(context->SealUnit(second));
    EXPECT_EQ(ResultOf(context->TieParam(second, "d", 0)), WEFT_BAD_STATE);
    return context->Finalize().status();
  };
  for (const absl::Status& status : RunRanks(GroupKind::kLocal, 2, body)) {
    EXPECT_EQ(ResultOf(status), WEFT_MISMATCH);
    EXPECT_NE(status.message().find("parameter c: rank 1 has of unit second, is b, rank 0 has of "
                                    "unit second, is a"),
              absl::string_view::npos)
        << status;
  }
}

}  // namespace
}  // namespace weft::tied_test
