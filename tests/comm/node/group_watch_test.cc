// What a group learns though nobody waits in it, and what a rank says while it waits: deaths, ranks that are stopped, the end of the
// group that it was split from.
#include <atomic>
#include <cerrno>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process_state.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/group/progress.h"
#include "message_case.h"
#include "rank_processes.h"
#include "tests/support/real_cgroup.h"
#include "tests/support/shared_value.h"

namespace weft::test {
namespace {

constexpr int kRanksMax = 8;

// What all ranks see before they have a group.
struct Exchange {
  std::atomic<int> told{0};
  std::atomic<int> pids[kRanksMax]{};
  std::atomic<int64_t> killed_ns{0};
  std::atomic<int64_t> latest_ns{0};  // from the death until the last survivor knew
};

void Sleep(int milliseconds) {
  poll(nullptr, 0, milliseconds);
}

bool Await(const std::atomic<int>& value, int want) {
  for (int i = 0; i < 60'000 && value.load() < want; ++i)
    Sleep(1);
  return value.load() >= want;
}

// The group's error, once it has one; Ok after `seconds`.
absl::Status AwaitError(ProcessGroup& group, int seconds) {
  for (int i = 0; i < seconds * 1000; ++i) {
    if (absl::Status error = group.error(); !error.ok()) return error;
    Sleep(1);
  }
  return absl::OkStatus();
}

std::string ExpectLost(const absl::Status& status, int rank, int signal) {
  const ErrorFields fields = FieldsOf(status);
  const bool as_expected =
      ResultOf(status) == WEFT_PEER_LOST && fields.rank == rank && fields.signal == signal;
  return as_expected ? "" : "got: " + Text(status);
}

void Kill(Exchange* exchange) {
  exchange->killed_ns.store(MonotonicNs());
  raise(SIGKILL);
}

void NoteLatest(Exchange* exchange) {
  const int64_t took_ns = MonotonicNs() - exchange->killed_ns.load();
  int64_t latest_ns = exchange->latest_ns.load();
  while (took_ns > latest_ns && !exchange->latest_ns.compare_exchange_weak(latest_ns, took_ns)) {
  }
}

class IdleGroup : public ::testing::TestWithParam<int> {};

TEST_P(IdleGroup, LearnsThatARankHasBeenKilled) {
  const int size = GetParam();
  for (int victim = 0; victim < size; victim += size - 1) {
    const SharedValue<Exchange> exchange;
    RunProcessRanks(size,
                    [&](ProcessGroup& group) -> std::string {
                      if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
                      if (group.rank() == victim) Kill(exchange.operator->());
                      std::string problem = ExpectLost(AwaitError(group, 20), victim, SIGKILL);
                      NoteLatest(exchange.operator->());
                      return problem;
                    },
                    {victim});
    EXPECT_LT(exchange->latest_ns.load(), 1'000'000'000) << "rank " << victim << " of " << size;
  }
}

// All groups that hold the rank, also those that were made of it alone with others; and no group is idle for ever.
TEST_P(IdleGroup, LearnsOfADeathInEachGroupThatHoldsTheRank) {
  const int size = GetParam();
  const int victim = size - 1;
  const SharedValue<Exchange> exchange;
  RunProcessRanks(size,
                  [&](ProcessGroup& group) -> std::string {
                    auto part = group.Split(0, size - group.rank(), {});
                    if (!part.ok()) return Text(part.status());
                    if (!(*part)->Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
                    if (group.rank() == victim) Kill(exchange.operator->());
                    std::string problem = ExpectLost(AwaitError(**part, 20), 0, SIGKILL);
                    if (problem.empty())
                      problem = ExpectLost(AwaitError(group, 20), victim, SIGKILL);
                    (*part)->Close();
                    return problem;
                  },
                  {victim});
}

INSTANTIATE_TEST_SUITE_P(RankSet, IdleGroup, ::testing::Values(2, 3, 5, 8));

// However many groups: their processes are the same.
TEST_P(IdleGroup, TakesFewDescriptors) {
  const int size = GetParam();
  RunProcessRanks(size, [&](ProcessGroup& group) -> std::string {
    std::vector<std::shared_ptr<ProcessGroup>> parts;
    for (int i = 0; i < 5; ++i) {
      auto part = group.Split(0, 0, {});
      if (!part.ok()) return Text(part.status());
      parts.push_back(*std::move(part));
    }
    size_t descriptors = 0;
    for (const std::string& target : Holdings::Now().descriptors)
      descriptors += target.find("pipe:") == std::string::npos && target[0] != '/' ? 1 : 0;
    for (const auto& part : parts)
      part->Close();
    const auto allowed = static_cast<size_t>(4 + size - 1);
    return descriptors <= allowed ? "" : std::to_string(descriptors) + " descriptors";
  });
}

// A rank that has left is not lost, however it ends afterwards.
TEST(RankThatHasLeft, IsNotLostWhenItsProcessEnds) {
  const SharedValue<Exchange> exchange;
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(3, 60, [&](int rank) -> std::string {
    DirectoryStore store(directory.path());
    auto group = MakeNodeGroup(&store, rank, 3, {.name = "p", .timeout_ns = 20'000'000'000});
    if (!group.ok()) return Text(group.status());
    if (!(*group)->Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
    if (rank == 2) {
      (*group)->Close();
      exchange->told = 1;
      _exit(0);
    }
    if (!Await(exchange->told, 1)) return "nobody left";
    Sleep(700);
    const absl::Status error = (*group)->error();
    (*group)->Close();
    return error.ok() ? "" : Text(error);
  });
  for (const RankEnd& end : ends)
    EXPECT_EQ(end.Problem(), "");
}

// What it sent before counts, and then it is lost.
TEST(RankThatHasSent, IsLostWhenItsMessagesHaveBeenRead) {
  const SharedValue<Exchange> exchange;
  RunProcessRanks(2,
                  [&](ProcessGroup& group) -> std::string {
                    char data[8] = {};
                    if (group.rank() == 1) {
                      if (!group.Run(SendOf(data, sizeof(data), 0, 5)).ok())
                        return "the send failed";
                      exchange->told = 1;
                      raise(SIGKILL);
                    }
                    if (!Await(exchange->told, 1)) return "nobody sent";
                    Sleep(100);
                    const absl::Status status = group.Run(RecvOf(data, sizeof(data), 1, 5));
                    if (!status.ok()) return Text(status);
                    return ExpectLost(AwaitError(group, 20), 1, SIGKILL);
                  },
                  {1});
}

// Rank 1 is stopped before it has come; the last one comes, and is killed. Nobody waits for that one, and all learn of it.
class StoppedRank : public ::testing::TestWithParam<size_t> {};

TEST_P(StoppedRank, DoesNotHideTheDeathOfAnother) {
  constexpr int kSize = 4;
  const SharedValue<Exchange> exchange;
  RunProcessRanks(kSize,
                  [&](ProcessGroup& group) -> std::string {
                    exchange->pids[group.rank()] = getpid();
                    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
                    std::vector<float> data(GetParam(), 1);
                    const Collective call{.kind = OpKind::kAllReduce,
                                          .dtype = WEFT_FLOAT32,
                                          .count = data.size(),
                                          .in = data.data(),
                                          .out = data.data()};
                    if (group.rank() == 1) {
                      raise(SIGSTOP);
                      return ExpectLost(group.Run(call), kSize - 1, SIGKILL);
                    }
                    if (group.rank() == kSize - 1) {
                      if (!group.Start(call).ok()) return "the start failed";
                      Sleep(50);
                      Kill(exchange.operator->());
                    }
                    std::string problem = ExpectLost(group.Run(call), kSize - 1, SIGKILL);
                    NoteLatest(exchange.operator->());
                    if (++exchange->told == kSize - 2) kill(exchange->pids[1], SIGCONT);
                    return problem;
                  },
                  {kSize - 1});
  EXPECT_LT(exchange->latest_ns.load(), 2'000'000'000);
}

INSTANTIATE_TEST_SUITE_P(Counts, StoppedRank, ::testing::Values(1, 1000, 100'000));

// The lines that a process logs.
class LogLines {
 public:
  LogLines() {
    SetLogCallback(
        [](weft_log_level_t, const char* message, void* self) {
          auto& lines = *static_cast<LogLines*>(self);
          MutexLock lock(lines.mutex_);
          lines.text_ += std::string(message) + "\n";
        },
        this);
  }

  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  ~LogLines() { SetLogCallback(nullptr, nullptr); }

  std::string Text() {
    MutexLock lock(mutex_);
    return text_;
  }

 private:
  Mutex mutex_;
  std::string text_ WEFT_GUARDED_BY(mutex_);
};

std::string Line(const std::string& text, std::string_view with) {
  size_t begin = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::string line = text.substr(begin, end - begin);
    if (line.find(with) != std::string::npos) return line;
  }
  return "";
}

bool AwaitLine(LogLines& lines, std::string_view with, int seconds) {
  for (int i = 0; i < seconds * 100 && Line(lines.Text(), with).empty(); ++i) {
    Sleep(10);
    ProgressAll();  // where no thread does
  }
  return !Line(lines.Text(), with).empty();
}

bool HasAll(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) return false;
  }
  return !text.empty();
}

// A stopped rank is said to be, twice, by those who wait for it; and the operation is done once it goes on.
TEST(LongWait, IsReportedAndEndsWellWhenTheStoppedRankGoesOn) {
  constexpr int kSize = 3;
  constexpr int kStopped = 1;
  const SharedValue<Exchange> exchange;
  RunProcessRanks(kSize, [&](ProcessGroup& group) -> std::string {
    exchange->pids[group.rank()] = getpid();
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
    const std::string stopped_pid = "pid " + std::to_string(exchange->pids[kStopped].load());
    float sum = 1;
    const Collective call{
        .kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 1, .in = &sum, .out = &sum};
    LogLines lines;
    if (group.rank() == kStopped) raise(SIGSTOP);
    if (group.rank() == 0) {
      auto work = group.Start(call);
      if (!work.ok()) return Text(work.status());
      for (int i = 0; i < 1250; ++i) {
        Sleep(10);
        ProgressAll();  // where no thread does
      }
      const std::string text = lines.Text();
      kill(exchange->pids[kStopped], SIGCONT);
      if (!HasAll(Line(text, "holds it up"),
                  {"all_reduce (sum) of 1 float32 #3 on group p", "has waited for 2 s on rank 0",
                   "rank 1 (", stopped_pid, "process stopped"})) {
        return "no line says that rank 1 is stopped: " + text;
      }
      if (!HasAll(Line(text, "goes on waiting"),
                  {"all_reduce (sum) of 1 float32 #3 on group p", "has waited for 10 s", "rank 1 (",
                   "last call barrier #2", "did not arrive"})) {
        return "no line says who has not come: " + text;
      }
      if (const absl::Status status = (*work)->Wait(0); !status.ok()) return Text(status);
    } else {
      if (const absl::Status status = group.Run(call); !status.ok()) return Text(status);
    }
    if (sum != kSize) return "the sum is " + std::to_string(sum);
    const std::string text = lines.Text();
    if (group.rank() == kStopped) return text.empty() ? "" : "the stopped rank says: " + text;
    return Line(text, "holds it up").empty() ? "nothing was said: " + text : "";
  });
}

// A rank whose control group gives it a hundredth of a CPU: it is not dead, and not stopped, and the others say why it does not come.
TEST(LongWait, SaysThatARankGetsNoCpu) {
  constexpr int kStarved = 1;
  const RealCgroup cgroup("cpu", "cpu.cfs_quota_us", "cpu.max");
  if (!cgroup.made()) GTEST_SKIP() << "no control groups can be made here";
  const bool limited = cgroup.version() == 1 ? cgroup.Write("cpu.cfs_quota_us", "1000")
                                             : cgroup.Write("cpu.max", "1000 100000");
  if (!limited) GTEST_SKIP() << "no quota can be set here";
  const SharedValue<Exchange> exchange;
  RunProcessRanks(3, [&](ProcessGroup& group) -> std::string {
    const int rank = group.rank();
    exchange->pids[rank] = getpid();
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
    if (!ReadCpuWaitNs("", exchange->pids[kStarved])) return "";  // this kernel does not say
    LogLines lines;
    if (rank == 0 && !cgroup.Take(exchange->pids[kStarved])) return "could not starve rank 1";
    if (rank == 0) exchange->told = 1;
    if (rank == kStarved) {
      const int64_t begin_ns = MonotonicNs();
      while (exchange->told < 2 && MonotonicNs() - begin_ns < 60'000'000'000) {
      }
    } else if (rank == 2) {
      auto work = group.Start({.kind = OpKind::kBarrier, .background = true});
      if (!work.ok()) return Text(work.status());
      const bool said = AwaitLine(lines, "gets almost no CPU", 20);
      cgroup.Write(cgroup.version() == 1 ? "cpu.cfs_quota_us" : "cpu.max",
                   cgroup.version() == 1 ? "-1" : "max 100000");
      exchange->told = 2;
      const absl::Status status = (*work)->Wait(0);
      return said && status.ok() ? "" : "said: " + lines.Text() + Text(status);
    }
    const absl::Status status = group.Run({.kind = OpKind::kBarrier});
    return status.ok() ? "" : Text(status);
  });
}

// Each rank waits in a group of its own with the next one, which has gone to another group before: all say so, soon. Ranks that are
// only late are not accused.
TEST(Cycle, OverGroupsIsReportedByAllOfItsRanks) {
  constexpr int kSize = 3;
  const SharedValue<Exchange> exchange;
  RunProcessRanks(kSize + 1, [&](ProcessGroup& group) -> std::string {
    const int rank = group.rank();
    exchange->pids[rank] = getpid();
    std::vector<std::shared_ptr<ProcessGroup>> pairs;  // pair i: ranks i and i + 1
    for (int pair = 0; pair < kSize; ++pair) {
      const bool inside = rank == pair || rank == (pair + 1) % kSize;
      auto made = group.Split(inside ? 0 : -1, 0, {.name = "pair" + std::to_string(pair)});
      if (!made.ok()) return Text(made.status());
      pairs.push_back(*std::move(made));
    }
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
    std::string problem;
    LogLines lines;
    Collective barrier{.kind = OpKind::kBarrier};
    barrier.timeout_ns = 2'500'000'000;
    if (rank < kSize) {
      const absl::Status status = pairs[static_cast<size_t>(rank)]->Run(barrier);
      const std::string line = Line(lines.Text(), "CROSS_GROUP_DEADLOCK");
      std::vector<std::string> parts;
      for (int i = 0; i < kSize; ++i) {
        parts.push_back("pid " + std::to_string(exchange->pids[i].load()) + ", rank ");
        parts.push_back("in barrier #1 on group pair" + std::to_string(i) + ", waits for");
      }
      if (status.ok()) problem = "the barrier is done";
      if (!HasAll(line, parts)) problem = "said: " + lines.Text() + Text(status);
      ++exchange->told;
    } else if (!Await(exchange->told, kSize)) {
      problem = "the others did not end";
    } else if (!lines.Text().empty()) {
      problem = "said: " + lines.Text();
    }
    for (const auto& pair : pairs) {
      if (pair != nullptr) pair->Close();
    }
    return problem;
  });
}

TEST(Cycle, IsNotReportedOfARankThatIsLate) {
  RunProcessRanks(3, [&](ProcessGroup& group) -> std::string {
    auto other = group.Split(0, 0, {.name = "other"});
    if (!other.ok()) return Text(other.status());
    LogLines lines;
    if (group.rank() == 1) Sleep(1'500);
    if (group.rank() == 2) Sleep(700);
    std::string problem;
    for (ProcessGroup* const one : {&group, other->get()}) {
      if (const absl::Status status = one->Run({.kind = OpKind::kBarrier}); !status.ok()) {
        problem = Text(status);
      }
    }
    if (!Line(lines.Text(), "CROSS_GROUP_DEADLOCK").empty()) problem = "said: " + lines.Text();
    (*other)->Close();
    return problem;
  });
}

// One who waits in a part learns that the parent has ended; who is outside of the part has ended it.
TEST(Part, EndsWithTheGroupThatItWasSplitFrom) {
  constexpr int kSize = 4;
  RunProcessRanks(kSize, [&](ProcessGroup& group) -> std::string {
    auto part = group.Split(group.rank() / 2, 0, {});
    if (!part.ok()) return Text(part.status());
    auto part_of_part = (*part)->Split(0, 0, {});
    if (!part_of_part.ok()) return Text(part_of_part.status());
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
    std::string problem;
    if (group.rank() == 0) {
      Sleep(30);
      group.Abort("enough");
    } else if (group.rank() == 3) {
      const absl::Status status =
          (*part_of_part)->Run({.kind = OpKind::kBarrier});  // rank 2 is idle
      if (ResultOf(status) != WEFT_ABORTED || Text(status).find("enough") == std::string::npos) {
        problem = "got: " + Text(status);
      }
    } else if (ResultOf(AwaitError(**part, 20)) != WEFT_ABORTED) {
      problem = "the part goes on";
    }
    (*part_of_part)->Close();
    (*part)->Close();
    return problem;
  });
}

}  // namespace
}  // namespace weft::test
