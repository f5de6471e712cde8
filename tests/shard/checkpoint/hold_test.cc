// Steps beside the writer of a save that reads optimizer state where it is: what changes it waits, what reads it need not, and a writer
// that fails, or hangs, keeps nobody for longer than was said.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/later.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "tests/shard/checkpoint/job_runs.h"
#include "tests/shard/ranks.h"
#include "tests/sim/sim_files.h"

namespace weft {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
constexpr int64_t kHoldNs = 300'000'000;
constexpr std::chrono::seconds kPatience{60};
constexpr char kNotRead[] =
    "optimizer_step: waiting to update optimizer state: a checkpoint that is saved in the "
    "background has not read this state within the timeout of the checkpoint";
constexpr size_t kOffloads[] = {0, size_t{1} << 17};

// A disk that writes no tensors while it is stopped.
class StoppableFiles : public test::SimFiles {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                       uint64_t bytes_expected) override {
    if (path.ends_with(".safetensors")) {
      std::unique_lock<std::mutex> lock(stopped_mutex_);
      changed_.wait_for(lock, kPatience, [&] { return !stopped_; });
    }
    return SimFiles::Create(path, bytes_expected);
  }

  void Stop(bool stopped) {
    const std::lock_guard<std::mutex> lock(stopped_mutex_);
    stopped_ = stopped;
    changed_.notify_all();
  }

 private:
  std::mutex stopped_mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
};

absl::Status LoadAndTrainOn(Context& context, const StateCase& setup, int rank) {
  WEFT_RETURN_IF_ERROR(LoadValues(context));
  return TrainSteps(context, setup, rank, 0, kSavedSteps);
}

// ---- holds that are not let go ------------------------------------------------------------------

// Of one rank: it says what it waits for, and the others, who it was.
TEST(AHold, ThatIsNotLetGoEndsTheUpdateOfAllRanksAtItsTime) {
  constexpr int kHolder = 1;
  const StateCase& setup = ThreeRanks();
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<absl::Status> ends = RunRanks(
      GroupKind::kLocal, setup.ranks,
      [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
        WEFT_RETURN_IF_ERROR(LoadAndTrainOn(*context, setup, rank));
        std::shared_ptr<const void> hold;
        if (rank == kHolder) {
          WEFT_ASSIGN_OR_RETURN(hold, context->state().Hold(Later(MonotonicNs(), kHoldNs)));
        }
        const absl::Status trained = TrainSteps(*context, setup, rank, kSavedSteps, 2);
        EXPECT_FALSE(group->error().ok());
        EXPECT_FALSE(context->StepBegin(WEFT_SHARD_TRAIN, 0).ok());
        return trained;
      });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
  for (int rank = 0; rank < setup.ranks; ++rank) {
    const absl::Status& end = ends[static_cast<size_t>(rank)];
    EXPECT_EQ(ResultOf(end), rank == kHolder ? WEFT_TIMEOUT : WEFT_ABORTED) << end;
    EXPECT_THAT(std::string(end.message()), HasSubstr(kNotRead));
    if (rank == kHolder) continue;
    EXPECT_THAT(std::string(end.message()), HasSubstr("rank 1 aborted step 4: "));
    EXPECT_EQ(FieldsOf(end).rank, kHolder);
  }
}

// Of all ranks, by a save to a disk that hangs: whoever is first to see it may be the one that the others name.
TEST(AHold, OfASaveToADiskThatHangsEndsTheUpdateAtItsTime) {
  for (const size_t offload_bytes : kOffloads) {
    StateCase setup = ThreeRanks();
    setup.offload_bytes = offload_bytes;
    StoppableFiles files;
    std::atomic<int> looked{0};
    const std::vector<absl::Status> ends = RunRanks(
        GroupKind::kLocal, setup.ranks,
        [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
          WEFT_ASSIGN_OR_RETURN(
              auto checkpoint,
              Checkpoint::Create(group, files, {.directory = "/c", .timeout_ns = 2'000'000'000}));
          WEFT_RETURN_IF_ERROR(checkpoint->AddContext("", *context));
          WEFT_RETURN_IF_ERROR(LoadAndTrainOn(*context, setup, rank));
          files.Stop(true);
          WEFT_RETURN_IF_ERROR(checkpoint->Save(kSavedSteps, Checkpoint::How::kInPlace));
          const absl::Status trained = TrainSteps(*context, setup, rank, kSavedSteps, 1);
          EXPECT_EQ(ResultOf(context->state().AwaitReaders()), WEFT_TIMEOUT);
          if (++looked == setup.ranks) files.Stop(false);
          (void)checkpoint->WaitUntil(kForever);  // its time is over, but all may be there at last
          EXPECT_TRUE(context->state().AwaitReaders().ok());
          return trained;
        });
    for (const absl::Status& end : ends) {
      EXPECT_THAT(ResultOf(end), AnyOf(WEFT_TIMEOUT, WEFT_ABORTED)) << end;
      EXPECT_THAT(std::string(end.message()), HasSubstr(kNotRead));
    }
  }
}

// ---- what only reads ----------------------------------------------------------------------------

TEST(AHold, DoesNotKeepCopiesFromBeingCompared) {
  for (const size_t offload_bytes : kOffloads) {
    for (const weft_shard_preset_t preset : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1}) {
      StateCase setup = ThreeRanks();
      setup.preset = preset;
      setup.offload_bytes = offload_bytes;
      StoppableFiles files;
      files.Stop(true);
      const WholeState end =
          RunJob(setup, files, InDirectory("/c"),
                 [&](int rank, Context& context, Checkpoint& checkpoint) -> absl::Status {
                   WEFT_RETURN_IF_ERROR(LoadAndTrainOn(context, setup, rank));
                   WEFT_RETURN_IF_ERROR(checkpoint.Save(kSavedSteps, Checkpoint::How::kInPlace));
                   WEFT_RETURN_IF_ERROR(context.Verify());
                   WEFT_ASSIGN_OR_RETURN(const bool ended, checkpoint.Test());
                   EXPECT_FALSE(ended);
                   WEFT_RETURN_IF_ERROR(context.Verify());  // all ranks have asked
                   // And while it is read by the writer.
                   files.Stop(false);
                   for (int i = 0; i < 5; ++i)
                     WEFT_RETURN_IF_ERROR(context.Verify());
                   WEFT_RETURN_IF_ERROR(TrainSteps(context, setup, rank, kSavedSteps, 1));
                   WEFT_RETURN_IF_ERROR(context.Verify());
                   return checkpoint.WaitUntil(kForever).status();
                 });
      EXPECT_EQ(end.DifferenceFrom(RunFrom(setup, nullptr, 0, kSavedSteps + 1)), "");
      EXPECT_EQ(
          LoadAndTrain(setup, files, 0).DifferenceFrom(RunFrom(setup, nullptr, 0, kSavedSteps)),
          "");
      ASSERT_FALSE(HasFailure()) << NameOf(setup) << ", offloaded: " << (offload_bytes > 0);
    }
  }
}

// ---- saves that fail ----------------------------------------------------------------------------

// At any call of the disk, of any rank: the next update has nobody to wait for, and the bits that it would have had.
TEST(AHold, IsLetGoByASaveThatFails) {
  for (const int ranks : {1, 3}) {
    StateCase setup = ThreeRanks();
    setup.ranks = ranks;
    const WholeState expected = RunFrom(setup, nullptr, 0, kSavedSteps + 2);
    bool struck = true;
    for (int k = 1; struck && k < 500; k += ranks == 1 ? 1 : 3) {
      setup.offload_bytes = kOffloads[k % 2];
      test::SimFiles files;
      std::string what;
      const WholeState end =
          RunJob(setup, files, InDirectory("/c"),
                 [&](int rank, Context& context, Checkpoint& checkpoint) -> absl::Status {
                   WEFT_RETURN_IF_ERROR(LoadAndTrainOn(context, setup, rank));
                   // The directory is theirs from here on.
                   WEFT_RETURN_IF_ERROR(checkpoint.Save(1, Checkpoint::How::kForeground));
                   WEFT_RETURN_IF_ERROR(context.Verify());
                   if (rank == 0) files.FailAt(k, EIO);
                   WEFT_RETURN_IF_ERROR(context.Verify());
                   WEFT_RETURN_IF_ERROR(checkpoint.Save(kSavedSteps, Checkpoint::How::kInPlace));
                   WEFT_RETURN_IF_ERROR(TrainSteps(context, setup, rank, kSavedSteps, 2));
                   const absl::Status saved = checkpoint.WaitUntil(kForever).status();
                   EXPECT_NE(ResultOf(saved), WEFT_TIMEOUT) << saved;
                   WEFT_RETURN_IF_ERROR(context.Verify());
                   if (rank == 0) {
                     struck = files.struck();
                     what = files.what();
                     files.Revive();
                   }
                   WEFT_RETURN_IF_ERROR(context.Verify());
                   return checkpoint.Save(kSavedSteps + 2, Checkpoint::How::kForeground);
                 });
      ASSERT_EQ(end.DifferenceFrom(expected), "") << ranks << " ranks, " << what;
      ASSERT_FALSE(HasFailure()) << ranks << " ranks, " << what;
      ASSERT_TRUE(SavedCheckpoint::Open(files, "/c/step-00000005").ok());
    }
  }
}

}  // namespace
}  // namespace weft
