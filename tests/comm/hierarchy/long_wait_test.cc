// Groups over nodes that somebody is late for, while they are made and made anew: each wait names, long before its deadline, the
// ranks that it is for.
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <regex>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/hierarchy/make_group.h"
#include "tests/comm/hierarchy/fake_node_ranks.h"
#include "tests/comm/node/directory_store.h"
#include "tests/comm/rendezvous/store_calls.h"
#include "tests/support/failing_calls.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/shared_value.h"

namespace weft::test::long_wait_test {
namespace {

// What weft logs in this process while it lives.
class Log {
 public:
  Log() { SetLogCallback(Take, this); }

  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  ~Log() { SetLogCallback(nullptr, nullptr); }

  bool Has(const std::string& pattern) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::regex_search(text_, std::regex(pattern));
  }

  std::string text() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return text_;
  }

 private:
  static void Take(weft_log_level_t, const char* message, void* self) {
    auto* const log = static_cast<Log*>(self);
    const std::lock_guard<std::mutex> lock(log->mutex_);
    log->text_ += StrCat(message, "\n");
  }

  std::mutex mutex_;
  std::string text_;
};

// All have met, and one node does not go on for longer than a wait is silent.
TEST(LongWait, MakingNamesTheRanksOfTheNodeThatDoesNotGoOn) {
  constexpr int64_t kLateNs = 5 * kSecondNs;
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(3, 120, [&](int rank) -> std::string {
    Log log;
    DirectoryStore store(directory.path());
    if (rank == 2) DelayCall("connect", kLateNs);
    const auto group =
        MakeGroup(&store, rank, 3, {.name = "late", .init_timeout_ns = 60 * kSecondNs},
                  {.fake_nodes = "0,1,1"});
    if (!group.ok()) return std::string(group.status().message());
    (*group)->Close();
    const bool said = log.Has(
        "group late: rank 0 has waited [0-9]+ s for ranks 1, 2, on the node of [^ ]+, which "
        "have met the others and do not go on");
    return said == (rank == 0) ? "" : StrCat("it logged: ", log.text());
  });
  for (const RankEnd& end : ends)
    EXPECT_EQ(end.Problem(), "");
}

// A rank takes longer for each piece of memory that its neighbour waits for than an operation of the
// group may. The group, once made, has the deadline of operations.
TEST(LongWait, MakingHasADeadlineOfItsOwn) {
  constexpr int64_t kOperationNs = 100'000'000;
  constexpr int64_t kLateNs = 3 * kOperationNs;
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(3, 120, [&](int rank) -> std::string {
    DirectoryStore store(directory.path());
    int late_count = 0;
    const std::function<void()> be_late = [&] {
      ++late_count;
      poll(nullptr, 0, kLateNs / 1'000'000);
      BeforeCall("fallocate", be_late, ThenCall::kIsMade);
    };
    if (rank == 0) BeforeCall("fallocate", be_late, ThenCall::kIsMade);
    const auto group =
        MakeGroup(&store, rank, 3,
                  {.name = "own", .timeout_ns = kOperationNs, .init_timeout_ns = 60 * kSecondNs},
                  {.fake_nodes = "0,0,1"});
    BeforeCall(
        "fallocate", [] {}, ThenCall::kIsMade);
    if (!group.ok()) return std::string(group.status().message());
    // The segments of the node's group and of its part, and what the ranks share in each.
    if (rank == 0 && late_count < 4) return StrCat("it was late ", late_count, " times");
    const absl::Status alone =
        rank == 1 ? (*group)->Run({.kind = OpKind::kBarrier}) : absl::OkStatus();
    if (rank == 1) (void)Set(store, "over", "", INT64_MAX);
    (void)Wait(store, "over", MonotonicNs() + 60 * kSecondNs);
    (*group)->Close();
    return rank != 1 || ResultOf(alone) == WEFT_TIMEOUT ? "" : StrCat("alone: ", alone.ToString());
  });
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
}

// The late rank waits until its neighbour has named it; the rank of the other node does not know whom that one waits for.
TEST(LongWait, MakingAnewNamesTheRanksOfTheOwnNodeThatHaveNotCalled) {
  struct Told {
    std::atomic<bool> neighbour{false};
    std::atomic<bool> other_node{false};
  };

  const SharedValue<Told> told;
  RunNodes({3, "0,0,1"}, [&](ProcessGroup& group) -> std::string {
    const int rank = group.rank();
    const int64_t until_ns = MonotonicNs() + 60 * kSecondNs;
    while (rank == 1 && !(told->neighbour && told->other_node)) {
      if (MonotonicNs() > until_ns) return "the others have not named it";
      poll(nullptr, 0, 10);
    }
    Log log;
    std::atomic<bool>* const said = rank == 0 ? &told->neighbour : &told->other_node;
    const std::string whom = rank == 0 ? "world rank 1 of this node" : "ranks of other nodes";
    const std::string pattern =
        StrCat("this rank has waited [0-9]+ s for ", whom, " to call weft_group_reconfigure");
    std::atomic<bool> over{false};
    std::thread look([&] {
      while (!over && rank != 1) {
        if (log.Has(pattern)) *said = true;
        poll(nullptr, 0, 10);
      }
    });
    const auto next = group.Reconfigure({}, {.name = "next"});
    over = true;
    look.join();
    if (!next.ok()) return std::string(next.status().message());
    (*next)->Close();
    return rank == 1 || *said ? "" : StrCat("it logged: ", log.text());
  });
}

}  // namespace
}  // namespace weft::test::long_wait_test
