// PmiClient against a small PMI-1 launcher in this process: one thread serves all ranks.
#include "comm/rendezvous/pmi_client.h"

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/status.h"
#include "base/wait.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecondNs = 1'000'000'000;

struct Pair {
  Pair() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    launcher = UniqueFd(fds[0]);
    rank = UniqueFd(fds[1]);
  }

  UniqueFd launcher;
  UniqueFd rank;
};

// Answers as Hydra does: a put is visible after the barrier that follows it.
class Launcher {
 public:
  explicit Launcher(std::vector<Pair>& pairs) : pairs_(pairs), unread_(pairs.size()) {}

  void Serve() {
    while (finalized_ < pairs_.size()) {
      std::vector<pollfd> watch;
      for (const Pair& pair : pairs_)
        watch.push_back({pair.launcher.get(), POLLIN, 0});
      if (poll(watch.data(), watch.size(), 20'000) <= 0) return;
      for (size_t rank = 0; rank < watch.size(); ++rank) {
        if (watch[rank].revents != 0 && !Read(rank)) return;
      }
    }
  }

  std::vector<std::string> seen;

 private:
  bool Read(size_t rank) {
    char buffer[256];
    const ssize_t n = read(pairs_[rank].launcher.get(), buffer, sizeof buffer);
    if (n <= 0) return false;
    unread_[rank].append(buffer, static_cast<size_t>(n));
    for (size_t end; (end = unread_[rank].find('\n')) != std::string::npos;) {
      Answer(rank, unread_[rank].substr(0, end));
      unread_[rank].erase(0, end + 1);
    }
    return true;
  }

  void Say(size_t rank, const std::string& line) {
    // In two pieces: lines need not arrive whole.
    const size_t half = line.size() / 2;
    EXPECT_EQ(write(pairs_[rank].launcher.get(), line.data(), half), static_cast<ssize_t>(half));
    const std::string rest = line.substr(half) + "\n";
    EXPECT_EQ(write(pairs_[rank].launcher.get(), rest.data(), rest.size()),
              static_cast<ssize_t>(rest.size()));
  }

  void Answer(size_t rank, const std::string& line) {
    seen.push_back(line);
    if (line.starts_with("cmd=init ")) {
      Say(rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    } else if (line == "cmd=get_my_kvsname") {
      Say(rank, "cmd=my_kvsname kvsname=kvs_1_0");
    } else if (line.starts_with("cmd=put ")) {
      pending_ = line.substr(line.find("value=") + 6);
      Say(rank, "cmd=put_result rc=0 msg=success");
    } else if (line == "cmd=barrier_in") {
      if (++in_barrier_ < pairs_.size()) return;
      visible_ = pending_;
      for (size_t r = 0; r < pairs_.size(); ++r)
        Say(r, "cmd=barrier_out");
    } else if (line.starts_with("cmd=get ")) {
      Say(rank, visible_.empty() ? "cmd=get_result rc=-1 msg=key_not_found value=unknown"
                                 : "cmd=get_result rc=0 msg=success value=" + visible_);
    } else if (line == "cmd=finalize") {
      ++finalized_;
      Say(rank, "cmd=finalize_ack");
    }
  }

  std::vector<Pair>& pairs_;
  std::vector<std::string> unread_;
  std::string pending_;
  std::string visible_;
  size_t in_barrier_ = 0;
  size_t finalized_ = 0;
};

TEST(PmiClient, CarriesTheEndpointOfRankZeroToAll) {
  for (int size : {1, 2, 5}) {
    std::vector<Pair> pairs(size);
    Launcher launcher(pairs);
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
  Pair pair;
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

TEST(PmiClient, RefusesAValueThatWouldBreakTheLine) {
  Pair pair;
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
}  // namespace weft
