// A store server on a thread and raw or proper clients of it, for tests over real sockets.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/wait.h"
#include "comm/rendezvous/remote_store.h"
#include "comm/rendezvous/store_server.h"

namespace weft::test {

constexpr int64_t kSecondNs = 1'000'000'000;

inline int64_t In(double seconds) {
  return MonotonicNs() + static_cast<int64_t>(seconds * 1e9);
}

// Runs a server until Stop(); then its counters may be read.
class ServedStore {
 public:
  explicit ServedStore(StoreServerOptions options, Endpoint endpoint)
      : server_(SystemSeams(), std::move(options)), endpoint_(std::move(endpoint)) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    stop_read_ = UniqueFd(ends[0]);
    stop_write_ = UniqueFd(ends[1]);
    EXPECT_TRUE(server_.AddListener(&endpoint_).ok());
    thread_ = std::thread([this] { Run(); });
  }

  ~ServedStore() { Stop(); }

  void Stop() {
    stop_write_.Reset();
    if (thread_.joinable()) thread_.join();
  }

  const Endpoint& endpoint() const { return endpoint_; }

  StoreServer& server() { return server_; }

 private:
  void Run() {
    std::vector<PollItem> items;
    do {
      server_.Step();
      items.assign(1, {.handle = stop_read_.get(), .want_read = true});
      server_.AppendPollItems(&items);
      EXPECT_TRUE(SystemSeams().net->Poll(items, server_.NextWakeNs()).ok());
    } while (!items[0].readable);
  }

  StoreServer server_;
  Endpoint endpoint_;
  UniqueFd stop_read_;
  UniqueFd stop_write_;
  std::thread thread_;
};

inline Endpoint Loopback() {
  return {.kind = Endpoint::Kind::kTcp, .host = "127.0.0.1"};
}

inline Endpoint UnixEndpoint(const std::string& name) {
  return {.kind = Endpoint::Kind::kUnix,
          .host = "weft-test-" + name + "-" + std::to_string(getpid())};
}

inline StoreClientOptions ClientOptions(const Endpoint& endpoint, const std::string& secret,
                                        int rank = 0, int size = 1, double seconds = 10) {
  StoreClientOptions options;
  options.endpoints = {endpoint};
  options.secret = secret;
  options.rank = rank;
  options.size = size;
  options.connect_deadline_ns = In(seconds);
  options.host_hint = "rank 0";
  return options;
}

// A connection that may send anything.
class RawPeer {
 public:
  explicit RawPeer(const Endpoint& endpoint) {
    Net& net = *SystemSeams().net;
    const absl::StatusOr<int> stream = net.Connect(endpoint);
    EXPECT_TRUE(stream.ok()) << stream.status();
    if (!stream.ok()) return;
    fd_ = UniqueFd(*stream);
    PollItem item{.handle = fd_.get(), .want_write = true};
    EXPECT_TRUE(net.Poll({&item, 1}, In(10)).ok());
    EXPECT_TRUE(net.FinishConnect(fd_.get()).ok());
  }

  // False if the other side has closed.
  bool Send(const std::string& bytes) {
    Net& net = *SystemSeams().net;
    size_t done = 0;
    while (done < bytes.size()) {
      const IoResult result = net.Write(fd_.get(), bytes.data() + done, bytes.size() - done);
      if (result.state == IoState::kWouldBlock) {
        PollItem item{.handle = fd_.get(), .want_write = true};
        EXPECT_TRUE(net.Poll({&item, 1}, In(10)).ok());
        continue;
      }
      if (result.state != IoState::kDone) return false;
      done += result.bytes;
    }
    return true;
  }

  // Reads up to `bytes`, fewer if the other side closes or the deadline passes.
  std::string Read(size_t bytes, int64_t deadline_ns = In(10)) {
    Net& net = *SystemSeams().net;
    std::string got;
    char buffer[4096];
    while (got.size() < bytes && MonotonicNs() < deadline_ns) {
      PollItem item{.handle = fd_.get(), .want_read = true};
      EXPECT_TRUE(net.Poll({&item, 1}, deadline_ns).ok());
      const IoResult result =
          net.Read(fd_.get(), buffer, std::min(sizeof(buffer), bytes - got.size()));
      if (result.state == IoState::kClosed || result.state == IoState::kFailed) {
        closed_ = true;
        break;
      }
      if (result.state == IoState::kDone) got.append(buffer, result.bytes);
    }
    return got;
  }

  // True once the other side has closed, at the latest at the deadline.
  bool WaitClosed(int64_t deadline_ns) {
    Read(size_t{1} << 30, deadline_ns);
    return closed_;
  }

  void Close() { fd_.Reset(); }

 private:
  UniqueFd fd_;
  bool closed_ = false;
};

}  // namespace weft::test
