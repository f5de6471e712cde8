// All ranks of a node are stopped, for longer than a machine that does not answer is waited for: that is no failure, and is said.
#include <csignal>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/log.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "tests/comm/hierarchy/fake_node_ranks.h"
#include "tests/support/shared_value.h"

namespace weft::test {
namespace {

constexpr int64_t kLimitNs = kSecondNs;
constexpr size_t kElements = 100'003;

// What is logged in this process.
class Lines {
 public:
  Lines() {
    SetLogCallback(
        [](weft_log_level_t, const char* line, void* self) {
          auto* const lines = static_cast<Lines*>(self);
          const std::lock_guard lock(lines->mutex_);
          lines->text_ += StrCat(line, "\n");
        },
        this);
  }

  ~Lines() { SetLogCallback(nullptr, nullptr); }

  std::string Text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

struct Shared {
  std::atomic<int> pids[4] = {};
  std::atomic<int64_t> stopped_ns{0};
  std::atomic<int> stopped{0};
};

bool AwaitTrue(int64_t within_ns, const std::function<bool()>& done) {
  for (const int64_t until_ns = MonotonicNs() + within_ns; !done(); usleep(2'000)) {
    if (MonotonicNs() > until_ns) return false;
  }
  return true;
}

bool IsStopped(pid_t pid) {
  const auto process = SystemSeams().proc->Open(pid, 0);
  return process.ok() && weft::IsStalled((*process)->State());
}

// The sum of what ranks give: `base` and their numbers.
std::string Sum(ProcessGroup& group, int64_t base) {
  const std::vector<int64_t> in(kElements, base + group.rank());
  std::vector<int64_t> out(kElements, -1);
  const absl::Status status = group.Run({.kind = OpKind::kAllReduce,
                                         .dtype = WEFT_INT64,
                                         .op = WEFT_SUM,
                                         .count = kElements,
                                         .in = in.data(),
                                         .out = out.data()});
  if (!status.ok()) return std::string(status.message());
  const int64_t size = group.size();
  const int64_t expected = size * base + size * (size - 1) / 2;
  for (const int64_t value : out) {
    if (value != expected) return StrCat("the sum is ", value, " and not ", expected);
  }
  return "";
}

// Continues the ranks once rank 0 has said which is stopped, and they have been so for four limits.
std::string AwaitWordAndContinue(Lines* lines, Shared* shared, const std::vector<int>& ranks) {
  const auto told = [&] {
    return lines->Text().find("process does not answer though its machine does") !=
           std::string::npos;
  };
  const bool heard = AwaitTrue(30 * kSecondNs, told);
  (void)AwaitTrue(30 * kSecondNs,
                  [&] { return MonotonicNs() >= shared->stopped_ns.load() + 4 * kLimitNs; });
  for (const int rank : ranks)
    (void)kill(shared->pids[rank].load(), SIGCONT);
  if (!heard) return StrCat("nothing is said of the stopped rank: ", lines->Text());
  const std::string text = lines->Text();
  for (const int rank : ranks) {
    const std::string named = StrCat("rank ", rank, " (host ", DescribeSelf(0).host, ", pid ",
                                     shared->pids[rank].load(), ", process does not answer");
    if (text.find(named) != std::string::npos) return "";
  }
  return StrCat("it names another rank: ", text);
}

void StopANode(const Nodes& shape, const std::vector<int>& ranks) {
  const SharedValue<Shared> shared;
  RunNodes(
      shape,
      [&](ProcessGroup& group) -> std::string {
        shared->pids[group.rank()].store(getpid());
        if (const std::string problem = Sum(group, 1); !problem.empty()) return problem;
        const bool stops = std::count(ranks.begin(), ranks.end(), group.rank()) != 0;
        if (stops) {
          // The last stops all, with itself last: whoever is left would speak for the node.
          if (shared->stopped.fetch_add(1) + 1 < static_cast<int>(ranks.size())) {
            while (shared->stopped_ns.load() == 0)
              usleep(1'000);
          } else {
            shared->stopped_ns.store(MonotonicNs());
            for (const int rank : ranks) {
              if (rank != group.rank()) (void)kill(shared->pids[rank].load(), SIGSTOP);
            }
            (void)raise(SIGSTOP);
          }
          const std::string problem = Sum(group, 5);
          return problem.empty() ? Sum(group, 7) : problem;
        }
        std::string said;
        Lines lines;
        std::thread warned;
        if (group.rank() == 0) {
          warned = std::thread([&] {
            const bool all = AwaitTrue(20 * kSecondNs, [&] {
              return std::all_of(ranks.begin(), ranks.end(),
                                 [&](int rank) { return IsStopped(shared->pids[rank].load()); });
            });
            said = all ? AwaitWordAndContinue(&lines, shared.operator->(), ranks) : "they run on";
          });
        }
        std::string problem = Sum(group, 5);
        if (warned.joinable()) warned.join();
        if (problem.empty()) problem = said;
        return problem.empty() ? Sum(group, 7) : problem;
      },
      {.limit_ns = kLimitNs});
}

TEST(StoppedNode, OfOneRankIsWaitedForAndNamed) {
  StopANode({2, "0,1"}, {1});
  StopANode({3, "0,1,2"}, {1});
}

TEST(StoppedNode, OfSeveralRanksIsWaitedForAndNamed) {
  StopANode({4, "2"}, {2, 3});
}

// At its deadline an operation says that it waits for a stopped one.
TEST(StoppedNode, IsSaidAtTheDeadline) {
  const SharedValue<Shared> shared;
  RunNodes(
      {2, "0,1"},
      [&](ProcessGroup& group) -> std::string {
        shared->pids[group.rank()].store(getpid());
        if (const std::string problem = Sum(group, 1); !problem.empty()) return problem;
        if (group.rank() == 1) {
          (void)raise(SIGSTOP);
          return "";
        }
        const bool stopped =
            AwaitTrue(20 * kSecondNs, [&] { return IsStopped(shared->pids[1].load()); });
        const std::string said = Sum(group, 5);
        (void)kill(shared->pids[1].load(), SIGCONT);
        const absl::Status why = group.error();
        const bool right =
            stopped && ResultOf(why) == WEFT_TIMEOUT && FieldsOf(why).rank == 1 &&
            said.find("process does not answer though its machine does") != std::string::npos;
        return right ? "" : StrCat("it says: ", said);
      },
      {.limit_ns = kLimitNs}, -1, 4 * kSecondNs);
}

}  // namespace
}  // namespace weft::test
