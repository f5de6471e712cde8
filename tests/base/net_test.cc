#include "base/net.h"

#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/status.h"
#include "base/wait.h"

namespace weft::net_test {
namespace {

using ::testing::HasSubstr;

int64_t In(double seconds) {
  return MonotonicNs() + static_cast<int64_t>(seconds * 1e9);
}

TEST(Endpoint, IsReadBackFromItsText) {
  for (const char* text : {"unix:@name", "tcp:10.0.0.1:29500", "tcp:[::1]:1", "tcp:host.local:0"}) {
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
    ASSERT_TRUE(endpoint.ok()) << text;
    EXPECT_EQ(endpoint->ToString(), text);
  }
  for (const std::string& text :
       {std::string(""), std::string("unix:@"), std::string("unix:/tmp/x"), std::string("tcp:"),
        std::string("tcp:host"), std::string("tcp::1"), std::string("tcp:h:65536"),
        std::string("tcp:h:-1"), std::string("tcp:h:1x"), std::string("http://x:1"),
        "unix:@" + std::string(108, 'n'), "tcp:" + std::string(300, 'h') + ":1"}) {
    EXPECT_EQ(ResultOf(ParseEndpoint(text).status()), WEFT_INVALID_ARGUMENT) << text;
  }
}

// A forked child has a copy of the listener, which nobody accepts from any more.
TEST(Listener, MayListenAgainThoughAChildHasACopy) {
  SystemNet net;
  Endpoint endpoint{.kind = Endpoint::Kind::kTcp, .host = "127.0.0.1"};
  const UniqueFd reserved = ReserveEndpoint(&endpoint).value();
  const int listener = net.Listen(&endpoint).value();
  int stay[2];
  ASSERT_EQ(pipe(stay), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(stay[1]);
    char byte = 0;
    _exit(read(stay[0], &byte, 1) == 0 ? 0 : 1);  // until the parent closes
  }
  close(stay[0]);
  net.StopListening(listener);
  net.Close(listener);
  const absl::StatusOr<int> again = net.Listen(&endpoint);
  EXPECT_TRUE(again.ok()) << again.status();
  if (again.ok()) {
    const int client = net.Connect(endpoint).value();
    PollItem item{.handle = *again, .want_read = true};
    EXPECT_TRUE(net.Poll(std::span(&item, 1), In(10)).ok());
    EXPECT_TRUE(item.readable) << "connections come to the new one";
    net.Close(client);
    net.Close(*again);
  }
  close(stay[1]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
}

class Streams : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    Endpoint endpoint{.kind = Endpoint::Kind::kUnix,
                      .host = "weft-net-test-" + std::to_string(getpid())};
    if (GetParam()) endpoint = {.kind = Endpoint::Kind::kTcp, .host = "127.0.0.1"};
    listener_ = UniqueFd(*net_.Listen(&endpoint));
    EXPECT_EQ(*net_.Accept(listener_.get()), -1);
    client_ = UniqueFd(*net_.Connect(endpoint));
    Await(client_.get(), false);
    ASSERT_TRUE(net_.FinishConnect(client_.get()).ok());
    Await(listener_.get(), true);
    server_ = UniqueFd(*net_.Accept(listener_.get()));
    endpoint_ = endpoint;
  }

  void Await(int handle, bool readable) {
    PollItem item{.handle = handle, .want_read = readable, .want_write = !readable};
    ASSERT_TRUE(net_.Poll({&item, 1}, In(10)).ok());
    ASSERT_TRUE(readable ? item.readable : item.writable);
  }

  SystemNet net_;
  Endpoint endpoint_;
  UniqueFd listener_;
  UniqueFd client_;
  UniqueFd server_;
};

INSTANTIATE_TEST_SUITE_P(Transports, Streams, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Tcp" : "Unix"; });

TEST_P(Streams, CarryBytesAndTellTheEnd) {
  char buffer[16];
  EXPECT_EQ(net_.Read(server_.get(), buffer, sizeof(buffer)).state, IoState::kWouldBlock);
  ASSERT_EQ(net_.Write(client_.get(), "hello", 5).bytes, 5u);
  Await(server_.get(), true);
  const IoResult result = net_.Read(server_.get(), buffer, sizeof(buffer));
  EXPECT_EQ(std::string(buffer, result.bytes), "hello");
  client_.Reset();
  Await(server_.get(), true);
  EXPECT_EQ(net_.Read(server_.get(), buffer, sizeof(buffer)).state, IoState::kClosed);
}

TEST_P(Streams, WritingToAClosedPeerIsAnErrorNotASignal) {
  server_.Reset();
  IoResult result{IoState::kDone, 1, 0};
  const int64_t deadline_ns = In(10);
  while (result.state == IoState::kDone && MonotonicNs() < deadline_ns) {
    result = net_.Write(client_.get(), "x", 1);
  }
  EXPECT_EQ(result.state, IoState::kFailed);
}

TEST_P(Streams, AreCloseOnExecAndNonBlocking) {
  for (const int fd : {listener_.get(), client_.get(), server_.get()}) {
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  }
}

TEST_P(Streams, KnowThePeer) {
  const PeerIdentity peer = net_.Peer(server_.get());
  if (GetParam()) {
    EXPECT_THAT(peer.address, HasSubstr("127.0.0.1:"));
    EXPECT_EQ(peer.uid, -1);
  } else {
    EXPECT_EQ(peer.pid, getpid());
    EXPECT_EQ(peer.uid, geteuid());
  }
}

TEST_P(Streams, AnAddressInUseOrWithoutListenerIsAnError) {
  Endpoint same = endpoint_;
  const absl::Status taken = net_.Listen(&same).status();
  EXPECT_EQ(ResultOf(taken), WEFT_SYSTEM_ERROR);
  EXPECT_THAT(std::string(taken.message()), HasSubstr(endpoint_.ToString()));
  listener_.Reset();
  client_.Reset();
  server_.Reset();
  absl::StatusOr<int> stream = net_.Connect(endpoint_);
  if (stream.ok()) {
    UniqueFd owner(*stream);
    Await(*stream, false);
    EXPECT_EQ(ResultOf(net_.FinishConnect(*stream)), WEFT_UNREACHABLE);
  } else {
    EXPECT_EQ(ResultOf(stream.status()), WEFT_UNREACHABLE);
  }
}

TEST_P(Streams, PollReturnsAtDeadlinesNearFarPastAndWayBack) {
  PollItem item{.handle = server_.get(), .want_read = true};
  for (const int64_t deadline_ns : {INT64_MIN, int64_t{0}, In(0.001)}) {
    ASSERT_TRUE(net_.Poll({&item, 1}, deadline_ns).ok());
    EXPECT_FALSE(item.readable);
  }
  ASSERT_EQ(net_.Write(client_.get(), "x", 1).bytes, 1u);
  ASSERT_TRUE(net_.Poll({&item, 1}, INT64_MAX).ok());
  EXPECT_TRUE(item.readable);
}

// It sends until nothing more fits.
size_t Fill(SystemNet* net, int stream) {
  const std::string block(65'536, 'x');
  size_t sent = 0;
  while (true) {
    const IoResult result = net->Write(stream, block.data(), block.size());
    if (result.state != IoState::kDone) return sent;
    sent += result.bytes;
  }
}

// A stopped reader looks like a machine that is gone to who has asked for EndUnanswered, and to nobody else.
TEST(TcpStreams, OfAReaderThatDoesNotReadLastUnlessTheyAreToEnd) {
  SystemNet net;
  Endpoint endpoint{.kind = Endpoint::Kind::kTcp, .host = "127.0.0.1"};
  const UniqueFd listener(*net.Listen(&endpoint));
  const auto connect = [&](UniqueFd* client, UniqueFd* server) {
    *client = UniqueFd(*net.Connect(endpoint));
    PollItem item{.handle = client->get(), .want_write = true};
    ASSERT_TRUE(net.Poll({&item, 1}, In(10)).ok());
    PollItem arrived{.handle = listener.get(), .want_read = true};
    ASSERT_TRUE(net.Poll({&arrived, 1}, In(10)).ok());
    *server = UniqueFd(*net.Accept(listener.get()));
  };
  UniqueFd plain, plain_reader, ending, ending_reader;
  connect(&plain, &plain_reader);
  connect(&ending, &ending_reader);
  net.EndUnanswered(ending.get(), 3'000'000'000);
  size_t sent = Fill(&net, plain.get());
  Fill(&net, ending.get());
  // A short stop ends neither.
  PollItem items[] = {{.handle = plain.get(), .want_read = true},
                      {.handle = ending.get(), .want_read = true}};
  ASSERT_TRUE(net.Poll(items, In(1)).ok());
  EXPECT_FALSE(items[0].readable);
  EXPECT_FALSE(items[1].readable);
  ASSERT_TRUE(net.Poll(items, In(30)).ok());
  EXPECT_FALSE(items[0].readable);
  EXPECT_TRUE(items[1].readable);
  char byte;
  EXPECT_EQ(net.Read(ending.get(), &byte, 1).state, IoState::kFailed);
  ASSERT_TRUE(net.Poll({items, 1}, In(2)).ok());
  EXPECT_FALSE(items[0].readable) << "the other one has ended as well";
  std::string buffer(1 << 20, ' ');
  while (sent > 0) {
    PollItem item{.handle = plain_reader.get(), .want_read = true};
    ASSERT_TRUE(net.Poll({&item, 1}, In(10)).ok());
    const IoResult result = net.Read(plain_reader.get(), buffer.data(), buffer.size());
    ASSERT_EQ(result.state, IoState::kDone);
    sent -= result.bytes;
  }
}

// A link-local address is one of a link, and so of an interface.
TEST(LinkLocal, AddressesNeedAnInterfaceOfThisMachine) {
  SystemNet net;
  Endpoint bare{.kind = Endpoint::Kind::kTcp, .host = "fe80::1", .port = 5};
  const absl::Status refused = net.Connect(bare).status();
  EXPECT_EQ(ResultOf(refused), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("fe80::1 is link-local"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("fe80::1%eth0"));
  EXPECT_EQ(ResultOf(net.Listen(&bare).status()), WEFT_INVALID_ARGUMENT);
  const Endpoint scoped{.kind = Endpoint::Kind::kTcp, .host = "fe80::1%eth0", .port = 5};
  EXPECT_EQ(scoped.ToString(), "tcp:[fe80::1%eth0]:5");
  EXPECT_EQ(*ParseEndpoint(scoped.ToString()), scoped);
  EXPECT_EQ(*ResolveHost("fe80::1%eth0", In(10)), "fe80::1%eth0");
  Endpoint unknown{.kind = Endpoint::Kind::kTcp, .host = "fe80::1%no-such"};
  EXPECT_EQ(ResultOf(net.Listen(&unknown).status()), WEFT_INVALID_ARGUMENT);
}

TEST(ResolveHost, KnowsNumbersAndNamesAndReportsTheRest) {
  EXPECT_EQ(*ResolveHost("10.1.2.3", In(10)), "10.1.2.3");
  EXPECT_EQ(*ResolveHost("::1", In(10)), "::1");
  const absl::StatusOr<std::string> local = ResolveHost("localhost", INT64_MAX);
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_TRUE(*local == "127.0.0.1" || *local == "::1") << *local;
  const absl::Status unknown = ResolveHost("name.that.is.invalid", In(1)).status();
  EXPECT_TRUE(ResultOf(unknown) == WEFT_UNREACHABLE || ResultOf(unknown) == WEFT_TIMEOUT);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("name.that.is.invalid"));
}

}  // namespace
}  // namespace weft::net_test
