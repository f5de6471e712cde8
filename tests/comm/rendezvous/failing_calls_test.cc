// The k-th system call of a bootstrap fails, for every k: the bootstrap ends in a status, soon, and
// leaves nothing open.
#include "tests/support/failing_calls.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/pages.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/rendezvous/store_server.h"
#include "tests/comm/rendezvous/exchanging_rank.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kDeadlineNs = 5'000'000'000;

// A server and three ranks in this thread, over real sockets; then a segment each.
absl::Status Bootstrap(int k) {
  Endpoint endpoint = {.kind = Endpoint::Kind::kTcp, .host = "127.0.0.1"};
  StoreServer server(SystemSeams(), {.secret = "secret"});
  WEFT_RETURN_IF_ERROR(server.AddListener(&endpoint));
  const int64_t deadline_ns = MonotonicNs() + kDeadlineNs;
  std::vector<std::unique_ptr<ExchangingRank>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    StoreClientOptions options;
    options.endpoints = {endpoint};
    options.secret = "secret";
    options.rank = rank;
    options.connect_deadline_ns = deadline_ns;
    ranks.push_back(
        std::make_unique<ExchangingRank>(SystemSeams(), options, kRanks, 100 + rank, deadline_ns));
  }
  const int64_t give_up_ns = deadline_ns + 5'000'000'000;
  bool finished = false;
  while (!finished && MonotonicNs() < give_up_ns) {
    std::vector<PollItem> items;
    int64_t wake_ns = server.NextWakeNs();
    server.AppendPollItems(&items);
    for (const auto& rank : ranks) {
      rank->AppendPollItems(&items);
      wake_ns = std::min(wake_ns, rank->NextWakeNs());
    }
    WEFT_RETURN_IF_ERROR(SystemSeams().net->Poll(items, wake_ns));
    server.Step();
    finished = true;
    for (const auto& rank : ranks) {
      rank->Step();
      finished = finished && rank->finished();
      // The others would wait for this one until the deadline; that is tested elsewhere.
      if (rank->finished() && !rank->result().ok()) return rank->result().status();
    }
  }
  EXPECT_TRUE(finished) << "call " << k << ": a rank hung";
  WEFT_ASSIGN_OR_RETURN(Pages pages, Pages::Create("weft-test", 1 << 16, Backing::kAllocated));
  WEFT_RETURN_IF_ERROR(pages.Populate(0, pages.size()));
  WEFT_RETURN_IF_ERROR(pages.Release(0, 8192));
  UniqueFd copy(fcntl(pages.fd(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return SystemError(errno, "could not copy a descriptor");
  return Pages::Adopt(std::move(copy), 1 << 16).status();
}

TEST(FailingCalls, ABootstrapSurvivesTheFailureOfAnyCall) {
  ASSERT_TRUE(Bootstrap(0).ok());
  std::set<std::string> kinds;
  int errors = 0;
  int k = 1;
  for (;; ++k) {
    const Holdings before = Holdings::Now();
    bool struck = false;
    absl::Status status;
    {
      FailingCalls failing(k);
      status = Bootstrap(k);
      struck = failing.struck();
      kinds.insert(failing.what());
    }
    ASSERT_EQ(Holdings::Now().Since(before), "") << "call " << k;
    if (!struck) {
      EXPECT_TRUE(status.ok()) << status;
      break;
    }
    if (!status.ok()) {
      ++errors;
      EXPECT_FALSE(status.message().empty());
    }
  }
  RecordProperty("calls", k);
  EXPECT_GT(k, 100);
  EXPECT_GT(errors, 20);
  EXPECT_GT(kinds.size(), 15u);
}

}  // namespace
}  // namespace weft::test
