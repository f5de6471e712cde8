// Who may save in a directory: one job at a time, whichever call its process ends or fails in, and on file systems without second names.
#include "shard/checkpoint/directory_lock.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "tests/sim/sim_files.h"

namespace weft::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr char kRoot[] = "/c";

// Processes that have not ended are those that are said to live.
class FakeProc : public Proc {
 public:
  std::set<int32_t> living;

  ProcessIdentity Self() override { return {}; }

  absl::StatusOr<std::unique_ptr<PeerProcess>> Open(int32_t pid, uint64_t /*start_time*/) override {
    return std::make_unique<Peer>(!living.contains(pid));
  }

  absl::StatusOr<std::unique_ptr<PeerProcess>> Watch(Lifeline /*lifeline*/, int32_t /*pid*/,
                                                     uint64_t /*start_time*/) override {
    return MakeError(WEFT_UNSUPPORTED, "not here");
  }

 private:
  class Peer : public PeerProcess {
   public:
    explicit Peer(bool ended) : ended_(ended) {}

    bool Ended() override { return ended_; }

    ExitInfo Exit() override { return {}; }

    ProcessState State() override { return ProcessState::kNotKnown; }

    int32_t visible_pid() const override { return 0; }

    int fd() const override { return -1; }

   private:
    const bool ended_;
  };
};

// A clock that goes only while somebody waits; `passing` is called each time, with the time that has passed.
class FakePatience : public Patience {
 public:
  int64_t NowNs() override { return now_ns; }

  void PauseUntil(int64_t time_ns) override {
    now_ns = std::max(now_ns, time_ns);
    if (passing) passing(now_ns);
  }

  absl::Status Over() override { return absl::OkStatus(); }

  int64_t now_ns = 1000 * kSecondNs;
  std::function<void(int64_t now_ns)> passing;
};

// Without second names, as some of networks are.
class PlainFiles : public SimFiles {
 public:
  absl::Status Link(const std::string& from, const std::string& /*to*/) override {
    return FileError(EPERM, StrCat("linking ", from));
  }
};

class DirectoryLockTest : public testing::Test {
 protected:
  DirectoryLockTest() {
    EXPECT_TRUE(files_.MakeDirectory(kRoot).ok());
    EXPECT_TRUE(plain_.MakeDirectory(kRoot).ok());
    proc_.living = {1, 2, 3};
  }

  // Process `pid` of this machine; all of its attempts have the same token.
  static LockOwner Process(int32_t pid, std::string job = "") {
    return {.token = 0x100 + static_cast<uint64_t>(pid),
            .host = "here",
            .boot_id = "b",
            .pid_namespace = "n",
            .pid = pid,
            .start_time = 7,
            .job = std::move(job)};
  }

  static LockOwner Elsewhere(int32_t pid, std::string job = "") {
    LockOwner owner = Process(pid, std::move(job));
    owner.host = "there";
    owner.boot_id = "c";
    return owner;
  }

  absl::StatusOr<std::unique_ptr<DirectoryLock>> Take(Files& files, const LockOwner& self,
                                                      const LockSighting& seen = {},
                                                      int64_t wait_ns = 600 * kSecondNs) {
    return DirectoryLock::Take(
        files, proc_, patience_,
        {.root = kRoot, .self = self, .seen = seen, .deadline_ns = patience_.now_ns + wait_ns});
  }

  absl::StatusOr<std::unique_ptr<DirectoryLock>> Take(const LockOwner& self) {
    return Take(files_, self);
  }

  // Without a word of it to the files: as a process that was killed.
  static void Leave(SimFiles& files, std::unique_ptr<DirectoryLock> lock) {
    files.DieAt(1);
    lock = nullptr;
    files.Revive();
  }

  void ExpectRefused(const absl::Status& status, std::string_view name) {
    EXPECT_EQ(ResultOf(status), WEFT_BAD_STATE) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("another job saves in /c: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(name)));
  }

  SimFiles files_;
  PlainFiles plain_;
  FakeProc proc_;
  FakePatience patience_;
};

TEST_F(DirectoryLockTest, OneJobHasItAndTheOthersAreToldWho) {
  for (SimFiles* const files : {&files_, static_cast<SimFiles*>(&plain_)}) {
    auto first = Take(*files, Process(1, "slurm-17.0"));
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE((*first)->Check().ok());
    ExpectRefused(Take(*files, Process(2)).status(), "process 1 on host here of job slurm-17.0");
    EXPECT_THAT(*files->List(kRoot), ElementsAre("lock.json"));
    EXPECT_TRUE((*first)->Check().ok());
    *first = nullptr;
    EXPECT_THAT(*files->List(kRoot), IsEmpty());
    EXPECT_TRUE(Take(*files, Process(2)).ok());
  }
  EXPECT_EQ(patience_.now_ns, 1000 * kSecondNs) << "somebody waited";
}

TEST_F(DirectoryLockTest, ThatOfAProcessThatHasEndedIsTakenAtOnce) {
  auto first = Take(Process(1));
  ASSERT_TRUE(first.ok()) << first.status();
  Leave(files_, *std::move(first));
  EXPECT_THAT(*files_.List(kRoot), ElementsAre("lock.json"));
  proc_.living.erase(1);
  auto second = Take(Process(2));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE((*second)->Check().ok());
  EXPECT_EQ(patience_.now_ns, 1000 * kSecondNs) << "somebody waited";
}

// A number says nothing in another pid namespace, as two containers of one machine have; nor does a host's name, or a boot id alone.
TEST_F(DirectoryLockTest, AnOwnerThatCannotBeLookedAtIsNotTakenForDead) {
  std::vector<LockOwner> others(3, Process(9));
  others[0].pid_namespace = "m";
  others[1].boot_id = "c";
  others[2].pid_namespace = "";
  for (const LockOwner& other : others) {
    SimFiles files;
    ASSERT_TRUE(files.MakeDirectory(kRoot).ok());
    auto first = Take(files, other);
    ASSERT_TRUE(first.ok()) << first.status();
    ExpectRefused(Take(files, Process(2), {}, 5 * kSecondNs).status(), "try again in 56 s");
  }
}

TEST_F(DirectoryLockTest, ThatOfAnotherHostIsTakenWhenItsHeartHasNotBeatenForAMinute) {
  auto first = Take(Elsewhere(1));
  ASSERT_TRUE(first.ok()) << first.status();
  const int64_t begin_ns = patience_.now_ns;
  auto second = Take(Process(2));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(patience_.now_ns - begin_ns, kLockPatienceNs);
  // Should it live nevertheless, it finds out, and leaves what is not its own any more.
  const absl::Status lost = (*first)->Check();
  EXPECT_EQ(ResultOf(lost), WEFT_BAD_STATE) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("process 2 on host here has taken over"));
  *first = nullptr;
  EXPECT_TRUE((*second)->Check().ok());
}

TEST_F(DirectoryLockTest, WhatWasSeenEarlierCountsForTheMinute) {
  auto first = Take(Elsewhere(1));
  ASSERT_TRUE(first.ok()) << first.status();
  const LockSighting seen = LookAtLock(files_, kRoot, patience_.now_ns);
  patience_.now_ns += kLockPatienceNs;
  const int64_t begin_ns = patience_.now_ns;
  EXPECT_TRUE(Take(files_, Process(2), seen).ok());
  EXPECT_EQ(patience_.now_ns, begin_ns);
}

TEST_F(DirectoryLockTest, OneOfAnotherHostWhoseHeartBeatsIsRefused) {
  auto first = Take(Elsewhere(1));
  ASSERT_TRUE(first.ok()) << first.status();
  LockBeat beat(files_, kRoot, Elsewhere(1).token);
  int64_t beaten_ns = patience_.now_ns;
  patience_.passing = [&](int64_t now_ns) {
    if (now_ns - beaten_ns < kLockBeatNs) return;
    beat.Beat();
    beaten_ns = now_ns;
  };
  const int64_t begin_ns = patience_.now_ns;
  ExpectRefused(Take(Process(2)).status(), "process 1 on host there");
  EXPECT_LE(patience_.now_ns - begin_ns, kLockBeatNs + kSecondNs);
  // It had beaten before somebody looked; and not since.
  beat.Beat();
  const LockSighting seen = LookAtLock(files_, kRoot, patience_.now_ns);
  beat.Beat();
  ExpectRefused(Take(files_, Process(2), seen).status(), "process 1 on host there");
  patience_.passing = nullptr;
  EXPECT_TRUE(Take(Process(2)).ok());
}

// As one that is started again, or goes on with other ranks, on another node.
TEST_F(DirectoryLockTest, AJobTakesWhatWasItsOwn) {
  for (const LockOwner& next : {Process(2, "j"), Elsewhere(3, "j")}) {
    auto first = Take(Process(1, "j"));
    ASSERT_TRUE(first.ok()) << first.status();
    auto second = Take(next);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_THAT(std::string((*first)->Check().message()),
                HasSubstr("another checkpoint object of this job saves there now"));
    EXPECT_FALSE((*first)->Check().ok());
    *first = nullptr;
    EXPECT_TRUE((*second)->Check().ok());
  }
  EXPECT_EQ(patience_.now_ns, 1000 * kSecondNs) << "somebody waited";
}

TEST_F(DirectoryLockTest, ThatWhichWasRemovedIsTakenAgain) {
  auto first = Take(Process(1));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(files_.Remove("/c/lock.json").ok());
  EXPECT_TRUE((*first)->Check().ok());
  ExpectRefused(Take(Process(2)).status(), "process 1");
}

// As a loss of power may leave it.
TEST_F(DirectoryLockTest, OneThatCannotBeReadIsTakenAfterAMinute) {
  for (const std::string text : {"", "{}", "\xff\xff"}) {
    ASSERT_TRUE(WriteFileAtomically(files_, "/c/lock.json", text).ok());
    ExpectRefused(Take(files_, Process(2), {}, 5 * kSecondNs).status(), "did not come to say");
    const int64_t begin_ns = patience_.now_ns;
    auto taken = Take(Process(2));
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(patience_.now_ns - begin_ns, kLockPatienceNs);
    *taken = nullptr;
    EXPECT_THAT(*files_.List(kRoot), IsEmpty());
  }
}

// ---- ends and failures at any call --------------------------------------------------------------

// Whoever has ended in the middle of taking it keeps nobody from it for a moment; and of two one has it.
TEST_F(DirectoryLockTest, AProcessThatEndsAtAnyCallOfTakingItIsFollowedAtOnce) {
  for (const bool from_dead : {false, true}) {
    bool struck = true;
    for (int k = 1; struck; ++k) {
      SimFiles files;
      ASSERT_TRUE(files.MakeDirectory(kRoot).ok());
      proc_.living = {1, 2, 3};
      if (from_dead) {
        auto first = Take(files, Process(1));
        ASSERT_TRUE(first.ok()) << first.status();
        Leave(files, *std::move(first));
        proc_.living.erase(1);
      }
      files.DieAt(k);
      auto second = Take(files, Process(2));
      struck = files.struck();
      SCOPED_TRACE(StrCat("from an owner that has ended: ", from_dead, ", ", files.what()));
      if (second.ok()) Leave(files, *std::move(second));
      files.Revive();
      proc_.living.erase(2);
      auto third = Take(files, Process(3));
      ASSERT_TRUE(third.ok()) << third.status();
      EXPECT_TRUE((*third)->Check().ok());
      EXPECT_THAT(*files.List(kRoot), ElementsAre("lock.json"));
      ASSERT_FALSE(HasFailure());
    }
  }
  EXPECT_EQ(patience_.now_ns, 1000 * kSecondNs) << "somebody waited";
}

// There a text may be written in part, of which nobody can tell whose it is.
TEST_F(DirectoryLockTest, WithoutSecondNamesWhoHasEndedIsFollowedWhenItsTimeIsOver) {
  for (const bool from_dead : {false, true}) {
    bool struck = true;
    for (int k = 1; struck; ++k) {
      PlainFiles files;
      ASSERT_TRUE(files.MakeDirectory(kRoot).ok());
      if (from_dead) {
        auto first = Take(files, Process(9));
        ASSERT_TRUE(first.ok()) << first.status();
        Leave(files, *std::move(first));
      }
      files.DieAt(k);
      auto second = Take(files, Process(10));
      struck = files.struck();
      SCOPED_TRACE(StrCat("from an owner that has ended: ", from_dead, ", ", files.what()));
      if (second.ok()) Leave(files, *std::move(second));
      files.Revive();
      const int64_t begin_ns = patience_.now_ns;
      auto third = Take(files, Process(3));
      ASSERT_TRUE(third.ok()) << third.status();
      EXPECT_LE(patience_.now_ns - begin_ns, 2 * kLockPatienceNs);
      EXPECT_THAT(*files.List(kRoot), ElementsAre("lock.json"));
      ASSERT_FALSE(HasFailure());
    }
  }
}

// Two that end while each takes over from the one before, the second at any call.
TEST_F(DirectoryLockTest, AChainOfOwnersThatHaveEndedIsFollowedAtOnce) {
  for (int k = 1; k < 40; ++k) {
    for (int l = 1; l < 40; ++l) {
      SimFiles files;
      ASSERT_TRUE(files.MakeDirectory(kRoot).ok());
      auto first = Take(files, Process(9));
      ASSERT_TRUE(first.ok()) << first.status();
      Leave(files, *std::move(first));
      int32_t pid = 10;
      for (const int call : {k, l}) {
        files.DieAt(call);
        auto next = Take(files, Process(pid++));
        if (next.ok()) Leave(files, *std::move(next));
        files.Revive();
      }
      auto last = Take(files, Process(1));
      ASSERT_TRUE(last.ok()) << k << " " << l << ": " << last.status();
      EXPECT_THAT(*files.List(kRoot), ElementsAre("lock.json"));
    }
  }
  EXPECT_EQ(patience_.now_ns, 1000 * kSecondNs) << "somebody waited";
}

// A call that fails may have been done: whoever believes to have it, has it, and nobody else does.
TEST_F(DirectoryLockTest, ACallThatFailsLeavesOneOwnerAtMost) {
  for (const auto effect : {SimFiles::Effect::kNone, SimFiles::Effect::kDone}) {
    for (const bool from_dead : {false, true}) {
      bool struck = true;
      for (int k = 1; struck; ++k) {
        SimFiles files;
        ASSERT_TRUE(files.MakeDirectory(kRoot).ok());
        proc_.living = {1, 2, 3};
        if (from_dead) {
          auto first = Take(files, Process(1));
          ASSERT_TRUE(first.ok()) << first.status();
          Leave(files, *std::move(first));
          proc_.living.erase(1);
        }
        files.FailAt(k, EIO, effect);
        auto second = Take(files, Process(2));
        struck = files.struck();
        SCOPED_TRACE(StrCat("from an owner that has ended: ", from_dead, ", ", files.what()));
        files.Revive();
        if (second.ok()) {
          EXPECT_TRUE((*second)->Check().ok());
          ExpectRefused(Take(files, Process(3)).status(), "process 2");
        } else {
          // It has let go of what it had, though it lives.
          const auto third = Take(files, Process(3));
          ASSERT_TRUE(third.ok()) << third.status();
        }
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

// ---- two at a time ------------------------------------------------------------------------------

// Calls `other` once, before the k-th call.
class MeetingFiles : public SimFiles {
 public:
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    Meet();
    return SimFiles::Open(path);
  }

  absl::Status Link(const std::string& from, const std::string& to) override {
    Meet();
    return SimFiles::Link(from, to);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    Meet();
    return SimFiles::Rename(from, to);
  }

  absl::Status Remove(const std::string& path) override {
    Meet();
    return SimFiles::Remove(path);
  }

  void MeetAt(int k, std::function<void()> other) {
    left_ = k;
    other_ = std::move(other);
  }

  bool met() const { return left_ == 0; }

 private:
  void Meet() {
    if (left_ > 0 && --left_ == 0) other_();
  }

  int left_ = 0;
  std::function<void()> other_;
};

TEST_F(DirectoryLockTest, OfTwoThatTakeItFromTheDeadOneHasIt) {
  for (const bool from_dead : {false, true}) {
    bool met = true;
    for (int k = 1; met; ++k) {
      SCOPED_TRACE(StrCat("from an owner that has ended: ", from_dead, ", at call ", k));
      MeetingFiles files;
      ASSERT_TRUE(files.MakeDirectory(kRoot).ok());
      if (from_dead) {
        auto first = Take(files, Process(9));
        ASSERT_TRUE(first.ok()) << first.status();
        Leave(files, *std::move(first));
      }
      absl::StatusOr<std::unique_ptr<DirectoryLock>> other = absl::UnknownError("");
      files.MeetAt(k, [&] { other = Take(files, Process(3)); });
      auto own = Take(files, Process(2));
      met = files.met();
      if (!met) break;
      ASSERT_NE(own.ok(), other.ok()) << own.status() << " " << other.status();
      EXPECT_TRUE((own.ok() ? *own : *other)->Check().ok());
      ASSERT_FALSE(HasFailure());
    }
  }
}

}  // namespace
}  // namespace weft::test
