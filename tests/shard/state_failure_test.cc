// What can still be saved after a failure.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/group/forwarding_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/ranks.h"
#include "tests/shard/saved_state.h"

namespace weft::state_failure_test {
namespace {

using testing::HasSubstr;

// Bounded, so that a rank that has failed earlier does not leave the other one waiting.
bool ComesTrue(const std::atomic<bool>& flag) {
  for (const int64_t begin_ns = MonotonicNs(); !flag; std::this_thread::yield()) {
    if (MonotonicNs() - begin_ns > 30'000'000'000) return false;
  }
  return true;
}

// What rank 1's abort of the third step finds rank 0 at. Its step_begin is refused if it comes later: then it has begun no step.
enum class Other { kIsInTheStep, kHasNotBegunTheStep };

// Two steps, and a third that rank 1 gives up.
std::vector<Saved> SaveAfterAbort(const StateCase& setup, Other other) {
  std::vector<Saved> saved(2);
  std::atomic<bool> due{false};  // rank 0 is where the abort is to find it
  std::atomic<bool> aborted{false};
  const auto abort = [&](Context& context) -> absl::Status {
    EXPECT_TRUE(ComesTrue(due));
    WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
    WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
    WEFT_RETURN_IF_ERROR(context.AbortStep("no memory"));
    aborted = true;
    return absl::OkStatus();
  };
  const auto be_found = [&](Context& context) -> absl::Status {
    if (other == Other::kHasNotBegunTheStep) {
      due = true;
      EXPECT_TRUE(ComesTrue(aborted));
    }
    const auto once_begun = [&](int, int) {
      due = true;
      return 1;  // micro-batch
    };
    return RunStep(context, StateModel(), {.seed = 5, .ranks = 2, .data = once_begun}, 0, 2)
        .status();
  };
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2,
      [&](int rank, const std::shared_ptr<ProcessGroup>& group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
        WEFT_RETURN_IF_ERROR(LoadValues(*context));
        WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, 2));
        if (rank == 1) {
          WEFT_RETURN_IF_ERROR(abort(*context));
        } else {
          EXPECT_THAT(std::string(be_found(*context).message()), HasSubstr("no memory"));
        }
        Saved& kept = saved[static_cast<size_t>(rank)];
        WEFT_ASSIGN_OR_RETURN(kept, SaveState(*context));
        for (const absl::Status& refused : {context->state().SetScalars(kept.scalars),
                                            context->state().Written(WEFT_SHARD_STATE_ALL)}) {
          EXPECT_THAT(std::string(refused.message()), HasSubstr("no memory"));
        }
        return absl::OkStatus();
      }));
  return saved;
}

// A rank gives up in the middle of a step: every rank can still save what the last update left.
TEST(StateFailure, IsStillReadAfterAFailure) {
  for (const weft_shard_preset_t preset : kStatePresets) {
    const StateCase setup{
        .preset = preset, .ranks = 2, .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
    const WholeState expected = RunFrom(setup, nullptr, 0, 2);
    ASSERT_FALSE(HasFailure());
    for (const Other other : {Other::kIsInTheStep, Other::kHasNotBegunTheStep}) {
      SCOPED_TRACE(NameOf(setup) +
                   (other == Other::kIsInTheStep ? ", in the step" : ", before it"));
      std::vector<Saved> saved = SaveAfterAbort(setup, other);
      ASSERT_FALSE(HasFailure());
      for (size_t rank = 0; rank < saved.size(); ++rank) {
        weft_shard_state_scalars_t& scalars = saved[rank].scalars;
        // The step that failed counts where it was begun.
        const int64_t begun = rank == 0 && other == Other::kHasNotBegunTheStep ? 2 : 3;
        EXPECT_EQ(scalars.steps_begun, begun) << "rank " << rank;
        EXPECT_EQ(scalars.train_steps_begun, begun) << "rank " << rank;
        scalars.steps_begun = scalars.train_steps_begun = 2;
      }
      EXPECT_EQ(MergeStates(saved, setup.optimizer).DifferenceFrom(expected), "");
    }
  }
}

// A group that ends, on all ranks, in place of the first operation of a kind once it is told to.
class EndingGroup : public ForwardingGroup {
 public:
  struct Switch {
    Purpose::Kind kind = Purpose::Kind::kNone;
    bool armed = false;
  };

  EndingGroup(std::shared_ptr<ProcessGroup> group, const Switch& ends)
      : ForwardingGroup(std::move(group)), ends_(ends) {}

  absl::Status Run(const Collective& call) override {
    WEFT_RETURN_IF_ERROR(EndIfDue(call));
    return group().Run(call);
  }

  absl::StatusOr<WorkRef> Start(const Collective& call) override {
    WEFT_RETURN_IF_ERROR(EndIfDue(call));
    return group().Start(call);
  }

  absl::StatusOr<std::shared_ptr<ProcessGroup>> Split(int color, int key,
                                                      const GroupOptions& options) override {
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> part, group().Split(color, key, options));
    if (part == nullptr) return part;
    return std::make_shared<EndingGroup>(std::move(part), ends_);
  }

 private:
  absl::Status EndIfDue(const Collective& call) {
    if (!ends_.armed || UnpackPurpose(call.purpose.record).kind != ends_.kind) {
      return absl::OkStatus();
    }
    return MakeError(WEFT_ABORTED, "the group has ended");
  }

  const Switch& ends_;  // of its rank's thread
};

// Two steps, and a third in whose update every rank finds that the operation cannot be started.
std::vector<Saved> SaveAfterUpdateFailed(const StateCase& setup, Purpose::Kind kind,
                                         weft_result_t expected) {
  std::vector<Saved> saved(static_cast<size_t>(setup.ranks));
  ExpectAllOk(RunRanks(GroupKind::kLocal, setup.ranks,
                       [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                         EndingGroup::Switch ends{.kind = kind};
                         const auto ending = std::make_shared<EndingGroup>(std::move(group), ends);
                         WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(ending, setup));
                         WEFT_RETURN_IF_ERROR(LoadValues(*context));
                         WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, 0, 2));
                         ends.armed = true;
                         EXPECT_FALSE(TrainSteps(*context, setup, rank, 2, 1).ok());
                         absl::StatusOr<Saved> found = SaveState(*context);
                         EXPECT_EQ(ResultOf(found.status()), expected) << found.status();
                         if (found.ok()) {
                           saved[static_cast<size_t>(rank)] = *std::move(found);
                         } else {
                           EXPECT_THAT(std::string(found.status().message()),
                                       HasSubstr("go back to a checkpoint"));
                         }
                         return absl::OkStatus();
                       }));
  return saved;
}

// The gathers of updated params cannot be started: every rank has updated its own part all the same.
TEST(StateFailure, AnUpdateIsCarriedThroughWithoutItsGathers) {
  for (const weft_shard_preset_t preset : {WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2}) {
    const StateCase setup{
        .preset = preset, .ranks = 2, .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
    const WholeState expected = RunFrom(setup, nullptr, 0, 3);
    const std::vector<Saved> saved =
        SaveAfterUpdateFailed(setup, Purpose::Kind::kGatherUpdated, WEFT_SUCCESS);
    ASSERT_FALSE(HasFailure());
    EXPECT_EQ(MergeStates(saved, setup.optimizer).DifferenceFrom(expected), "") << NameOf(setup);
  }
}

// LAMB has changed its moments when it asks for the norms of all ranks, and then nothing more.
TEST(StateFailure, AnUpdateThatCannotBeCarriedThroughIsNotSaved) {
  const StateCase setup{.preset = WEFT_SHARD_FULL_SHARD,
                        .ranks = 2,
                        .optimizer = StateOptimizer(WEFT_OPTIMIZER_LAMB)};
  SaveAfterUpdateFailed(setup, Purpose::Kind::kParamNorms, WEFT_BAD_STATE);
}

}  // namespace
}  // namespace weft::state_failure_test
