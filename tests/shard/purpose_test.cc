// Ranks whose collectives look alike and are for different things: reductions of other micro-batches or other contexts
// on the group, params that are loaded or read in other orders. They are told, in names, and nothing is added or stored
// that does not belong together.
#include <string>
#include <vector>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/ranks.h"

namespace weft::purpose_test {
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
  EXPECT_THAT(
      text,
      HasSubstr(
          "rank 0 called all_reduce (avg) of 256 float32 to reduce the gradients of unit u (step "
          "1, micro-batch 1)"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "rank 1 called all_reduce (avg) of 256 float32 to reduce the gradients of unit u (step "
          "2, micro-batch 0)"));
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

TEST(Contexts, AreToldApartInTheSentence) {
  const std::vector<absl::Status> statuses = RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto one, MakeOneUnit(group, WEFT_SHARD_NO_SHARD, {}));
        WEFT_ASSIGN_OR_RETURN(auto other, MakeOneUnit(group, WEFT_SHARD_NO_SHARD, {}));
        return Step(rank == 0 ? *one : *other, 1);
      });
  ExpectMismatch(statuses);
  const std::string text(statuses[0].message());
  EXPECT_THAT(text, HasSubstr("to reduce the gradients of unit u (step 1, micro-batch 0)"));
  EXPECT_THAT(text, HasSubstr("to reduce the gradients of bucket 0 of shard context "));
}

// ---- params ----------------------------------------------------------------------------------------

constexpr weft_shard_preset_t kPresets[] = {
    WEFT_SHARD_NO_SHARD,   WEFT_SHARD_ZERO1,        WEFT_SHARD_ZERO2, WEFT_SHARD_GRAD_OP,
    WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_HPZ,   WEFT_SHARD_FRACTION};

constexpr int kRanks = 4;
constexpr size_t kCount = 1000;

// Units a, b and c of one param each, all of one size.
absl::StatusOr<std::unique_ptr<Context>> MakeThreeUnits(std::shared_ptr<ProcessGroup> group,
                                                        weft_shard_preset_t preset) {
  const bool two_axes = preset == WEFT_SHARD_HYBRID_SHARD || preset == WEFT_SHARD_HPZ;
  // Without prefetch gathers are those of the calls.
  WEFT_ASSIGN_OR_RETURN(
      auto context, MakeContext(std::move(group), {.prefetch = 0},
                                two_axes ? std::vector<int>{2, kRanks / 2} : std::vector<int>{}));
  for (const char* const name : {"a", "b", "c"}) {
    WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, name, {static_cast<int64_t>(kCount)},
                                          WEFT_FLOAT32, /*frozen=*/false, PlacementOf(preset))
                             .status());
  }
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  return context;
}

// What this rank keeps of a param.
std::vector<float> OwnValues(Context& context, int param) {
  const auto part = context.OwnPart(param);
  if (!part.ok()) return {};
  const auto* const values = static_cast<const float*>(part->first.data);
  return {values, values + part->first.count};
}

void ExpectZeros(Context& context, int param) {
  for (const float value : OwnValues(context, param))
    ASSERT_EQ(value, 0.0f) << "param " << param << " has what belongs to another";
}

using Calls = std::function<absl::Status(Context& context, int rank)>;

void ExpectMismatchNames(const Calls& calls, const std::vector<std::string>& names,
                         const std::vector<weft_shard_preset_t>& presets) {
  for (const weft_shard_preset_t preset : presets) {
    SCOPED_TRACE(PresetName(preset));
    const std::vector<absl::Status> statuses =
        RunRanks(GroupKind::kLocal, kRanks,
                 [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                   WEFT_ASSIGN_OR_RETURN(auto context, MakeThreeUnits(group, preset));
                   const absl::Status status = calls(*context, rank);
                   for (const int param : {0, 1, 2})
                     ExpectZeros(*context, param);
                   return status;
                 });
    ExpectMismatch(statuses);
    for (const absl::Status& status : statuses) {
      for (const std::string& name : names)
        EXPECT_THAT(std::string(status.message()), HasSubstr(name));
    }
  }
}

const std::vector<weft_shard_preset_t> kAllPresets(std::begin(kPresets), std::end(kPresets));

TEST(ParamLoad, InAnotherOrderIsAMismatchThatNamesBothParams) {
  const std::vector<float> values(kCount, 5);
  ExpectMismatchNames(
      [&](Context& context, int rank) -> absl::Status {
        const int first = rank == 1 ? 1 : 0;
        WEFT_RETURN_IF_ERROR(context.Load(first, values.data(), 0));
        return context.Load(1 - first, values.data(), 0);
      },
      {"rank 1 called broadcast of 1000 float32 from root 0 to load parameter b.weight",
       "ranks 0, 2, 3 called broadcast of 1000 float32 from root 0 to load parameter a.weight"},
      kAllPresets);
}

// The root's own argument check refuses one param; its peers are told when it goes on to the next.
TEST(ParamLoad, ThatTheRootSkipsIsAMismatchThatNamesBothParams) {
  const std::vector<float> values(kCount, 5);
  ExpectMismatchNames(
      [&](Context& context, int rank) -> absl::Status {
        const bool root = rank == 0;
        const absl::Status first = context.Load(0, nullptr, 0);
        EXPECT_EQ(ResultOf(first), root ? WEFT_INVALID_ARGUMENT : WEFT_MISMATCH) << first;
        return context.Load(1, root ? values.data() : nullptr, 0);
      },
      {"to load parameter a.weight", "to load parameter b.weight"}, kAllPresets);
}

TEST(ParamLoad, OfEveryRankInAnotherOrderIsAMismatchThatNamesBothParams) {
  const std::vector<absl::Status> statuses = RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeOneUnit(group, WEFT_SHARD_NO_SHARD, {}));
        const std::vector<float> values(200, 5);
        return rank == 0 ? context->Load(0, values.data(), Context::kEveryRank) : context->Verify();
      });
  ExpectMismatch(statuses);
  EXPECT_THAT(std::string(statuses[0].message()), HasSubstr("to load parameter u.weight"));
  EXPECT_THAT(std::string(statuses[0].message()), HasSubstr("to compare copies of parameters"));
}

TEST(ParamRead, InAnotherOrderIsAMismatchThatNamesBothParams) {
  ExpectMismatchNames(
      [&](Context& context, int rank) -> absl::Status {
        std::vector<float> values(kCount);
        return context.Read(rank == 2 ? 2 : 0, values.data());
      },
      {"to read parameter a.weight",
       "rank 2 called all_gather_v of 1000 float32 to read parameter c.weight"},
      {WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD, WEFT_SHARD_FRACTION, WEFT_SHARD_HPZ});
}

TEST(Gathers, OfAnotherUnitAreAMismatchThatNamesBothUnits) {
  ExpectMismatchNames(
      [&](Context& context, int rank) -> absl::Status {
        // A step that nothing is known of is served on demand.
        WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_EVAL, 7));
        WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
        for (const int unit : {rank == 3 ? 2 : 1, 0}) {
          WEFT_RETURN_IF_ERROR(context.PreForward(unit));
          WEFT_RETURN_IF_ERROR(context.PostForward(unit));
        }
        return absl::OkStatus();
      },
      {" called all_gather_v of 1024 float32 to gather unit b",
       "rank 3 of group local) called all_gather_v of 1024 float32 to gather unit c"},
      {WEFT_SHARD_FULL_SHARD});
}

TEST(Purpose, SurvivesItsRecord) {
  const Purpose purpose{.kind = Purpose::Kind::kReduce,
                        .context = 5,
                        .subject = 70000,
                        .step = 123456,
                        .microbatch = 4000};
  const Purpose read = UnpackPurpose(PackPurpose(purpose));
  EXPECT_EQ(read.kind, purpose.kind);
  EXPECT_EQ(read.context, purpose.context);
  EXPECT_EQ(read.subject, purpose.subject);
  EXPECT_EQ(read.step, purpose.step);
  EXPECT_EQ(read.microbatch, purpose.microbatch);
  EXPECT_EQ(PurposeText(read, nullptr),
            "to reduce the gradients of bucket 70000 of shard context 5 (step 123456, micro-batch "
            "4000)");
  EXPECT_EQ(UnpackPurpose(~uint64_t{0}).kind, Purpose::Kind::kNone) << "from another version";
  EXPECT_EQ(PackPurpose({}), 0u);
}

}  // namespace
}  // namespace weft::purpose_test
