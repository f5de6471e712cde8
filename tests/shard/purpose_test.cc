// Ranks whose reductions look alike and are not the same: of other micro-batches, or of other contexts on the group.
// They are told, and nothing is added that does not belong together.
#include <string>
#include <vector>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/ranks.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr GroupKind kKinds[] = {GroupKind::kLocal, GroupKind::kReference};

absl::StatusOr<std::unique_ptr<Context>> MakeOneUnit(std::shared_ptr<ProcessGroup> group,
                                                     weft_shard_preset_t preset,
                                                     const ContextOptions& options) {
  WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(std::move(group), options));
  WEFT_RETURN_IF_ERROR(
      AddUnitWithParam(*context, "u", {200}, WEFT_FLOAT32, /*frozen=*/false, PlacementOf(preset))
          .status());
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  return context;
}

// A training step of so many micro-batches, without gradients.
absl::Status Step(Context& context, int microbatches) {
  WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
  for (int m = 0; m < microbatches; ++m) {
    WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(m, m + 1 == microbatches));
    WEFT_RETURN_IF_ERROR(context.PreForward(0));
    WEFT_RETURN_IF_ERROR(context.PostForward(0));
    WEFT_RETURN_IF_ERROR(context.PreBackward(0));
    WEFT_RETURN_IF_ERROR(context.PostBackward(0));
    WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
  }
  WEFT_RETURN_IF_ERROR(context.Finish().status());
  return context.StepEnd();
}

// Three steps; rank 1's have another number of micro-batches.
std::vector<absl::Status> RunUnequalSteps(GroupKind kind, weft_shard_accumulation_t accumulation) {
  return RunRanks(kind, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context,
                          MakeOneUnit(group, WEFT_SHARD_NO_SHARD, {.accumulation = accumulation}));
    for (int step = 0; step < 3; ++step)
      WEFT_RETURN_IF_ERROR(Step(*context, rank == 1 ? 1 : 2));
    return absl::OkStatus();
  });
}

void ExpectMismatch(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses)
    EXPECT_EQ(ResultOf(status), WEFT_MISMATCH) << status;
}

TEST(Microbatches, OfAnotherNumberAreAMismatchWhereEachIsReduced) {
  for (const GroupKind kind : kKinds) {
    ExpectMismatch(RunUnequalSteps(kind, WEFT_SHARD_REDUCE_EVERY));
    ExpectAllOk(RunUnequalSteps(kind, WEFT_SHARD_LOCAL_THEN_REDUCE));
  }
}

TEST(Microbatches, OfAnotherNumberAreToldApartInTheSentence) {
  const std::vector<absl::Status> statuses =
      RunUnequalSteps(GroupKind::kLocal, WEFT_SHARD_REDUCE_EVERY);
  const std::string text(statuses[0].message());
  EXPECT_THAT(text, HasSubstr("rank 0 called all_reduce"));
  EXPECT_THAT(text, HasSubstr("rank 1 called all_reduce"));
  EXPECT_THAT(text, HasSubstr("is of another step, micro-batch or context"));
}

TEST(Contexts, OfOneGroupInAnotherOrderAreAMismatch) {
  for (const GroupKind kind : kKinds) {
    for (const weft_shard_preset_t preset : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1}) {
      SCOPED_TRACE(PresetName(preset));
      const auto run = [&](bool same_order) {
        return RunRanks(kind, 2,
                        [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                          WEFT_ASSIGN_OR_RETURN(auto one, MakeOneUnit(group, preset, {}));
                          WEFT_ASSIGN_OR_RETURN(auto other, MakeOneUnit(group, preset, {}));
                          if (rank == 1 && !same_order) std::swap(one, other);
                          WEFT_RETURN_IF_ERROR(Step(*one, 1));
                          return Step(*other, 1);
                        });
      };
      ExpectMismatch(run(/*same_order=*/false));
      ExpectAllOk(run(/*same_order=*/true));
    }
  }
}

}  // namespace
}  // namespace weft
