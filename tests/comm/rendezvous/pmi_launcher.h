// A small PMI-1 launcher for tests: one conversation per rank over a socket pair.
//
//   std::vector<PmiPair> pairs(size);
//   PmiLauncher launcher(pairs);
//   launcher.Serve();   // until every rank has said goodbye, or one has hung up
//
// Thread-safety: one thread. Borrows the pairs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

namespace weft::test {

struct PmiPair {
  PmiPair() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    launcher = UniqueFd(fds[0]);
    rank = UniqueFd(fds[1]);
  }

  UniqueFd launcher;
  UniqueFd rank;
};

// Answers as Hydra does: a put is visible after the barrier that follows it.
class PmiLauncher {
 public:
  explicit PmiLauncher(std::vector<PmiPair>& pairs) : pairs_(pairs), unread_(pairs.size()) {}

  void Serve() {
    while (finalized_ < pairs_.size() && !gone_) {
      std::vector<pollfd> watch;
      for (const PmiPair& pair : pairs_)
        watch.push_back({pair.launcher.get(), POLLIN, 0});
      if (poll(watch.data(), watch.size(), idle_ms) <= 0) return;
      for (size_t rank = 0; rank < watch.size() && !gone_; ++rank) {
        if (watch[rank].revents != 0 && !Read(rank)) return;
      }
    }
  }

  std::vector<std::string> seen;
  // What the others get for a value that a rank has put.
  std::function<std::string(const std::string&)> change = [](const std::string& v) {
    return v;
  };
  // Stops to serve, without an answer, at the first line that begins so; "": never.
  std::string leave_at;
  // Stops to serve when nobody has said anything for so long.
  int idle_ms = 20'000;

 private:
  bool Read(size_t rank) {
    char buffer[256];
    const ssize_t n = read(pairs_[rank].launcher.get(), buffer, sizeof buffer);
    if (n <= 0) return false;
    unread_[rank].append(buffer, static_cast<size_t>(n));
    for (size_t end; !gone_ && (end = unread_[rank].find('\n')) != std::string::npos;) {
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
    if (!leave_at.empty() && line.starts_with(leave_at)) {
      gone_ = true;
      // As closing, although other processes may hold the descriptors too.
      for (const PmiPair& pair : pairs_)
        shutdown(pair.launcher.get(), SHUT_RDWR);
    } else if (line.starts_with("cmd=init ")) {
      Say(rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    } else if (line == "cmd=get_my_kvsname") {
      Say(rank, "cmd=my_kvsname kvsname=kvs_1_0");
    } else if (line.starts_with("cmd=put ")) {
      pending_ = change(line.substr(line.find("value=") + 6));
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

  std::vector<PmiPair>& pairs_;
  std::vector<std::string> unread_;
  std::string pending_;
  std::string visible_;
  size_t in_barrier_ = 0;
  size_t finalized_ = 0;
  bool gone_ = false;
};

}  // namespace weft::test
