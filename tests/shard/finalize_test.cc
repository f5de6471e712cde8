// Finalize: what ranks must agree on, how a difference is named, and the plan.
#include <cstring>
#include <functional>
#include <string>

#include "base/status.h"
#include "base/text.h"
#include "comm/node/heap.h"
#include "gmock/gmock.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::finalize_test {
namespace {

using testing::HasSubstr;

constexpr GroupKind kBothKinds[] = {GroupKind::kLocal, GroupKind::kReference};

using Declarer = std::function<absl::Status(Context&, int rank)>;

// Every rank declares and finalizes; returns what finalize said, by rank.
std::vector<absl::Status> FinalizeOn(GroupKind kind, int size, const Declarer& declare,
                                     const std::function<ContextOptions(int)>& options = {}) {
  return RunRanks(kind, size, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context,
                          MakeContext(group, options ? options(rank) : ContextOptions()));
    const absl::Status declared = declare(*context, rank);
    EXPECT_TRUE(declared.ok()) << declared;
    return context->Finalize().status();
  });
}

// Finalize fails on every rank with the same sentence, blaming `rank`.
void ExpectMismatch(int size, const Declarer& declare, int rank, const std::string& text,
                    const std::function<ContextOptions(int)>& options = {}) {
  for (const GroupKind kind : kBothKinds) {
    SCOPED_TRACE(GroupKindName(kind));
    for (const absl::Status& status : FinalizeOn(kind, size, declare, options)) {
      EXPECT_EQ(ResultOf(status), WEFT_MISMATCH) << status;
      EXPECT_EQ(FieldsOf(status).rank, rank);
      EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    }
  }
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

TEST(Finalize, NamesAParamOfAnotherShape) {
  ExpectMismatch(
      3,
      [](Context& context, int rank) -> absl::Status {
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(context, "embed", {8, 8}).status());
        return AddUnitWithParam(context, "blocks.3.attn", {384, rank == 2 ? 1152 : 384}).status();
      },
      2,
      "parameter blocks.3.attn.weight: rank 2 has shape [384, 1152] float32, rank 0 has shape "
      "[384, 384] float32");
}

TEST(Finalize, NamesAParamThatIsAnotherIntervalOfATensor) {
  ExpectMismatch(
      3,
      [](Context& context, int rank) -> absl::Status {
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(context, "a", {4, 3}).status());
        const int64_t whole[] = {8, 3};
        return context.builder().SetParamGlobal(0, "w", whole, 2, rank == 1 ? 12 : 0);
      },
      1,
      "parameter a.weight: rank 1 has shape [4, 3] float32 from element 12 of w [8, 3], rank 0 has "
      "shape [4, 3] float32 from element 0 of w [8, 3]");
}

TEST(Finalize, RefusesParamsThatAreTheSameElementsOfATensor) {
  for (const GroupKind kind : kBothKinds) {
    for (const absl::Status& status : FinalizeOn(kind, 3, [](Context&context, int) -> absl::Status {
           const int64_t whole[] = {8, 3};
           WEFT_RETURN_IF_ERROR(AddUnitWithParam(context, "a", {4, 3}).status());
           WEFT_RETURN_IF_ERROR(AddUnitWithParam(context, "b", {4, 3}).status());
           WEFT_RETURN_IF_ERROR(context.builder().SetParamGlobal(0, "w", whole, 2, 0));
           return context.builder().SetParamGlobal(1, "w", whole, 2, 11);
         })) {
      EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("parameter a.weight is elements 0 to 11 and parameter b.weight is "
                            "elements 11 to 22"));
    }
  }
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

TEST(Finalize, NamesRankZeroIfItIsTheOutlier) {
  ExpectMismatch(
      3,
      [](Context& context, int rank) {
        return AddUnitWithParam(context, "a", {rank == 0 ? 3 : 2}).status();
      },
      0, "parameter a.weight: rank 0 has shape [3] float32, rank 1 has shape [2] float32;");
}

TEST(Finalize, NamesAllOutliers) {
  ExpectMismatch(
      5,
      [](Context& context, int rank) {
        return AddUnitWithParam(context, "a", {rank % 3 == 0 ? 3 : 2}).status();
      },
      0,
      "rank 0 has shape [3] float32, rank 1 has shape [2] float32 (ranks 0, 3 differ from ranks 1, "
      "2, 4); every rank");
}

TEST(Finalize, NamesAParamOfAnotherType) {
  ExpectMismatch(
      2,
      [](Context& context, int rank) {
        return AddUnitWithParam(context, "a", {2}, rank == 1 ? WEFT_BFLOAT16 : WEFT_FLOAT32)
            .status();
      },
      1, "parameter a.weight: rank 1 has shape [2] bfloat16, rank 0 has shape [2] float32");
}

TEST(Finalize, NamesAParamThatIsFrozenSomewhere) {
  ExpectMismatch(
      2,
      [](Context& context, int rank) {
        return AddUnitWithParam(context, "a", {2}, WEFT_FLOAT32, rank == 0).status();
      },
      1, "rank 1 has shape [2] float32, rank 0 has shape [2] float32 frozen");
}

TEST(Finalize, NamesUnitsInAnotherOrder) {
  ExpectMismatch(
      4,
      [](Context& context, int rank) -> absl::Status {
        const bool swap = rank == 1 || rank == 3;
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(context, swap ? "b" : "a", {2}).status());
        return AddUnitWithParam(context, swap ? "a" : "b", {2}).status();
      },
      1,
      "declaration 1: rank 1 has unit b preset NO_SHARD, rank 0 has unit a preset NO_SHARD (ranks "
      "0, 2 and ranks 1, 3 differ)");
}

TEST(Finalize, NamesARankThatDeclaresLess) {
  ExpectMismatch(
      2,
      [](Context& context, int rank) -> absl::Status {
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(context, "a", {2}).status());
        return rank == 1 ? absl::OkStatus() : AddUnitWithParam(context, "b", {2}).status();
      },
      1, "rank 1 has nothing more, rank 0 has unit b");
}

TEST(Finalize, NamesAnotherConfig) {
  ExpectMismatch(
      2, [](Context& context, int) { return AddUnitWithParam(context, "a", {2}).status(); }, 1,
      "the context's config: rank 1 has bucket_bytes 99",
      [](int rank) {
        ContextOptions options;
        if (rank == 1) options.limits.bucket_bytes = 99;
        return options;
      });
}

TEST(Finalize, LetsOverlapDifferBetweenRanks) {
  const std::vector<ModelParam> model = SmallModel();
  const Scenario scenario{.ranks = 3};
  const std::vector<Elements> expected = ExpectedGradients(model, scenario, 0);
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, {.overlap = rank == 1}));
        WEFT_RETURN_IF_ERROR(Declare(*context, model));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, rank, 0).status());
        WEFT_ASSIGN_OR_RETURN(const auto gradients, ReadGradients(*context, model));
        EXPECT_EQ(gradients, expected);
        return context->StepEnd();
      }));
}

TEST(Finalize, SaysWhatThereWasNoMemoryFor) {
  const std::vector<absl::Status> statuses =
      FinalizeOn(GroupKind::kReference, 2, [](Context& context, int) {
        return AddUnitWithParam(context, "a", {int64_t{1} << 55}).status();
      });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(ResultOf(status), WEFT_OUT_OF_MEMORY) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("float32 parameters"));
  }
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

TEST(Finalize, IsRefusedTwiceAndWithAnOpenUnit) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_ASSIGN_OR_RETURN(const int unit, context->BeginUnit("a"));
        EXPECT_EQ(ResultOf(context->Finalize().status()), WEFT_BAD_STATE);
        WEFT_RETURN_IF_ERROR(context->SealUnit(unit));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        EXPECT_EQ(ResultOf(context->Finalize().status()), WEFT_BAD_STATE);
        EXPECT_EQ(ResultOf(context->BeginUnit("b").status()), WEFT_BAD_STATE);
        EXPECT_EQ(ResultOf(context->SealUnit(unit)), WEFT_BAD_STATE);
        return context->Verify();
      }));
}

TEST(Finalize, IsNeededBeforeEverythingElse) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 1, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_ASSIGN_OR_RETURN(const int param, AddUnitWithParam(*context, "a", {2}));
        for (const absl::Status& status :
             {context->View(param).status(), context->Broadcast(0), context->Verify(),
              context->StepBegin(WEFT_SHARD_TRAIN, 0), context->MicrobatchBegin(0, true),
              context->PreForward(0), context->PostForward(0), context->PreBackward(0),
              context->GradReady(param, nullptr), context->PostBackward(0),
              context->MicrobatchEnd(), context->Finish().status(), context->StepEnd()}) {
          EXPECT_EQ(ResultOf(status), WEFT_BAD_STATE) << status;
          EXPECT_THAT(std::string(status.message()), HasSubstr("not finalized"));
        }
        return context->Finalize().status();
      }));
}

TEST(Finalize, ReportsItsPlan) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        for (const bool every : {false, true}) {
          WEFT_ASSIGN_OR_RETURN(
              auto context,
              MakeContext(group, {.limits = {.bucket_bytes = 64, .first_bucket_bytes = 64},
                                  .accumulation = every ? WEFT_SHARD_REDUCE_EVERY
                                                        : WEFT_SHARD_LOCAL_THEN_REDUCE}));
          WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "a", {20}).status());
          WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "b", {3}, WEFT_BFLOAT16).status());
          WEFT_RETURN_IF_ERROR(
              AddUnitWithParam(*context, "c", {5}, WEFT_FLOAT64, /*frozen=*/true).status());
          WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, context->Finalize());
          EXPECT_EQ(plan.unit_count, 3u);
          EXPECT_EQ(plan.param_count, 3u);
          EXPECT_EQ(plan.bucket_count, 2u);
          EXPECT_EQ(plan.element_count, 28u);
          EXPECT_EQ(plan.param_bytes, 512u + 256 + 1024);
          EXPECT_EQ(plan.grad_bytes, (512u + 256) * (every ? 2 : 1));
          EXPECT_EQ(plan.padding_bytes, 432u + 250 + 984 + (432 + 250) * (every ? 2 : 1));
          EXPECT_EQ(plan.traffic_bytes, 512u + 256);
        }
        return absl::OkStatus();
      }));
}

TEST(Finalize, NamesTheRankWhoseMeshHasOtherAxes) {
  const std::vector<absl::Status> statuses = RunRanks(
      GroupKind::kLocal, 8, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        const std::vector<int> axes = rank == 2 ? std::vector<int>{2, 4} : std::vector<int>{4, 2};
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, {}, axes));
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "u", {100}).status());
        return context->Finalize().status();
      });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(ResultOf(status), WEFT_MISMATCH) << status;
    EXPECT_EQ(FieldsOf(status).rank, 2);
    EXPECT_THAT(std::string(status.message()), HasSubstr("2 ranks along axis0"));
  }
}

}  // namespace
}  // namespace weft::finalize_test
