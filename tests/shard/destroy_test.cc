// A context that is destroyed in the middle of a step releases the other ranks; one that is destroyed at another time
// leaves them and the group alone.
#include <functional>
#include <future>
#include <string>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "comm/node/heap.h"
#include "gmock/gmock.h"
#include "tests/shard/ranks.h"

namespace weft::destroy_test {
namespace {

using testing::HasSubstr;

// Three units, gathered or not as the preset says.
absl::StatusOr<std::unique_ptr<Context>> MakeUnits(std::shared_ptr<ProcessGroup> group,
                                                   weft_shard_preset_t preset,
                                                   const std::vector<int>& axes = {}) {
  WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(std::move(group), {}, axes));
  for (int i = 0; i < 3; ++i) {
    WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, std::string(1, 'a' + i), {1000}, WEFT_FLOAT32,
                                          /*frozen=*/false, PlacementOf(preset))
                             .status());
  }
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  return context;
}

absl::Status Forward(Context& context, int unit) {
  WEFT_RETURN_IF_ERROR(context.PreForward(unit));
  return context.PostForward(unit);
}

absl::Status Backward(Context& context, int unit) {
  WEFT_RETURN_IF_ERROR(context.PreBackward(unit));
  WEFT_RETURN_IF_ERROR(context.GradReady(unit, nullptr));
  return context.PostBackward(unit);
}

absl::Status Microbatch(Context& context, int index, bool last) {
  WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(index, last));
  for (const int unit : {0, 1, 2})
    WEFT_RETURN_IF_ERROR(Forward(context, unit));
  for (const int unit : {2, 1, 0})
    WEFT_RETURN_IF_ERROR(Backward(context, unit));
  return context.MicrobatchEnd();
}

absl::Status Step(Context& context) {
  WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
  WEFT_RETURN_IF_ERROR(Microbatch(context, 0, false));
  WEFT_RETURN_IF_ERROR(Microbatch(context, 1, true));
  WEFT_RETURN_IF_ERROR(context.Finish().status());
  return context.StepEnd();
}

// Where in a step a rank destroys its context.
struct Moment {
  const char* name;
  bool meets;  // where params are sharded, the calls before it wait for the other ranks
  std::function<absl::Status(Context& context)> calls_before;
};

const Moment kMoments[] = {
    {"after step_begin", false,
     [](Context& context) {
       return context.StepBegin(WEFT_SHARD_TRAIN, 0);
     }},
    {"with a gather under way", false,
     [](Context& context) -> absl::Status {
       WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
       WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, false));
       return context.UnshardStart(0);
     }},
    {"in forward", true,
     [](Context& context) -> absl::Status {
       WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
       WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, false));
       return context.PreForward(0);
     }},
    {"between micro-batches", true,
     [](Context& context) -> absl::Status {
       WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
       return Microbatch(context, 0, false);
     }},
    {"before finish", true,
     [](Context& context) -> absl::Status {
       WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
       WEFT_RETURN_IF_ERROR(Microbatch(context, 0, false));
       return Microbatch(context, 1, true);
     }},
};

struct Case {
  weft_shard_preset_t preset;
  int ranks;
  std::vector<int> axes;
};

const Case kCases[] = {
    {WEFT_SHARD_NO_SHARD, 2, {}},   {WEFT_SHARD_NO_SHARD, 3, {}},
    {WEFT_SHARD_ZERO2, 3, {}},      {WEFT_SHARD_FULL_SHARD, 2, {}},
    {WEFT_SHARD_FULL_SHARD, 3, {}}, {WEFT_SHARD_HYBRID_SHARD, 4, {2, 2}},
    {WEFT_SHARD_HPZ, 4, {2, 2}},
};

// The last rank leaves in its second step; all others make the calls of whole steps. The groups' deadline is 60 s, which a
// test that hangs would show.
TEST(DestroyInAStep, ReleasesTheOthersWhereverItHappens) {
  for (const Case& one : kCases) {
    for (const Moment& moment : kMoments) {
      for (const bool late : {false, true}) {
        if (late && moment.meets && one.preset != WEFT_SHARD_NO_SHARD) continue;
        SCOPED_TRACE(StrCat(PresetName(one.preset), ", ", one.ranks, " ranks, ", moment.name,
                            late ? ", before the others come" : ""));
        const int leaver = one.ranks - 1;
        std::promise<void> gone;
        const std::shared_future<void> has_gone = gone.get_future().share();
        const std::vector<absl::Status> statuses =
            RunRanks(GroupKind::kLocal, one.ranks,
                     [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                       WEFT_ASSIGN_OR_RETURN(auto context, MakeUnits(group, one.preset, one.axes));
                       WEFT_RETURN_IF_ERROR(Step(*context));
                       if (rank == leaver) {
                         const absl::Status before = moment.calls_before(*context);
                         context.reset();
                         gone.set_value();
                         return before;
                       }
                       if (late) has_gone.wait();
                       absl::Status failed = Step(*context);
                       if (!failed.ok()) {
                         EXPECT_EQ(ResultOf(context->StepBegin(WEFT_SHARD_TRAIN, 0)), WEFT_ABORTED);
                         return failed;
                       }
                       // The leaver had done its part of the step. The next call on the group tells.
                       has_gone.wait();
                       return group->Run({.kind = OpKind::kBarrier});
                     });
        for (int rank = 0; rank < one.ranks; ++rank) {
          const absl::Status& status = statuses[static_cast<size_t>(rank)];
          if (rank == leaver) {
            EXPECT_TRUE(status.ok()) << status;
            continue;
          }
          EXPECT_EQ(ResultOf(status), WEFT_ABORTED) << status;
          // On several axes it may have been told by a rank in between, which the fields name; the sentence has both.
          if (one.axes.empty()) {
            EXPECT_EQ(FieldsOf(status).rank, leaver) << status;
          }
          EXPECT_THAT(std::string(status.message()),
                      HasSubstr(StrCat("rank ", leaver,
                                       " aborted step 2: its context was "
                                       "destroyed")));
        }
        EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
      }
    }
  }
}

TEST(DestroyInAStep, OfARankAloneLeavesItsGroupAlone) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 1, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        for (const Moment& moment : kMoments) {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeUnits(group, WEFT_SHARD_FULL_SHARD));
          WEFT_RETURN_IF_ERROR(moment.calls_before(*context));
        }
        return group->Run({.kind = OpKind::kBarrier});
      }));
}

TEST(DestroyInAStep, AfterAnAbortKeepsItsReason) {
  const std::vector<absl::Status> statuses = RunRanks(
      GroupKind::kLocal, 3, [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeUnits(group, WEFT_SHARD_FULL_SHARD));
        if (rank != 1) return Step(*context);
        WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
        return context->AbortStep("batch 17 is corrupt");
      });
  EXPECT_TRUE(statuses[1].ok()) << statuses[1];
  for (const int rank : {0, 2}) {
    const absl::Status& status = statuses[static_cast<size_t>(rank)];
    EXPECT_EQ(ResultOf(status), WEFT_ABORTED) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("batch 17 is corrupt"));
  }
}

// At these moments no rank waits for the one that leaves.
TEST(DestroyBetweenSteps, LeavesTheGroupAlone) {
  const Moment quiet[] = {
      {"before the first step", false,
       [](Context&) {
         return absl::OkStatus();
       }},
      {"after a step", true,
       [](Context& context) {
         return Step(context);
       }},
      {"after finish", true,
       [](Context& context) -> absl::Status {
         WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
         WEFT_RETURN_IF_ERROR(Microbatch(context, 0, true));
         return context.Finish().status();
       }},
      {"after updated parts", true,
       [](Context& context) -> absl::Status {
         WEFT_RETURN_IF_ERROR(Step(context));
         return context.Updated();
       }},
  };
  for (const Case& one : kCases) {
    for (const Moment& moment : quiet) {
      SCOPED_TRACE(StrCat(PresetName(one.preset), ", ", one.ranks, " ranks, ", moment.name));
      ExpectAllOk(RunRanks(GroupKind::kLocal, one.ranks,
                           [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                             WEFT_ASSIGN_OR_RETURN(auto context,
                                                   MakeUnits(group, one.preset, one.axes));
                             WEFT_RETURN_IF_ERROR(moment.calls_before(*context));
                             context.reset();
                             return group->Run({.kind = OpKind::kBarrier});
                           }));
    }
  }
}

}  // namespace
}  // namespace weft::destroy_test
