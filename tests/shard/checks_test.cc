// What finds training that goes wrong quietly: equal samples, and what ranks keep and take.
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::checks_test {
namespace {

using testing::HasSubstr;

constexpr GroupKind kBothKinds[] = {GroupKind::kLocal, GroupKind::kReference};
constexpr weft_shard_preset_t kPresets[] = {
    WEFT_SHARD_NO_SHARD,   WEFT_SHARD_ZERO1,        WEFT_SHARD_ZERO2, WEFT_SHARD_GRAD_OP,
    WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_HPZ,   WEFT_SHARD_FRACTION};

// The small model without trainable float64.
std::vector<ModelParam> Model() {
  std::vector<ModelParam> model = SmallModel();
  for (ModelParam& param : model) {
    if (param.dtype == WEFT_FLOAT64) param.dtype = WEFT_FLOAT32;
  }
  model.push_back({"tail", "tail.frozen", {59, 43}, WEFT_FLOAT32, true});
  return model;
}

// Each rank's samples as text; what every rank is told, "" for nothing.
void ExpectSamples(const std::vector<std::string>& samples, const std::string& text) {
  for (const GroupKind kind : kBothKinds) {
    SCOPED_TRACE(StrCat(GroupKindName(kind), ": ", text));
    ExpectAllOk(
        RunRanks(kind, static_cast<int>(samples.size()),
                 [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                   WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
                   WEFT_RETURN_IF_ERROR(context->Finalize().status());
                   const std::string& own = samples[static_cast<size_t>(rank)];
                   absl::Status found =
                       context->CheckSamples(own.empty() ? nullptr : own.data(), own.size());
                   if (text.empty()) return found;
                   EXPECT_EQ(ResultOf(found), WEFT_MISMATCH);
                   EXPECT_EQ(std::string(found.message()),
                             StrCat("check_samples on group ", group->name(), ": ", text,
                                    "; does each rank read its own part of the data?"));
                   return context->CheckSamples(&rank, sizeof(rank));  // the context stays usable
                 }));
  }
}

TEST(CheckSamples, NamesTheRanksThatHaveTheSame) {
  ExpectSamples({"a"}, "");
  ExpectSamples({"a", "b", "ab", "c"}, "");
  ExpectSamples({"a", "a"}, "ranks 0, 1 were given the same samples");
  ExpectSamples({"a", "b", "c", "b"}, "ranks 1, 3 were given the same samples");
  ExpectSamples({"a", "b", "c", "b", "a", "b"},
                "ranks 1, 3, 5 were given the same samples, and so were ranks 0, 4");
}

TEST(CheckSamples, LeavesOutRanksWithoutSamples) {
  ExpectSamples({"", "a", "", "b"}, "");
  ExpectSamples({"", "a", "", "a"}, "ranks 1, 3 were given the same samples");
}

// Wherever a training loop has a batch in its hands and no unit is in use, whatever is being reduced.
TEST(CheckSamples, MayBeCalledOutsideOfTheUseOfUnits) {
  for (const weft_shard_preset_t preset : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_FULL_SHARD}) {
    for (const auto accumulation : {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY}) {
      for (const GroupKind kind : kGroupKinds) {
        SCOPED_TRACE(StrCat(PresetName(preset), ", ", GroupKindName(kind)));
        ExpectAllOk(
            RunRanks(kind, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
              WEFT_ASSIGN_OR_RETURN(auto context,
                                    MakeContext(group, {.limits = {.bucket_bytes = 64},
                                                        .accumulation = accumulation}));
              const std::vector<ModelParam> model = SmallModel();
              WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(preset)));
              WEFT_RETURN_IF_ERROR(context->Finalize().status());
              const auto check = [&] {
                return context->CheckSamples(&rank, sizeof(rank));
              };
              const int units = UnitsOf(model).back() + 1;
              for (int step = 0; step < 2; ++step) {
                WEFT_RETURN_IF_ERROR(check());
                WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
                for (int microbatch = 0; microbatch < 2; ++microbatch) {
                  WEFT_RETURN_IF_ERROR(check());
                  WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(microbatch, microbatch == 1));
                  WEFT_RETURN_IF_ERROR(check());
                  for (int unit = 0; unit < units; ++unit) {
                    WEFT_RETURN_IF_ERROR(context->PreForward(unit));
                    EXPECT_EQ(ResultOf(check()), WEFT_BAD_STATE);
                    WEFT_RETURN_IF_ERROR(context->PostForward(unit));
                    EXPECT_EQ(ResultOf(check()), WEFT_BAD_STATE);
                  }
                  for (int unit = units - 1; unit >= 0; --unit) {
                    WEFT_RETURN_IF_ERROR(context->PreBackward(unit));
                    EXPECT_EQ(ResultOf(check()), WEFT_BAD_STATE);
                    WEFT_RETURN_IF_ERROR(context->PostBackward(unit));
                    EXPECT_EQ(ResultOf(check()), WEFT_BAD_STATE);
                  }
                  WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
                }
                WEFT_RETURN_IF_ERROR(check());
                WEFT_RETURN_IF_ERROR(context->Finish().status());
                WEFT_RETURN_IF_ERROR(check());
                WEFT_RETURN_IF_ERROR(context->StepEnd());
              }
              return check();
            }));
      }
    }
  }
}

TEST(CheckSamples, SaysWhereItIsLegal) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 1, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "a", {3}).status());
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
        WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
        WEFT_RETURN_IF_ERROR(context->PreForward(0));
        EXPECT_THAT(std::string(context->CheckSamples("b", 1).message()),
                    HasSubstr("unit a is in forward (the context is in micro-batch 0 of step 1); "
                              "call it before the micro-batch uses its first unit"));
        return absl::OkStatus();
      }));
}

using Reports = std::vector<weft_shard_rank_report_t>;

TEST(Report, SaysWhatEveryRankKeeps) {
  for (const weft_shard_preset_t preset : kPresets) {
    SCOPED_TRACE(PresetName(preset));
    const bool two_axes = preset == WEFT_SHARD_HYBRID_SHARD || preset == WEFT_SHARD_HPZ;
    const int ranks = two_axes ? 4 : 3;
    const auto times = static_cast<uint64_t>(ranks);
    std::vector<weft_shard_plan_t> plans(4);
    std::vector<Reports> reports(4);
    uint64_t elements = 0;
    ExpectAllOk(
        RunRanks(GroupKind::kLocal, ranks,
                 [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                   const auto at = static_cast<size_t>(rank);
                   WEFT_ASSIGN_OR_RETURN(
                       auto context,
                       MakeContext(group, {}, two_axes ? std::vector{2, 2} : std::vector<int>{}));
                   WEFT_RETURN_IF_ERROR(context->SetOptimizer({}));
                   WEFT_RETURN_IF_ERROR(Declare(*context, Model(), PlacementOf(preset)));
                   WEFT_ASSIGN_OR_RETURN(plans[at], context->Finalize());
                   WEFT_ASSIGN_OR_RETURN(reports[at], context->Report());
                   return absl::OkStatus();
                 }));
    for (int rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<size_t>(rank);
      const weft_shard_rank_report_t& report = reports[0][at];
      EXPECT_EQ(report.param_bytes, plans[at].param_bytes);
      EXPECT_EQ(report.grad_bytes, plans[at].grad_bytes);
      EXPECT_EQ(report.optimizer_bytes, plans[at].optimizer_bytes);
      EXPECT_EQ(report.pool_bytes, plans[at].pool_bytes);
      EXPECT_EQ(report.step_count, 0);
      EXPECT_EQ(report.busy_ns, 0);
      EXPECT_EQ(std::memcmp(reports[at].data(), reports[0].data(), sizeof(report) * times), 0);
      elements += report.element_count;
    }
    uint64_t frozen = 0;  // rest whole until params are cut
    for (const ModelParam& param : Model())
      if (param.frozen) frozen += param.count();
    const uint64_t all = plans[0].element_count;
    if (preset == WEFT_SHARD_NO_SHARD) {
      EXPECT_EQ(elements, times * all);
    } else if (preset <= WEFT_SHARD_ZERO2) {
      EXPECT_EQ(elements, all + (times - 1) * frozen);
    } else {
      EXPECT_EQ(elements, preset == WEFT_SHARD_HYBRID_SHARD ? 2 * all : all);
    }
  }
}

constexpr int64_t kSleepNs = 30'000'000;
constexpr int kSteps = 2;

// A sleeping rank is busy at least as long as it sleeps; the others wait, which does not count.
TEST(Report, SaysWhoWasBusySinceTheReportBefore) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 3, [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_ASSIGN_OR_RETURN(const int param, AddUnitWithParam(*context, "a", {300}));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        for (int step = 0; step < kSteps; ++step) {
          WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
          WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
          WEFT_RETURN_IF_ERROR(context->PreForward(0));
          if (rank == 1) std::this_thread::sleep_for(std::chrono::nanoseconds(kSleepNs));
          WEFT_RETURN_IF_ERROR(context->PostForward(0));
          WEFT_RETURN_IF_ERROR(context->PreBackward(0));
          WEFT_RETURN_IF_ERROR(context->GradReady(param, nullptr));
          WEFT_RETURN_IF_ERROR(context->PostBackward(0));
          WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
          WEFT_RETURN_IF_ERROR(context->Finish().status());
          if (step + 1 < kSteps) WEFT_RETURN_IF_ERROR(context->StepEnd());
        }
        WEFT_ASSIGN_OR_RETURN(const Reports reports, context->Report());
        EXPECT_GE(reports[1].busy_ns, kSleepNs);
        EXPECT_GT(reports[0].busy_ns, 0);
        EXPECT_EQ(reports[2].step_count, kSteps);
        WEFT_RETURN_IF_ERROR(context->StepEnd());
        WEFT_ASSIGN_OR_RETURN(const Reports none, context->Report());
        EXPECT_EQ(none[1].busy_ns, 0);
        EXPECT_EQ(none[1].step_count, kSteps);
        return absl::OkStatus();
      }));
}

TEST(Report, IsRefusedInTheMiddleOfAStep) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_EVAL, 0));
        EXPECT_EQ(ResultOf(context->Report().status()), WEFT_BAD_STATE);
        WEFT_RETURN_IF_ERROR(context->StepEnd());
        return context->Report().status();
      }));
}

}  // namespace
}  // namespace weft::checks_test
