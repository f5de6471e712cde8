// The store over real sockets: what it does for ranks that belong to it.
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include "base/status.h"
#include "comm/rendezvous/store_host.h"
#include "tests/comm/rendezvous/served_store.h"
#include "tests/comm/rendezvous/store_calls.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"
#include "tests/support/refused_calls.h"

namespace weft::test::store_test {
namespace {

using ::testing::HasSubstr;

class Store : public ::testing::TestWithParam<bool> {
 protected:
  Store()
      : served_({.secret = GetParam() ? "secret of this test" : ""},
                GetParam() ? Loopback() : UnixEndpoint("store")) {}

  StoreClientOptions Options(int rank = 0, int size = 1) {
    return ClientOptions(served_.endpoint(), GetParam() ? "secret of this test" : "", rank, size);
  }

  ServedStore served_;
};

INSTANTIATE_TEST_SUITE_P(Transports, Store, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "TcpSecret" : "Unix"; });

TEST_P(Store, GivesBackWhatWasSet) {
  RemoteStore store(SystemSeams(), Options());
  ASSERT_TRUE(Set(store, "key", "value", In(10)).ok());
  EXPECT_EQ(*Wait(store, "key", In(10)), "value");
  ASSERT_TRUE(Set(store, "key", std::string("other\0value", 11), In(10)).ok());
  EXPECT_EQ(*Wait(store, "key", In(10)), std::string("other\0value", 11));
  ASSERT_TRUE(Set(store, "empty", "", In(10)).ok());
  EXPECT_EQ(*Wait(store, "empty", In(10)), "");
}

TEST_P(Store, CarriesTheLargestValueAndRefusesALargerOne) {
  RemoteStore store(SystemSeams(), Options());
  const std::string largest(kStoreValueBytesMax, 'x');
  ASSERT_TRUE(Set(store, "large", largest, In(20)).ok());
  EXPECT_EQ(*Wait(store, "large", In(20)), largest);
  EXPECT_EQ(ResultOf(Set(store, "larger", largest + "x", In(10))), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(Set(store, std::string(kStoreKeyBytesMax + 1, 'k'), "", In(10))),
            WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(Set(store, "", "", In(10))), WEFT_INVALID_ARGUMENT);
}

// Nobody waits for what a filter will not allow later either.
TEST_P(Store, ClientsAndServersThatMayMakeNoSocketsEndAtOnce) {
  StoreClientOptions options = Options();
  options.connect_deadline_ns = In(1000);
  const auto ends = RunForkedRanks(1, 60, [&](int) -> std::string {
    std::string filter = RefuseCalls({SYS_socket}, EPERM);
    if (!filter.empty()) return filter;
    RemoteStore store(SystemSeams(), options);
    std::vector<Endpoint> endpoints = {GetParam() ? Loopback() : UnixEndpoint("refused")};
    for (const absl::Status& status :
         {store.Connect(),
          StoreHost::Start({.secret = options.secret}, &endpoints, In(1000)).status()}) {
      std::string text(status.message());
      if (ResultOf(status) != WEFT_SYSTEM_ERROR ||
          text.find("a container, say) does not allow socket") == std::string::npos) {
        return text;
      }
    }
    return "";
  });
  EXPECT_EQ(ends[0].Problem(), "");
}

TEST(StoreHost, DoesNotWaitForAnAddressOfAnotherMachine) {
  std::vector<Endpoint> endpoints = {
      {.kind = Endpoint::Kind::kTcp, .host = "192.0.2.1", .port = 1}};
  const absl::Status status = StoreHost::Start({.secret = "s"}, &endpoints, In(1000)).status();
  EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(std::string(status.message()), HasSubstr("it is no address of this machine"));
}

TEST_P(Store, AddsAcrossRanks) {
  constexpr int kRanks = 8;
  constexpr int kRounds = 20;
  std::vector<std::thread> ranks;
  std::atomic<int64_t> seen{0};
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      RemoteStore store(SystemSeams(), Options(rank, kRanks));
      for (int i = 0; i < kRounds; ++i) {
        const absl::StatusOr<int64_t> sum = Add(store, "count", 3, In(20));
        ASSERT_TRUE(sum.ok()) << sum.status();
        seen += *sum;
      }
    });
  }
  for (std::thread& rank : ranks)
    rank.join();
  // Every partial sum was seen exactly once: 3 + 6 + ... + 3n.
  constexpr int64_t kTotal = kRanks * kRounds;
  EXPECT_EQ(seen, 3 * kTotal * (kTotal + 1) / 2);
  RemoteStore store(SystemSeams(), Options());
  ASSERT_TRUE(Set(store, "text", "no number", In(10)).ok());
  EXPECT_EQ(ResultOf(Add(store, "text", 1, In(10)).status()), WEFT_INVALID_USAGE);
  ASSERT_TRUE(Set(store, "most", "9223372036854775807", In(10)).ok());
  EXPECT_EQ(ResultOf(Add(store, "most", 1, In(10)).status()), WEFT_INVALID_USAGE);
}

TEST_P(Store, RemovesKeysThatAreThereOrNot) {
  RemoteStore store(SystemSeams(), Options());
  ASSERT_TRUE(Set(store, "key", "value", In(10)).ok());
  ASSERT_EQ(*Add(store, "count", 5, In(10)), 5);
  EXPECT_TRUE(Remove(store, "key", In(10)).ok());
  EXPECT_TRUE(Remove(store, "count", In(10)).ok());
  EXPECT_TRUE(Remove(store, "key", In(10)).ok());
  EXPECT_EQ(ResultOf(Wait(store, "key", 0).status()), WEFT_TIMEOUT);
  EXPECT_EQ(*Add(store, "count", 3, In(10)), 3) << "it begins anew";
  EXPECT_EQ(ResultOf(Remove(store, "", In(10))), WEFT_INVALID_ARGUMENT);
}

TEST_P(Store, WhoWaitsForARemovedKeyGetsItsNextValue) {
  RemoteStore setter(SystemSeams(), Options(0, 2));
  ASSERT_TRUE(setter.Connect().ok());
  std::thread waiter([&] {
    RemoteStore store(SystemSeams(), Options(1, 2));
    ASSERT_TRUE(Set(store, "ready", "", In(10)).ok());
    const absl::StatusOr<std::string> value = Wait(store, "later", In(20));
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value, "came");
  });
  ASSERT_TRUE(Wait(setter, "ready", In(20)).ok());
  EXPECT_TRUE(Remove(setter, "later", In(10)).ok());
  ASSERT_TRUE(Set(setter, "later", "came", In(10)).ok());
  waiter.join();
}

TEST_P(Store, WaitReturnsWhenTheKeyComes) {
  RemoteStore setter(SystemSeams(), Options(0, 2));
  ASSERT_TRUE(setter.Connect().ok());
  std::thread waiter([&] {
    RemoteStore store(SystemSeams(), Options(1, 2));
    ASSERT_TRUE(Set(store, "ready", "", In(10)).ok());
    const absl::StatusOr<std::string> value = Wait(store, "later", In(20));
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value, "came");
  });
  ASSERT_TRUE(Wait(setter, "ready", In(20)).ok());
  ASSERT_TRUE(Set(setter, "later", "came", In(10)).ok());
  waiter.join();
}

TEST_P(Store, WaitEndsAtItsDeadlineAndTheStoreStaysUsable) {
  RemoteStore store(SystemSeams(), Options());
  ASSERT_TRUE(store.Connect().ok());
  const int64_t start_ns = MonotonicNs();
  const absl::Status status = Wait(store, "never", In(0.05)).status();
  EXPECT_EQ(ResultOf(status), WEFT_TIMEOUT);
  EXPECT_THAT(std::string(status.message()), HasSubstr("wait for never"));
  EXPECT_GE(MonotonicNs() - start_ns, kSecondNs / 20);
  // The answer to the wait that was given up must not become the answer to this one.
  ASSERT_TRUE(Set(store, "never", "late", In(10)).ok());
  ASSERT_TRUE(Set(store, "other", "right", In(10)).ok());
  EXPECT_EQ(*Wait(store, "other", In(10)), "right");
  // A deadline in the past only looks.
  EXPECT_EQ(*Wait(store, "never", 0), "late");
  EXPECT_EQ(ResultOf(Wait(store, "nowhere", 0).status()), WEFT_TIMEOUT);
}

TEST_P(Store, ALostServerIsNamed) {
  RemoteStore store(SystemSeams(), Options());
  ASSERT_TRUE(store.Connect().ok());
  // Stopping the thread leaves the sockets open; a server of its own is destroyed.
  auto other = std::make_unique<ServedStore>(StoreServerOptions{}, UnixEndpoint("lost"));
  RemoteStore lost(SystemSeams(), ClientOptions(other->endpoint(), ""));
  ASSERT_TRUE(Set(lost, "key", "value", In(10)).ok());
  other.reset();
  const absl::Status status = Wait(lost, "key", In(10)).status();
  EXPECT_EQ(ResultOf(status), WEFT_UNREACHABLE);
  EXPECT_THAT(std::string(status.message()), HasSubstr("lost the store at unix:@"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 has probably ended"));
  EXPECT_EQ(ResultOf(Set(lost, "key", "value", In(10))), WEFT_UNREACHABLE);
}

TEST(StoreClient, ReportsAServerThatNeverComes) {
  const int64_t start_ns = MonotonicNs();
  RemoteStore store(SystemSeams(), ClientOptions(UnixEndpoint("nobody"), "", 1, 2, 0.1));
  const absl::Status status = store.Connect();
  EXPECT_EQ(ResultOf(status), WEFT_TIMEOUT);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Connection refused"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("check that rank 0 was started"));
  EXPECT_LT(MonotonicNs() - start_ns, 5 * kSecondNs);
}

TEST(StoreClient, TriesItsEndpointsInTurn) {
  ServedStore served({}, UnixEndpoint("second"));
  StoreClientOptions options = ClientOptions(UnixEndpoint("first"), "");
  options.endpoints.push_back(served.endpoint());
  RemoteStore store(SystemSeams(), options);
  EXPECT_TRUE(store.Connect().ok());
}

TEST(StoreServer, RefusesTcpWithoutASecretAndWildcardAddresses) {
  StoreServer open(SystemSeams(), {});
  Endpoint endpoint = Loopback();
  const absl::Status status = open.AddListener(&endpoint);
  EXPECT_EQ(ResultOf(status), WEFT_INVALID_USAGE);
  EXPECT_THAT(std::string(status.message()), HasSubstr("WEFT_INSECURE=1"));
  StoreServer insecure(SystemSeams(), {.insecure = true});
  EXPECT_TRUE(insecure.AddListener(&endpoint).ok());
  StoreServer wide(SystemSeams(), {.secret = "secret"});
  for (const char* host : {"0.0.0.0", "::"}) {
    Endpoint wildcard{.kind = Endpoint::Kind::kTcp, .host = host};
    EXPECT_EQ(ResultOf(wide.AddListener(&wildcard)), WEFT_INVALID_ARGUMENT);
  }
}

TEST(StoreServer, IsDesertedOnceEveryRankHasComeAndLeft) {
  ServedStore served({}, UnixEndpoint("deserted"));
  {
    RemoteStore first(SystemSeams(), ClientOptions(served.endpoint(), "", 0, 2));
    ASSERT_TRUE(Set(first, "a", "", In(10)).ok());
    RemoteStore second(SystemSeams(), ClientOptions(served.endpoint(), "", 1, 2));
    ASSERT_TRUE(Set(second, "b", "", In(10)).ok());
    EXPECT_EQ(ResultOf(Wait(second, "c", 0).status()), WEFT_TIMEOUT);
  }
  served.Stop();
  served.server().Step();  // reads the goodbyes that came after the thread's last look
  EXPECT_TRUE(served.server().Deserted());
}

TEST(StoreServer, TellsOnceWhichClientsThatAreNoRanksHaveGone) {
  ServedStore served({}, UnixEndpoint("gone"));
  for (const int label : {-7, -1, 0, -2}) {
    RemoteStore client(SystemSeams(), ClientOptions(served.endpoint(), "", label, 0));
    ASSERT_TRUE(Set(client, "key", "", In(10)).ok());
  }
  RemoteStore stays(SystemSeams(), ClientOptions(served.endpoint(), "", -5, 0));
  ASSERT_TRUE(Set(stays, "key", "", In(10)).ok());
  served.Stop();
  served.server().Step();  // reads the goodbyes that came after the thread's last look
  EXPECT_THAT(served.server().TakeGone(), ::testing::UnorderedElementsAre(-7, -2));
  EXPECT_THAT(served.server().TakeGone(), ::testing::IsEmpty());
}

TEST(StoreServer, LeavesNothingBehind) {
  const Holdings before = Holdings::Now();
  {
    ServedStore served({.secret = "secret"}, Loopback());
    RemoteStore store(SystemSeams(), ClientOptions(served.endpoint(), "secret"));
    ASSERT_TRUE(Set(store, "key", "value", In(10)).ok());
    RawPeer raw(served.endpoint());
  }
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

}  // namespace
}  // namespace weft::test::store_test
