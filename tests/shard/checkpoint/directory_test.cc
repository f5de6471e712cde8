// Jobs in one directory: who may save there, what each leaves for the next, and what a rank that fails again and again leaves for the others.
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/checkpoint/lock_owner.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "tests/shard/ranks.h"
#include "tests/sim/sim_files.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kElements = 1000;  // of each rank

CheckpointOptions Keeping(int64_t last, bool refuse_not_loaded = false) {
  return {.directory = "/c",
          .retention = {.last = last},
          .timeout_ns = 60'000'000'000,
          .refuse_not_loaded = refuse_not_loaded};
}

// A checkpoint of one tensor on each rank.
class Job {
 public:
  static absl::StatusOr<std::unique_ptr<Job>> Make(int rank, std::shared_ptr<ProcessGroup> group,
                                                   Files& files, const CheckpointOptions& options) {
    const int size = group->size();
    WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(std::move(group), files, options));
    std::unique_ptr<Job> job(new Job(std::move(checkpoint)));
    WEFT_RETURN_IF_ERROR(job->checkpoint->AddTensor(
        {.name = "a", .shape = {static_cast<int64_t>(kElements) * size}},
        static_cast<size_t>(rank) * kElements, kElements, job->values_.data()));
    return job;
  }

  absl::Status Save(int64_t step) { return checkpoint->Save(step, Checkpoint::How::kForeground); }

  absl::Status Load() { return checkpoint->Load(-1, WEFT_SHARD_STATE_ALL).status(); }

  const std::unique_ptr<Checkpoint> checkpoint;

 private:
  explicit Job(std::unique_ptr<Checkpoint> made) : checkpoint(std::move(made)) {}

  std::vector<float> values_ = std::vector<float>(kElements, 1.0F);
};

using JobBody = std::function<absl::Status(int rank, Job& job)>;

void RunJob(int ranks, Files& files, const CheckpointOptions& options, const JobBody& body) {
  ExpectAllOk(RunRanks(GroupKind::kLocal, ranks,
                       [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                         WEFT_ASSIGN_OR_RETURN(auto job, Job::Make(rank, group, files, options));
                         return body(rank, *job);
                       }));
}

// ---- two jobs -----------------------------------------------------------------------------------

TEST(CheckpointDirectory, ASecondJobIsRefusedOnAllItsRanksAndHarmsNothing) {
  test::SimFiles files;
  RunJob(2, files, Keeping(1), [&](int rank, Job& first) -> absl::Status {
    WEFT_RETURN_IF_ERROR(first.Save(1));
    if (rank == 0) {
      RunJob(2, files, Keeping(1), [](int, Job& second) -> absl::Status {
        // To load it needs nobody's leave.
        WEFT_RETURN_IF_ERROR(second.Load());
        for (int64_t step = 5; step < 7; ++step) {
          const absl::Status refused = second.Save(step);
          EXPECT_EQ(ResultOf(refused), WEFT_BAD_STATE) << refused;
          EXPECT_THAT(
              std::string(refused.message()),
              AllOf(HasSubstr("another job saves in /c: process "), HasSubstr(" on host ")));
        }
        return absl::OkStatus();
      });
      // Rank 1 may have begun the next.
      EXPECT_THAT(*files.List("/c"), Each(AnyOf("lock.json", "step-00000001", "step-00000002")));
    }
    return first.Save(2);
  });
  EXPECT_THAT(*files.List("/c"), ElementsAre("step-00000002"));
  EXPECT_TRUE(SavedCheckpoint::Open(files, "/c/step-00000002")->VerifyAll().ok());
  // When the first has ended, another one may.
  RunJob(3, files, Keeping(0), [](int, Job& job) { return job.Save(1); });
  EXPECT_THAT(*files.List("/c"), ElementsAre("step-00000001.r1", "step-00000002"));
}

TEST(CheckpointDirectory, AJobThatOnlyLoadsNeedsNoLock) {
  test::SimFiles files;
  RunJob(2, files, Keeping(1), [&](int rank, Job& first) -> absl::Status {
    WEFT_RETURN_IF_ERROR(first.Save(1));
    if (rank == 0) RunJob(2, files, Keeping(1), [](int, Job& reader) { return reader.Load(); });
    return first.Save(2);
  });
  RunJob(2, files, Keeping(1), [](int, Job& reader) { return reader.Load(); });
  EXPECT_THAT(*files.List("/c"), ElementsAre("step-00000002"));
}

// As of a machine that was suspended for a minute: another one has gone on, and its checkpoints are not to be pushed out.
TEST(CheckpointDirectory, AJobWhoseLockIsAnotherOnesSavesNoMore) {
  test::SimFiles files;
  RunJob(2, files, Keeping(1), [&](int rank, Job& job) -> absl::Status {
    WEFT_RETURN_IF_ERROR(job.Save(1));
    if (rank == 0) {
      const LockOwner other{.token = 1, .host = "there", .pid = 7, .job = "slurm-1.0"};
      WEFT_RETURN_IF_ERROR(WriteFileAtomically(files, "/c/lock.json", LockOwnerText(other)));
    }
    for (int64_t step = 2; step < 4; ++step) {
      const absl::Status saved = job.Save(step);
      EXPECT_EQ(ResultOf(saved), rank == 0 ? WEFT_BAD_STATE : WEFT_SYSTEM_ERROR) << saved;
      EXPECT_THAT(std::string(saved.message()),
                  AnyOf(HasSubstr("process 7 on host there of job slurm-1.0 has taken over saving"),
                        HasSubstr("rank 0 has given up the checkpoint")));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(SavedCheckpoint::Open(files, "/c/step-00000001")->VerifyAll().ok());
  EXPECT_TRUE(files.Open("/c/lock.json").ok()) << "it was another one's";
}

// ---- what was not loaded ------------------------------------------------------------------------

TEST(CheckpointDirectory, WhoPushesOutWhatItHasNotLoadedSaysSoOrIsRefused) {
  test::SimFiles files;
  RunJob(2, files, Keeping(0), [](int, Job& job) -> absl::Status {
    for (int64_t step = 1; step <= 5; ++step)
      WEFT_RETURN_IF_ERROR(job.Save(step));
    return absl::OkStatus();
  });
  const std::string sentence =
      "/c has 5 checkpoints that this run has not loaded, step-00000001, step-00000002, "
      "step-00000003 and 2 more, and that its own saves push out, as keep_last is 2";
  const auto said = [&](const CheckpointOptions& options, const JobBody& body) {
    testing::internal::CaptureStderr();
    const std::unique_ptr<test::SimFiles> copy = files.Copy();
    RunJob(2, *copy, options, body);
    return testing::internal::GetCapturedStderr();
  };
  const auto save = [](int, Job& job) {
    return job.Save(9);
  };
  EXPECT_THAT(said(Keeping(2), save), HasSubstr(sentence));
  EXPECT_EQ(said(Keeping(0), save), "") << "they stay";
  EXPECT_EQ(said(Keeping(2, true),
                 [&](int rank, Job& job) -> absl::Status {
                   const absl::Status refused = job.Save(9);
                   EXPECT_EQ(ResultOf(refused), WEFT_BAD_STATE) << rank << refused;
                   EXPECT_THAT(std::string(refused.message()), HasSubstr(sentence));
                   // It may still think better of it.
                   WEFT_RETURN_IF_ERROR(job.Load());
                   return job.Save(9);
                 }),
            "");
  EXPECT_EQ(said(Keeping(2, true),
                 [](int, Job& job) -> absl::Status {
                   WEFT_RETURN_IF_ERROR(job.Load());
                   return job.Save(9);
                 }),
            "");
}

// ---- ranks that fail ----------------------------------------------------------------------------

// Whichever rank it is, and whenever it fails: what the others have written goes with it.
TEST(CheckpointDirectory, ARankThatAlwaysFailsLeavesNothingBehindOnOthers) {
  for (const int failing : {0, 1, 2}) {
    test::SimFiles files;
    uint64_t one = 0;
    RunJob(3, files, Keeping(1), [&](int rank, Job& job) -> absl::Status {
      std::atomic<bool> fails{false};
      WEFT_RETURN_IF_ERROR(job.checkpoint->AddValue({.name = "v",
                                                     .per_rank = true,
                                                     .save = [&]() -> absl::StatusOr<std::string> {
                                                       if (rank == failing && fails)
                                                         return MakeError(WEFT_INVALID_ARGUMENT,
                                                                          "no state");
                                                       return std::string("x");
                                                     },
                                                     .load =
                                                         [](const std::string*) {
                                                           return absl::OkStatus();
                                                         }}));
      WEFT_RETURN_IF_ERROR(job.Save(1));
      if (rank == 0) one = files.bytes();
      fails = true;
      for (int64_t step = 2; step < 12; ++step) {
        const absl::Status saved = job.Save(step);
        EXPECT_FALSE(saved.ok()) << rank;
        // Who is late finds that the others have gone on.
        EXPECT_THAT(std::string(saved.message()),
                    AnyOf(HasSubstr("no state"), HasSubstr("rank 0 has given up the checkpoint")))
            << rank;
        EXPECT_TRUE(rank != failing || ResultOf(saved) == WEFT_INVALID_ARGUMENT) << saved;
      }
      return absl::OkStatus();
    });
    EXPECT_LT(files.bytes(), one + 1000) << "rank " << failing;
    RunJob(3, files, Keeping(1), [](int, Job& job) -> absl::Status {
      WEFT_RETURN_IF_ERROR(
          job.checkpoint->AddValue({.name = "v",
                                    .per_rank = true,
                                    .save = [] { return absl::StatusOr<std::string>("x"); },
                                    .load =
                                        [](const std::string*) {
                                          return absl::OkStatus();
                                        }}));
      WEFT_RETURN_IF_ERROR(job.Load());
      return job.Save(20);
    });
    EXPECT_THAT(*files.List("/c"), ElementsAre("step-00000020.r1"));
  }
}

// It writes nothing that takes the place of what the others write, and does not wait until its deadline.
TEST(CheckpointDirectory, ARankThatIsLateFindsThatTheOthersHaveGoneOn) {
  test::SimFiles files;
  std::latch gone_on(1);
  RunJob(3, files, Keeping(1), [&](int rank, Job& job) -> absl::Status {
    int saves = 0;
    WEFT_RETURN_IF_ERROR(job.checkpoint->AddValue({.name = "v",
                                                   .per_rank = true,
                                                   .save = [&]() -> absl::StatusOr<std::string> {
                                                     ++saves;
                                                     if (rank == 1 && saves == 2)
                                                       return MakeError(WEFT_INVALID_ARGUMENT,
                                                                        "no state");
                                                     // The late one begins its second save when the others are in their third.
                                                     if (rank == 2 && saves == 2) gone_on.wait();
                                                     return std::string("x");
                                                   },
                                                   .load =
                                                       [](const std::string*) {
                                                         return absl::OkStatus();
                                                       }}));
    WEFT_RETURN_IF_ERROR(job.Save(1));
    EXPECT_FALSE(job.Save(2).ok()) << rank;
    if (rank == 0) {
      WEFT_RETURN_IF_ERROR(job.checkpoint->Save(3, Checkpoint::How::kBackground));
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!files.Open("/c/step-00000003/rank-00000.safetensors").ok() &&
             std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
      gone_on.count_down();
      return job.checkpoint->WaitUntil(std::numeric_limits<int64_t>::max()).status();
    }
    return job.Save(3);
  });
  EXPECT_THAT(*files.List("/c"), ElementsAre("step-00000003"));
  EXPECT_TRUE(SavedCheckpoint::Open(files, "/c/step-00000003")->VerifyAll().ok());
}

// What failed saves have left takes the room of the next one; a rank that writes before rank 0 has removed it writes again.
TEST(CheckpointDirectory, ARankThatFindsNoRoomTriesAgainWhenRankZeroHasMadeSome) {
  test::SimFiles files;
  RunJob(3, files, Keeping(1), [](int, Job& job) { return job.Save(1); });
  const uint64_t one = files.bytes();
  // Of a job that was killed.
  RunJob(3, files, Keeping(0), [](int, Job& job) { return job.Save(2); });
  ASSERT_TRUE(files.Remove("/c/step-00000002.r1/manifest.json").ok());
  files.SetRoom(2 * one + one / 4);
  for (int64_t first = 100; first < 600; first += 100) {
    RunJob(3, files, Keeping(1), [&](int, Job& job) -> absl::Status {
      WEFT_RETURN_IF_ERROR(job.Load());
      for (int64_t step = first; step < first + 5; ++step)
        WEFT_RETURN_IF_ERROR(job.Save(step));
      return absl::OkStatus();
    });
    ASSERT_FALSE(HasFailure());
    RunJob(3, files, Keeping(0), [&](int, Job& job) { return job.Save(first + 50); });
    const std::string last = files.List("/c")->back();
    ASSERT_TRUE(files.Remove(StrCat("/c/", last, "/manifest.json")).ok());
  }
}

}  // namespace
}  // namespace weft
