// Ranks that die, or come late, while a group is made or split: the survivors name the dead one within
// seconds, by its rank, process and signal, and nobody else; a late one is waited for.
#include <filesystem>
#include <random>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/node/make_group.h"
#include "directory_store.h"
#include "left_behind.h"
#include "tests/comm/rendezvous/store_calls.h"
#include "tests/support/failing_calls.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

constexpr int64_t kInitNs =
    100'000'000'000;  // if a test takes so long, somebody waited for the deadline
constexpr int64_t kNamedNs = 20'000'000'000;  // a second is promised; machines are slow
#ifdef WEFT_SANITIZE
constexpr int kEvery = 7;
constexpr int kSeeds = 6;
#else
constexpr int kEvery = 1;
constexpr int kSeeds = 20;
#endif

std::string Text(const absl::Status& status) {
  return std::string(status.message());
}

// Tells when this rank's line is written, from when on the others know of it.
class TellingStore : public DirectoryStore {
 public:
  TellingStore(const std::filesystem::path& path, std::function<void()> known)
      : DirectoryStore(path), known_(std::move(known)) {}

  StoreReply Ask(StoreRequest request) override {
    const bool line =
        request.kind == StoreRequest::Kind::kSet && request.key.find("/line/") != std::string::npos;
    StoreReply reply = DirectoryStore::Ask(std::move(request));
    if (line) known_();
    return reply;
  }

 private:
  std::function<void()> known_;
};

GroupOptions Options() {
  return {.name = "p", .timeout_ns = kInitNs, .init_timeout_ns = kInitNs};
}

// "" if the status names the victim, which a signal has ended.
std::string NamesVictim(const absl::Status& status, int victim, int64_t since_ns) {
  const ErrorFields fields = FieldsOf(status);
  if (ResultOf(status) != WEFT_PEER_LOST) return "got: " + Text(status);
  if (fields.rank != victim || fields.world_rank != victim || fields.pid <= 0) {
    return "blames: " + Text(status);
  }
  if (fields.signal != SIGKILL) return "signal not named: " + Text(status);
  if (MonotonicNs() - since_ns > kNamedNs) return "late: " + Text(status);
  return "";
}

// What a survivor of `victim` is told: when the group is made, or by the first operations on it.
std::string Survive(Store& store, int rank, int size, int victim) {
  const int64_t start_ns = MonotonicNs();
  const auto group = MakeNodeGroup(&store, rank, size, Options());
  absl::Status status = group.status();
  while (status.ok())
    status = (*group)->Run({.kind = OpKind::kBarrier});
  std::string problem = NamesVictim(status, victim, start_ns);
  if (group.ok()) (*group)->Close();
  return problem;
}

// One trial; `dies` is called in the victim when the others know of it.
void Trial(int size, int victim, const std::string& what, const std::function<void()>& dies) {
  SCOPED_TRACE(what + ", victim " + std::to_string(victim));
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(size, 120, [&](int rank) -> std::string {
    if (rank != victim) {
      DirectoryStore store(directory.path());
      return Survive(store, rank, size, victim);
    }
    TellingStore store(directory.path(), dies);
    const auto group = MakeNodeGroup(&store, rank, size, Options());
    if (!group.ok()) return "the victim lived: " + Text(group.status());
    kill(getpid(), SIGKILL);
    return "";
  });
  for (int rank = 0; rank < size; ++rank) {
    const RankEnd& end = ends[static_cast<size_t>(rank)];
    if (rank == victim) {
      EXPECT_TRUE(WIFSIGNALED(end.wait_status)) << end.Problem();
    } else {
      EXPECT_EQ(end.Problem(), "") << "rank " << rank;
    }
  }
}

class Dies : public ::testing::TestWithParam<int> {};

// At each system call that it makes, from when on the others know of it.
TEST_P(Dies, AtEachCallAndIsNamedByTheOthers) {
  constexpr int kCallsMax = 60;
  for (int k = 1 + GetParam() % kEvery; k <= kCallsMax && !HasFailure(); k += kEvery)
    Trial(3, GetParam(), "call " + std::to_string(k), [&] { DieAtCall(k); });
}

INSTANTIATE_TEST_SUITE_P(EachRank, Dies, ::testing::Values(0, 1, 2));

// At any time: also between calls, and in what other threads see.
TEST(DiesAnyTime, AndIsNamedByTheOthers) {
  constexpr int kSize = 4;
  for (int number = 0; number < kSeeds && !HasFailure(); ++number) {
    const uint64_t seed = TestSeed(1) * 1000 + static_cast<uint64_t>(number);
    std::mt19937_64 random(seed);
    const int victim = static_cast<int>(random() % kSize);
    const auto delay_ns = static_cast<int64_t>(random() % 20'000'000);
    Trial(kSize, victim, "seed " + std::to_string(seed), [&] {
      std::thread([delay_ns] {
        const timespec delay{0, delay_ns};
        ppoll(nullptr, 0, &delay, nullptr);
        kill(getpid(), SIGKILL);
      }).detach();
    });
  }
}

TEST(DiesInASplit, AndIsNamedByTheOthers) {
  constexpr int kSize = 4;
  for (int number = 0; number < kSeeds && !HasFailure(); ++number) {
    const uint64_t seed = TestSeed(1) * 1000 + static_cast<uint64_t>(number);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const int victim = static_cast<int>(random() % kSize);
    const auto delay_ns = static_cast<int64_t>(random() % 5'000'000);
    const TemporaryDirectory directory;
    const auto ends = RunForkedRanks(kSize, 120, [&](int rank) -> std::string {
      DirectoryStore store(directory.path());
      const auto group = MakeNodeGroup(&store, rank, kSize, Options());
      if (!group.ok()) return Text(group.status());
      if (rank == victim) {
        std::thread([delay_ns] {
          const timespec delay{0, delay_ns};
          ppoll(nullptr, 0, &delay, nullptr);
          kill(getpid(), SIGKILL);
        }).detach();
      }
      const int64_t start_ns = MonotonicNs();
      absl::Status status;
      while (status.ok()) {
        // The victim is in everybody's part, under another rank: the split of all names it by this one.
        auto part = (*group)->Split(0, rank, {.name = "part"});
        status = part.status();
        if (part.ok()) status = (*part)->Run({.kind = OpKind::kBarrier});
        if (part.ok()) (*part)->Close();
      }
      (*group)->Close();
      return NamesVictim(status, victim, start_ns);
    });
    for (int rank = 0; rank < kSize; ++rank) {
      const RankEnd& end = ends[static_cast<size_t>(rank)];
      if (rank == victim) {
        EXPECT_TRUE(WIFSIGNALED(end.wait_status)) << end.Problem();
      } else {
        EXPECT_EQ(end.Problem(), "") << "rank " << rank;
      }
    }
  }
}

// Longer than anybody's patience with a stranger.
TEST(ALateRank, IsWaitedForWhereverItIsLate) {
  constexpr int64_t kLateNs = 1'500'000'000;
  constexpr int kSize = 3;
  for (const char* const call : {"connect", "sendmsg", "recvmsg", "send", "recv", "accept4"}) {
    for (const int late : {0, 2}) {
      SCOPED_TRACE(std::string(call) + " of rank " + std::to_string(late));
      const TemporaryDirectory directory;
      const auto ends = RunForkedRanks(kSize, 120, [&](int rank) -> std::string {
        DirectoryStore store(directory.path());
        if (rank == late) DelayCall(call, kLateNs);
        const auto group = MakeNodeGroup(&store, rank, kSize, Options());
        if (!group.ok()) return Text(group.status());
        const absl::Status met = (*group)->Run({.kind = OpKind::kBarrier});
        (*group)->Close();
        return Text(met);
      });
      for (const RankEnd& end : ends)
        EXPECT_EQ(end.Problem(), "");
    }
  }
}

// All have met; one does not go on for longer than a wait is silent.
TEST(ALateRank, IsSpokenOfByThoseThatWaitForItsMemory) {
  constexpr int64_t kLateNs = 4'000'000'000;
  constexpr int kSize = 3;
  const std::string expected[kSize] = {
      "group late: rank 0 has waited [23] s for rank 2 to exchange memory, after all ranks have "
      "met",
      "group late: rank 1 has waited [23] s for rank 0 to share the group's memory", ""};
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(kSize, 120, [&](int rank) -> std::string {
    std::string log;
    SetLogCallback([](weft_log_level_t, const char* message,
                      void* text) { *static_cast<std::string*>(text) += message; },
                   &log);
    DirectoryStore store(directory.path());
    if (rank == 2) DelayCall("connect", kLateNs);
    GroupOptions options = Options();
    options.name = "late";
    const auto group = MakeNodeGroup(&store, rank, kSize, options);
    if (!group.ok()) return Text(group.status());
    (*group)->Close();
    SetLogCallback(nullptr, nullptr);
    const bool said = std::regex_search(log, std::regex(expected[rank]));
    return said ? "" : "it logged: " + log;
  });
  for (const RankEnd& end : ends)
    EXPECT_EQ(end.Problem(), "");
}

// Rank 0 has told it to enter, and has given up long before it does anything.
struct LateDecision {
  const char* name;
  ThenCall then;  // the call that hears of it
  bool forks;     // meanwhile: the child has copies of the rank's descriptors
};

class ARankToldToEnter : public ::testing::TestWithParam<LateDecision> {
 protected:
  static constexpr const char* kNotTold = "rank 0 gave up before it told this rank to enter";

  static std::string GiveUp(DirectoryStore& store, int64_t init_ns) {
    const auto group = MakeNodeGroup(
        &store, 0, 2, {.name = "p", .timeout_ns = kInitNs, .init_timeout_ns = init_ns});
    if (group.ok()) return "there is a group";
    // What rank 0 holds for the other one must stay now, though others of its groups are closed.
    for (int i = 0; i < 3; ++i)
      CreateLocalGroups(1, {.name = "reaper"}).value()[0]->Close();
    return "";
  }

  static std::string DecideLate(DirectoryStore& store) {
    bool told = false;
    pid_t child = -1;
    const auto meanwhile = [&] {
      told = Wait(store, "gave-up", MonotonicNs() + kInitNs).ok();
      if (GetParam().forks && (child = fork()) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (true)
          pause();
      }
    };
    BeforeCall("recv", meanwhile, GetParam().then);
    const auto group = MakeNodeGroup(
        &store, 1, 2, {.name = "p", .timeout_ns = kInitNs, .init_timeout_ns = kInitNs});
    const absl::Status& status = group.status();
    std::string problem;
    if (status.ok()) problem = "there is a group";
    if (ResultOf(status) == WEFT_CORRUPT ||
        Text(status).find("another program") != std::string::npos)
      problem = Text(status);
    if (!told) problem = kNotTold;
    // Until rank 0 has looked.
    if (!Wait(store, "looked", MonotonicNs() + kInitNs).ok()) problem = "rank 0 did not look";
    if (child > 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    return problem;
  }
};

// Whether it gives up or enters; it lives, and goes on with another group, and so with another heap.
TEST_P(ARankToldToEnter, IsNotWaitedForByRank0sMemory) {
  std::vector<RankEnd> ends;
  for (int64_t init_ns = 1'000'000'000; init_ns < 20'000'000'000; init_ns *= 2) {
    const TemporaryDirectory directory;
    ends = RunForkedRanks(2, 120, [&](int rank) -> std::string {
      DirectoryStore store(directory.path());
      const Holdings before = Holdings::Now();
      std::string problem = rank == 0 ? GiveUp(store, init_ns) : "";
      if (rank == 0 && !Set(store, "gave-up", "", INT64_MAX).ok()) problem = "cannot say it";
      if (rank == 1) problem = DecideLate(store);
      if (problem.empty()) problem = LeftBehind(before);
      if (rank == 0 && !Set(store, "looked", "", INT64_MAX).ok()) problem = "cannot say it";
      return problem;
    });
    if (ends[1].said != kNotTold) break;
  }
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(Late, ARankToldToEnter,
                         ::testing::Values(LateDecision{"GivesUp", ThenCall::kFails, false},
                                           LateDecision{"GivesUpWithAChild", ThenCall::kFails,
                                                        true},
                                           LateDecision{"Enters", ThenCall::kIsMade, false}),
                         [](const auto& test) { return std::string(test.param.name); });

// The check of a thread that says once that the thread is to be interrupted: when the key is there.
struct InterruptByKey {
  Store& store;
  const char* key;
  bool said = false;

  static int Check(void* user) {
    auto& self = *static_cast<InterruptByKey*>(user);
    if (self.said || !Wait(self.store, self.key, MonotonicNs()).ok()) return 0;
    self.said = true;
    return 1;
  }
};

// All other ranks have been told to enter, and one has not done so yet.
TEST(Rank0, IsInterruptedWhileItWaitsForARankToEnter) {
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(2, 120, [&](int rank) -> std::string {
    DirectoryStore store(directory.path());
    const Holdings before = Holdings::Now();
    const auto enter_late = [&] {
      (void)Set(store, "told", "", INT64_MAX);
      (void)Wait(store, "over", MonotonicNs() + kInitNs);
    };
    if (rank == 1) BeforeCall("recv", enter_late, ThenCall::kIsMade);
    InterruptByKey interrupt{store, "told"};
    if (rank == 0) {
      SetInterrupt({.check = InterruptByKey::Check, .user = &interrupt, .every_ns = 10'000'000});
    }
    const int64_t init_ns = rank == 0 ? kNamedNs : kInitNs;
    const auto group = MakeNodeGroup(
        &store, rank, 2, {.name = "p", .timeout_ns = kInitNs, .init_timeout_ns = init_ns});
    SetInterrupt({});
    if (group.ok()) return "there is a group";
    std::string problem;
    if (rank == 0 && ResultOf(group.status()) != WEFT_INTERRUPTED) problem = Text(group.status());
    if (rank == 0) (void)Set(store, "over", "", INT64_MAX);
    return problem + LeftBehind(before);
  });
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
}

// Only rank 0 knows for whom all wait: it tells the others when it gives up, so that none of them blames rank 0.
TEST(ARankThatIsTooLate, IsNamedOnEveryRank) {
  constexpr int64_t kShortNs = 1'000'000'000;
  constexpr int kSize = 4;
  for (const char* const call : {"sendmsg", "send"}) {
    SCOPED_TRACE(call);
    const TemporaryDirectory directory;
    const auto ends = RunForkedRanks(kSize, 120, [&](int rank) -> std::string {
      DirectoryStore store(directory.path());
      // Before it is known to rank 0; when it has what it needs and does not say so.
      if (rank == 2) FailCallLate(call, 4 * kShortNs);
      const auto group = MakeNodeGroup(
          &store, rank, kSize, {.name = "p", .timeout_ns = kInitNs, .init_timeout_ns = kShortNs});
      if (group.ok()) return "there is a group";
      if (rank == 2) return "";
      const absl::Status& status = group.status();
      if (ResultOf(status) != WEFT_TIMEOUT) return "got: " + Text(status);
      if (FieldsOf(status).rank != 2) return "blames another: " + Text(status);
      return Text(status).find("rank 2 did not") == std::string::npos ? Text(status) : "";
    });
    for (size_t rank = 0; rank < ends.size(); ++rank)
      EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
  }
}

// 64 lists of 64 descriptors are four times what the system lets such a user have under way.
TEST(AnOrdinaryUser, MakesAGroupOf64With1024Descriptors) {
#ifdef WEFT_SANITIZE
  constexpr int kSize = 16;
#else
  constexpr int kSize = kNodeRanksMax;
#endif
  constexpr uid_t kNobodyElse = 54'321;
  const TemporaryDirectory directory;
  std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
  const auto ends = RunForkedRanks(kSize, 240, [&](int rank) -> std::string {
    const rlimit limit = {1024, 1024};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return "setrlimit";
    const bool root = geteuid() == 0;
    if (root &&
        (setgroups(0, nullptr) != 0 || setgid(kNobodyElse) != 0 || setuid(kNobodyElse) != 0)) {
      return "could not become an ordinary user";
    }
    // None reads its list before rank 0 would have sent all of them.
    if (rank != 0) DelayCall("poll", 3'000'000'000);
    DirectoryStore store(directory.path());
    const auto group = MakeNodeGroup(&store, rank, kSize, Options());
    if (!group.ok()) return Text(group.status());
    const absl::Status met = (*group)->Run({.kind = OpKind::kBarrier});
    (*group)->Close();
    return Text(met);
  });
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
}

}  // namespace
}  // namespace weft::test
