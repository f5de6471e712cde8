// A save in a real file system, whose process ends at any of its system calls, or any of whose system calls fails: what was committed loads whole,
// what was not is never chosen, and the next save is made. The simulated disk of crash_test.cc has what a loss of power leaves; this has
// the shipped calls, threads and processes.
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/directory_lock.h"
#include "shard/checkpoint/rank_writer.h"
#include "shard/checkpoint/saver.h"
#include "shard/checkpoint/snapshot.h"
#include "tests/shard/checkpoint/made_up_state.h"
#include "tests/support/case_sample.h"
#include "tests/support/failing_calls.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

constexpr int64_t kBefore = OldAndNew::kOldStep;
constexpr int64_t kNew = OldAndNew::kNewStep;
// Nobody is to wait for it: who fails says so, and a test that watches tells of who has died.
constexpr int64_t kTimeoutNs = 60'000'000'000;
constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

struct SystemCallCase {
  int ranks;
  bool background;
  int victim;  // the rank whose calls are struck
};

std::string NameOf(const SystemCallCase& setup) {
  return StrCat(setup.ranks, setup.ranks == 1 ? " rank, " : " ranks, ",
                setup.background ? "in the background, " : "", "rank ", setup.victim);
}

constexpr SystemCallCase kSystemCallCases[] = {{1, false, 0}, {1, true, 0}, {2, false, 0},
                                               {2, false, 1}, {2, true, 0}, {2, true, 1}};

class CheckpointSystemCalls : public testing::Test {
 protected:
  void SetUp() override {
    // In memory, where there is room: a sync may cost a hundred times as much while others use the disk.
    const bool memory = access("/dev/shm", W_OK) == 0;
    directory_ =
        (memory ? std::string("/dev/shm") : testing::TempDir()) + "/weft_checkpoint_calls_XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    before_ = directory_ + "/before";
    root_ = directory_ + "/checkpoints";
    MadeUpRanks ranks(states_.old, 2);
    ASSERT_TRUE(ranks.Save(SystemFiles(), before_, {.step = kBefore}).ok());
  }

  void TearDown() override { std::filesystem::remove_all(directory_); }

  // The directory of checkpoints as it was.
  void Restart() {
    std::filesystem::remove_all(root_);
    std::filesystem::copy(before_, root_, std::filesystem::copy_options::recursive);
  }

  // Of this process: one that has ended leaves it to the next.
  absl::StatusOr<std::unique_ptr<DirectoryLock>> TakeLock(uint64_t token) {
    Proc& proc = *SystemSeams().proc;
    SystemPatience patience([] { return absl::OkStatus(); });
    return DirectoryLock::Take(SystemFiles(), proc, patience,
                               {.root = root_, .self = ThisProcess(proc, token)});
  }

  absl::Status SaveRank(const SystemCallCase& setup, int rank, Saver& saver) {
    MadeUpState state(states_.fresh, rank, setup.ranks, 0);
    WEFT_ASSIGN_OR_RETURN(
        Snapshot snapshot,
        TakeSnapshot({{"", &state}},
                     {{.name = kMadeUpValue, .rank = rank, .bytes = MadeUpValue(rank)}}));
    const CheckpointPlace place{
        .root = root_, .name = {.step = kNew}, .job = 7, .rank = rank, .ranks = setup.ranks};
    std::unique_ptr<DirectoryLock> lock;
    if (rank == 0) {
      absl::StatusOr<std::unique_ptr<DirectoryLock>> taken = TakeLock(7);
      if (!taken.ok()) ReportFailure(SystemFiles(), place, taken.status());
      WEFT_RETURN_IF_ERROR(taken.status());
      lock = *std::move(taken);
    }
    Keeper keeper(SystemFiles(), root_, {.last = 1}, std::move(lock));
    const SaveSettings settings{.timeout_ns = kTimeoutNs, .config = "{}", .keeper = &keeper};
    if (!setup.background) return saver.Run(place, snapshot, settings);
    WEFT_RETURN_IF_ERROR(saver.Start(place, std::move(snapshot), settings));
    return saver.WaitUntil(kForever).status();
  }

  void ExpectWhole(bool committed) {
    ASSERT_EQ(states_.Problem(SystemFiles(), root_, committed), "");
  }

  // Of the run that is started next: it sees what is there, and leaves nothing of what failed.
  void ExpectNextSaveWorks() {
    const auto lock = TakeLock(8);
    ASSERT_TRUE(lock.ok()) << lock.status();
    const auto all = ListCheckpoints(SystemFiles(), root_);
    ASSERT_TRUE(all.ok()) << all.status();
    MadeUpRanks ranks(states_.fresh, 2);
    const absl::Status saved =
        ranks.Save(SystemFiles(), root_,
                   {.step = kNew, .run = NextRun(*all), .job = 8, .retention = {.last = 1}});
    ASSERT_TRUE(saved.ok()) << saved;
    ExpectWhole(/*committed=*/true);
    EXPECT_EQ(ListCheckpoints(SystemFiles(), root_)->size(), 1u);
  }

  const OldAndNew states_{};
  std::string directory_;
  std::string before_;  // a directory with the checkpoint of kBefore
  std::string root_;    // that of a trial
};

// ---- death --------------------------------------------------------------------------------------

// Of each rank: whether its save was Ok; nothing if its process was killed.
using SaveEnds = std::vector<std::optional<bool>>;

pid_t ForkTo(const std::function<absl::Status()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body().ok() ? 0 : 1);
  return child;
}

std::optional<bool> EndOf(pid_t child) {
  int state = 0;
  EXPECT_EQ(waitpid(child, &state, 0), child);
  if (WIFSIGNALED(state)) return std::nullopt;
  return WEXITSTATUS(state) == 0;
}

class CheckpointDeath : public CheckpointSystemCalls {
 protected:
  // The victim's k-th call ends it; the other rank is told of that, as by its group.
  SaveEnds SaveInProcesses(const SystemCallCase& setup, int k) {
    int life[2];  // what the victim alone writes to
    EXPECT_EQ(pipe(life), 0);
    std::vector<pid_t> children;
    for (int rank = 0; rank < setup.ranks; ++rank) {
      children.push_back(ForkTo([&] {
        return rank == setup.victim ? SaveAndDie(setup, k, life[1])
                                    : SaveWatching(setup, rank, life);
      }));
    }
    close(life[0]);
    close(life[1]);
    SaveEnds ends;
    for (const pid_t child : children)
      ends.push_back(EndOf(child));
    return ends;
  }

 private:
  absl::Status SaveAndDie(const SystemCallCase& setup, int k, int life) {
    DieAtCall(k, CallsOf::kProcess);
    absl::Status saved;
    {
      Saver saver(SystemFiles(), [] { return absl::OkStatus(); });
      saved = SaveRank(setup, setup.victim, saver);
    }
    DieAtCall(0, CallsOf::kProcess);
    EXPECT_EQ(write(life, "", 1), 1);
    return saved;
  }

  absl::Status SaveWatching(const SystemCallCase& setup, int rank, const int (&life)[2]) {
    close(life[1]);
    std::atomic<bool> over{false};
    Saver saver(SystemFiles(), [&] {
      return over ? MakeError(WEFT_PEER_LOST, "a rank has died") : absl::OkStatus();
    });
    std::thread watch([&] {
      char byte;
      if (read(life[0], &byte, 1) == 0) over = true;
    });
    absl::Status saved = SaveRank(setup, rank, saver);
    watch.join();
    return saved;
  }
};

TEST_F(CheckpointDeath, AtAnyCallLeavesAWholeCheckpoint) {
  const CaseSample sample({.every = 5, .sanitized = 13}, 1);  // the first call, too
  for (const SystemCallCase& setup : kSystemCallCases) {
    bool died = true;
    int deaths = 0;
    for (int k = 1; died; ++k) {
      if (!sample.Takes(static_cast<size_t>(k))) continue;
      SCOPED_TRACE(StrCat(NameOf(setup), ", at its call ", k));
      Restart();
      const SaveEnds ends = SaveInProcesses(setup, k);
      died = !ends[static_cast<size_t>(setup.victim)].has_value();
      deaths += static_cast<int>(died);
      bool committed = false;
      for (const std::optional<bool>& end : ends) {
        committed = committed || end == true;
        EXPECT_TRUE(died || end == true);
      }
      ExpectWhole(committed);
      ExpectNextSaveWorks();
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_GE(deaths, AllCasesWanted() ? 30 : 2) << NameOf(setup);
    std::printf("%s: %d deaths\n", NameOf(setup).c_str(), deaths);
  }
}

// ---- failure ------------------------------------------------------------------------------------

struct StruckSave {
  std::vector<absl::Status> saved;  // by rank
  bool struck = false;
  std::string what;
};

class CheckpointFailure : public CheckpointSystemCalls {
 protected:
  // Ranks are threads. The victim's k-th call fails; in the background that of any of their threads.
  StruckSave SaveInThreads(const SystemCallCase& setup, int k, int error_number) {
    StruckSave result;
    result.saved.resize(static_cast<size_t>(setup.ranks));
    std::optional<FailingCalls> of_all;
    if (setup.background) of_all.emplace(k, error_number, CallsOf::kProcess);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < setup.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        std::optional<FailingCalls> of_victim;
        if (!setup.background && rank == setup.victim) of_victim.emplace(k, error_number);
        {
          Saver saver(SystemFiles(), [] { return absl::OkStatus(); });
          result.saved[static_cast<size_t>(rank)] = SaveRank(setup, rank, saver);
        }
        if (of_victim.has_value()) Note(*of_victim, &result);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    if (of_all.has_value()) Note(*of_all, &result);
    return result;
  }

 private:
  static void Note(const FailingCalls& failing, StruckSave* result) {
    result->struck = failing.struck();
    result->what = failing.what();
  }
};

TEST_F(CheckpointFailure, OfAnyCallLeavesAWholeCheckpointAndIsWaitedForByNobody) {
  const CaseSample sample({.every = 7, .sanitized = 23}, 1);  // the first call, too
  for (const SystemCallCase& setup : kSystemCallCases) {
    if (setup.background && setup.victim > 0) continue;
    for (const int error_number : {0, ENOSPC, EIO}) {
      bool struck = true;
      for (int k = 1; struck; ++k) {
        if (!sample.Takes(static_cast<size_t>(k))) continue;
        Restart();
        const Holdings before = Holdings::Now();
        const StruckSave ended = SaveInThreads(setup, k, error_number);
        struck = ended.struck;
        SCOPED_TRACE(StrCat(NameOf(setup), ", call ", k, ": ", ended.what));
        EXPECT_EQ(Holdings::Now().Since(before), "");
        bool committed = false;
        for (const absl::Status& saved : ended.saved) {
          committed = committed || saved.ok();
          EXPECT_NE(ResultOf(saved), WEFT_TIMEOUT) << saved;
          EXPECT_NE(ResultOf(saved), WEFT_UNREACHABLE) << saved;
          EXPECT_TRUE(struck || saved.ok()) << saved;
        }
        ExpectWhole(committed);
        ExpectNextSaveWorks();
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

}  // namespace
}  // namespace weft::test
