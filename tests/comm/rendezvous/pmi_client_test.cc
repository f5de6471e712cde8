// PmiClient against a small PMI-1 launcher in this process: one thread serves all ranks.
#include "comm/rendezvous/pmi_client.h"

#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "tests/comm/rendezvous/pmi_launcher.h"

namespace weft::test::pmi_client_test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int64_t kSecondNs = 1'000'000'000;

TEST(PmiClient, CarriesTheEndpointOfRankZeroToAll) {
  for (int size : {1, 2, 5}) {
    std::vector<PmiPair> pairs(size);
    PmiLauncher launcher(pairs);
    std::vector<std::string> got(size);
    std::thread server([&] { launcher.Serve(); });
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([&, rank] {
        const int64_t deadline_ns = MonotonicNs() + 20 * kSecondNs;
        auto pmi = PmiClient::Start(pairs[rank].rank.get(), deadline_ns);
        ASSERT_TRUE(pmi.ok()) << pmi.status();
        EXPECT_EQ((*pmi)->space(), "kvs_1_0");
        auto endpoint = (*pmi)->PublishFromRankZero(rank, "tcp:node1:4711", deadline_ns);
        ASSERT_TRUE(endpoint.ok()) << endpoint.status();
        got[rank] = *endpoint;
      });
    }
    for (std::thread& rank : ranks)
      rank.join();
    server.join();
    EXPECT_EQ(got, std::vector<std::string>(size, "tcp:node1:4711"));
    EXPECT_THAT(launcher.seen, ::testing::Contains(std::string("cmd=finalize")).Times(size));
  }
}

// What Start says when the launcher has already written `bytes`.
absl::Status StartAfter(const std::string& bytes, bool hang_up = false) {
  PmiPair pair;
  EXPECT_EQ(write(pair.launcher.get(), bytes.data(), bytes.size()),
            static_cast<ssize_t>(bytes.size()));
  if (hang_up) shutdown(pair.launcher.get(), SHUT_WR);
  return PmiClient::Start(pair.rank.get(), MonotonicNs() + kSecondNs / 20).status();
}

TEST(PmiClient, RefusesWhatIsNoPmi) {
  const std::string hello = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
  EXPECT_EQ(ResultOf(StartAfter("HTTP/1.1 400 Bad Request\n")), WEFT_CORRUPT);
  EXPECT_EQ(ResultOf(StartAfter(std::string(kPmiLineBytesMax + 1, 'x'))), WEFT_CORRUPT);
  EXPECT_EQ(ResultOf(StartAfter("cmd=response_to_init rc=-1\n")), WEFT_UNSUPPORTED);
  EXPECT_EQ(ResultOf(StartAfter(hello + "cmd=my_kvsname\n")), WEFT_CORRUPT);
  EXPECT_EQ(ResultOf(StartAfter(hello, /*hang_up=*/true)), WEFT_REMOTE_ERROR);
  EXPECT_EQ(ResultOf(StartAfter("", /*hang_up=*/true)), WEFT_REMOTE_ERROR);
  const absl::Status silent = StartAfter("");
  EXPECT_EQ(ResultOf(silent), WEFT_TIMEOUT);
  EXPECT_THAT(std::string(silent.message()), HasSubstr("PMI-1"));
}

// The launcher answers when all ranks of the job have asked.
TEST(PmiClient, SaysWhatItWaitsForLongBeforeItsDeadline) {
  std::string log;
  SetLogCallback([](weft_log_level_t, const char* message,
                    void* text) { *static_cast<std::string*>(text) += message; },
                 &log);
  PmiPair pair;
  const absl::Status silent =
      PmiClient::Start(pair.rank.get(), MonotonicNs() + 4 * kSecondNs).status();
  SetLogCallback(nullptr, nullptr);
  EXPECT_EQ(ResultOf(silent), WEFT_TIMEOUT);
  EXPECT_THAT(log, ContainsRegex(
                       "has waited [0-9]+ s for the launcher's PMI-1 answer, which comes when all "
                       "ranks of the job have reached weft's initialization"));
}

TEST(PmiClient, RefusesAValueThatWouldBreakTheLine) {
  PmiPair pair;
  const std::string script =
      "cmd=response_to_init rc=0\ncmd=my_kvsname kvsname=k\ncmd=finalize_ack\n";
  ASSERT_EQ(write(pair.launcher.get(), script.data(), script.size()),
            static_cast<ssize_t>(script.size()));
  const int64_t deadline_ns = MonotonicNs() + 20 * kSecondNs;
  auto pmi = PmiClient::Start(pair.rank.get(), deadline_ns);
  ASSERT_TRUE(pmi.ok()) << pmi.status();
  for (const char* value : {"", "a b", "a\ncmd=finalize", "a=b"}) {
    EXPECT_EQ(ResultOf((*pmi)->PublishFromRankZero(0, value, deadline_ns).status()),
              WEFT_INVALID_ARGUMENT);
  }
}

}  // namespace
}  // namespace weft::test::pmi_client_test
