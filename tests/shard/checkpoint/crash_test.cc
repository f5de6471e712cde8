// A save that is cut off at any call, by a failure of the disk, the end of the process or a loss of power, leaves the checkpoint that was
// there before or a new one that is whole. A checkpoint that was said to be committed is there whatever comes.
#include <cerrno>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/checkpoint/made_up_state.h"
#include "tests/sim/sim_files.h"
#include "tests/support/case_sample.h"

namespace weft::test::crash_test {
namespace {

constexpr int64_t kBefore = OldAndNew::kOldStep;
constexpr int64_t kNew = OldAndNew::kNewStep;
constexpr int kRanks = 2;

class CheckpointCrash : public testing::Test {
 protected:
  CheckpointCrash() {
    MadeUpRanks ranks(states_.old, kRanks);
    EXPECT_TRUE(ranks.Save(files_, "/c", {.step = kBefore}).ok());
  }

  absl::Status Save(Files& files) {
    MadeUpRanks ranks(states_.fresh, kRanks);
    return ranks.Save(files, "/c",
                      {.step = kNew,
                       .job = 3,
                       .retention = {.last = keep_},
                       .config = "{}",
                       .values = {{.name = kMadeUpValue, .bytes = MadeUpValue(-1)},
                                  {.name = kMadeUpValue, .rank = 1, .bytes = MadeUpValue(1)}},
                       .locked = true});
  }

  void ExpectWhole(Files& files, bool committed) {
    ASSERT_EQ(states_.Problem(files, "/c", committed), "");
  }

  // What a loss of power may leave after the k-th call; a sample of calls.
  void ExpectAllLeftWhole(const SimFiles& files, int k, bool committed) {
    const auto seed = static_cast<uint64_t>(k);
    if (!sample_.Takes(seed)) return;
    files.ForEachCrashState(AllCasesWanted() ? 1000 : 12, seed,
                            [&](SimFiles& left, const std::string& what) {
                              SCOPED_TRACE(what);
                              ExpectWhole(left, committed);
                            });
  }

  const OldAndNew states_{};
  const CaseSample sample_{{.every = 5, .sanitized = 11}, 1};
  int64_t keep_ = 0;
  SimFiles files_;
};

TEST_F(CheckpointCrash, AtAnyCall) {
  for (const int64_t keep : {0, 1}) {
    keep_ = keep;
    for (int k = 1;; ++k) {
      const std::unique_ptr<SimFiles> disk = files_.Copy();
      disk->DieAt(k);
      const absl::Status saved = Save(*disk);
      SCOPED_TRACE(StrCat("keep ", keep, ": ", disk->what()));
      ExpectAllLeftWhole(*disk, k, saved.ok());
      // The machine lives on, and the next run loads.
      const bool struck = disk->struck();
      disk->Revive();
      ExpectWhole(*disk, saved.ok());
      // It saves again, under a number of its own.
      MadeUpRanks ranks(states_.fresh, kRanks);
      ASSERT_TRUE(
          ranks
              .Save(*disk, "/c",
                    {.step = kNew, .run = 1, .job = 2, .retention = {.last = 1}, .locked = true})
              .ok());
      ExpectWhole(*disk, /*committed=*/true);
      // And leaves nothing of what was cut off, be it of the lock.
      EXPECT_THAT(*disk->List("/c"), testing::ElementsAre("step-00000020.r1"));
      ASSERT_FALSE(HasFatalFailure());
      if (!struck) break;
    }
  }
}

TEST_F(CheckpointCrash, AtAnyFailureOfTheDisk) {
  for (const int error : {ENOSPC, EIO}) {
    for (const auto effect : {SimFiles::Effect::kNone, SimFiles::Effect::kDone}) {
      for (int k = 1;; ++k) {
        const std::unique_ptr<SimFiles> disk = files_.Copy();
        disk->FailAt(k, error, effect);
        const absl::Status saved = Save(*disk);
        SCOPED_TRACE(disk->what());
        const bool struck = disk->struck();
        ExpectAllLeftWhole(*disk, k, saved.ok());
        disk->Revive();
        ExpectWhole(*disk, saved.ok());
        ASSERT_FALSE(HasFatalFailure());
        if (!struck) break;
      }
    }
  }
}

TEST_F(CheckpointCrash, OnADiskThatIsFullFromAnyCallOn) {
  for (int k = 1;; ++k) {
    const std::unique_ptr<SimFiles> disk = files_.Copy();
    disk->FailFrom(k, ENOSPC);
    const absl::Status saved = Save(*disk);
    SCOPED_TRACE(disk->what());
    const bool struck = disk->struck();
    disk->Revive();
    ExpectWhole(*disk, saved.ok());
    ASSERT_FALSE(HasFatalFailure());
    if (!struck) break;
  }
}

}  // namespace
}  // namespace weft::test::crash_test
