// A store's server that the system gives no descriptors: it says so once, goes on asking, and serves when it gets one.
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "base/seams.h"
#include "base/status.h"
#include "comm/rendezvous/store_server.h"

namespace weft::store_starved_test {
namespace {

using ::testing::HasSubstr;

// The system's, but for what a test takes away.
class StarvedNet : public SystemNet {
 public:
  absl::StatusOr<int> Accept(int listener) override {
    if (!starved) return SystemNet::Accept(listener);
    ++attempts;
    return SystemError(EMFILE, "could not accept a connection");
  }

  bool starved = true;
  int attempts = 0;
};

class TestClock : public Clock {
 public:
  int64_t NowNs() override { return now_ns; }

  int64_t now_ns = 1;
};

std::vector<std::string> logged;

void KeepLog(weft_log_level_t, const char* message, void*) {
  logged.emplace_back(message);
}

TEST(StarvedStore, SaysOnceThatItHasNoDescriptorsAndServesWhenItHas) {
  StarvedNet net;
  TestClock clock;
  StoreServer server({.clock = &clock, .net = &net, .random = SystemSeams().random}, {});
  Endpoint endpoint{.kind = Endpoint::Kind::kUnix,
                    .host = "weft-starved-" + std::to_string(getpid())};
  ASSERT_TRUE(server.AddListener(&endpoint).ok());
  const absl::StatusOr<int> client = net.Connect(endpoint);
  ASSERT_TRUE(client.ok()) << client.status();
  logged.clear();
  SetLogCallback(KeepLog, nullptr);
  for (int i = 0; i < 20; ++i) {
    server.Step();
    clock.now_ns += 100'000'000;
  }
  EXPECT_EQ(net.attempts, 20);
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_THAT(logged[0], HasSubstr("Too many open files"));
  EXPECT_THAT(logged[0], HasSubstr("ulimit -n"));
  net.starved = false;
  server.Step();
  PollItem item{.handle = *client, .want_read = true};
  ASSERT_TRUE(net.Poll({&item, 1}, std::numeric_limits<int64_t>::min()).ok());
  EXPECT_TRUE(item.readable) << "the server greets whoever it accepts";
  // A second time is news again.
  net.starved = true;
  const absl::StatusOr<int> other = net.Connect(endpoint);
  ASSERT_TRUE(other.ok());
  server.Step();
  EXPECT_EQ(logged.size(), 2u);
  SetLogCallback(nullptr, nullptr);
  net.Close(*client);
  net.Close(*other);
}

}  // namespace
}  // namespace weft::store_starved_test
