// What strangers and liars do to the store, over real sockets: all are refused and counted, and the
// ranks that belong to it still join.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wire.h"
#include "tests/comm/rendezvous/served_store.h"
#include "tests/comm/rendezvous/store_calls.h"

namespace weft::test::store_attack_test {
namespace {

using ::testing::HasSubstr;

const std::string kSecret = "the secret of the job";

// Collects what weft logs while it lives.
class LogCapture {
 public:
  LogCapture() { SetLogCallback(&LogCapture::Receive, this); }

  ~LogCapture() { SetLogCallback(nullptr, nullptr); }

  std::string text() {
    MutexLock lock(mutex_);
    return text_;
  }

 private:
  static void Receive(weft_log_level_t, const char* message, void* self) {
    auto* const capture = static_cast<LogCapture*>(self);
    MutexLock lock(capture->mutex_);
    capture->text_ += message;
    capture->text_ += '\n';
  }

  Mutex mutex_;
  std::string text_;
};

class StoreAttack : public ::testing::Test {
 protected:
  StoreAttack() : served_({.secret = kSecret}, Loopback()) {}

  // A rank that belongs here joins, now.
  void ExpectARankJoins() {
    RemoteStore store(SystemSeams(), ClientOptions(served_.endpoint(), kSecret, 0, 1, 20));
    const absl::Status joined = store.Connect();
    ASSERT_TRUE(joined.ok()) << joined;
    EXPECT_TRUE(Set(store, "key", "value", In(10)).ok());
  }

  uint64_t Refused(Refusal refusal) {
    served_.Stop();
    return served_.server().refused(refusal);
  }

  // A handshake up to the point where the client has been let in, by hand.
  SessionKeys JoinByHand(RawPeer& peer, std::string* fields) {
    const std::string hello = peer.Read(kServerHelloBytes);
    *fields = EncodeClientFields({.rank = 0, .size = 1, .nonce = {7}});
    SessionKeys keys = MakeSessionKeys(kSecret, hello, *fields);
    EXPECT_TRUE(peer.Send(*fields + keys.client_proof));
    const absl::StatusOr<Verdict> verdict = DecodeVerdict(peer.Read(kVerdictBytes));
    EXPECT_TRUE(verdict.ok());
    EXPECT_EQ(verdict->refusal, Refusal::kNone);
    return keys;
  }

  LogCapture log_;
  ServedStore served_;
};

TEST_F(StoreAttack, StrangersWhoSpeakSomethingElseAreRefused) {
  const std::vector<std::string> openings = {
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
      std::string("\xff\xff\xff\xff", 4),
      std::string(1 << 20, '\xa5'),
      std::string(200, '\0'),
      "weft-st",  // a prefix of ours, then something else
  };
  for (const std::string& opening : openings) {
    RawPeer peer(served_.endpoint());
    peer.Send(opening);
    peer.Send("!!");
    EXPECT_TRUE(peer.WaitClosed(In(10))) << opening.substr(0, 20);
  }
  ExpectARankJoins();
  EXPECT_EQ(Refused(Refusal::kGarbage), openings.size());
  EXPECT_THAT(log_.text(), HasSubstr("garbage"));
  EXPECT_THAT(log_.text(), HasSubstr("speaking HTTP"));
}

TEST_F(StoreAttack, AWrongOrMissingSecretIsRefusedAndBothAreTold) {
  RemoteStore guess(SystemSeams(), ClientOptions(served_.endpoint(), "a guess", 1, 2));
  const absl::Status wrong = guess.Connect();
  EXPECT_EQ(ResultOf(wrong), WEFT_AUTH_FAILED);
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("the job secrets differ"));
  RemoteStore none(SystemSeams(), ClientOptions(served_.endpoint(), "", 1, 2));
  const absl::Status missing = none.Connect();
  EXPECT_EQ(ResultOf(missing), WEFT_AUTH_FAILED);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("set WEFT_JOB_SECRET_FILE"));
  ExpectARankJoins();
  EXPECT_EQ(Refused(Refusal::kWrongSecret), 2u);
  EXPECT_THAT(log_.text(), HasSubstr("wrong secret"));
}

TEST_F(StoreAttack, AnotherVersionIsRefusedAndBothVersionsAreTold) {
  RawPeer peer(served_.endpoint());
  peer.Read(kServerHelloBytes);
  std::string fields = EncodeClientFields({.version = 9, .rank = 0, .size = 1});
  peer.Send(fields + std::string(kProofBytes, 'x'));
  const absl::StatusOr<Verdict> verdict = DecodeVerdict(peer.Read(kVerdictBytes));
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->refusal, Refusal::kWrongVersion);
  EXPECT_EQ(verdict->version, kStoreVersion);
  ExpectARankJoins();
  EXPECT_EQ(Refused(Refusal::kWrongVersion), 1u);
  EXPECT_THAT(log_.text(), HasSubstr("speaking version 9, this is 2"));
}

TEST_F(StoreAttack, SlowPeersLoseTheirPlaceAfterTheHandshakeDeadline) {
  RawPeer silent(served_.endpoint());
  RawPeer slow(served_.endpoint());
  slow.Send("w");
  ExpectARankJoins();
  EXPECT_TRUE(silent.WaitClosed(In(10)));
  EXPECT_TRUE(slow.WaitClosed(In(10)));
  EXPECT_EQ(Refused(Refusal::kTooSlow), 2u);
}

TEST_F(StoreAttack, AThousandConnectionsLeaveRoomForTheRanks) {
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 1000; ++i) {
    peers.push_back(std::make_unique<RawPeer>(served_.endpoint()));
    if (i % 4 == 1) peers.back()->Send("weft");
    if (i % 4 == 2) peers.back()->Send("GET / HTTP/1.0\r\n\r\n");
    if (i % 4 == 3) peers.back()->Close();
    // The test's own descriptors are bounded too.
    if (peers.size() > 300) peers.erase(peers.begin());
  }
  ExpectARankJoins();
  served_.Stop();
  std::vector<PollItem> items;
  served_.server().AppendPollItems(&items);
  EXPECT_LE(items.size(), 1 + StoreServer::kStrangersMax);
  EXPECT_GT(Refused(Refusal::kCrowded) + Refused(Refusal::kGarbage), 200u);
}

TEST_F(StoreAttack, AReplayedHandshakeIsRefused) {
  RawPeer first(served_.endpoint());
  std::string fields;
  const SessionKeys keys = JoinByHand(first, &fields);
  RawPeer replay(served_.endpoint());
  replay.Read(kServerHelloBytes);
  replay.Send(fields + keys.client_proof);
  const absl::StatusOr<Verdict> verdict = DecodeVerdict(replay.Read(kVerdictBytes));
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->refusal, Refusal::kWrongSecret);
  ExpectARankJoins();
}

TEST_F(StoreAttack, AReflectedHelloIsRefused) {
  RawPeer peer(served_.endpoint());
  const std::string hello = peer.Read(kServerHelloBytes);
  peer.Send(hello + std::string(kClientHelloBytes - kServerHelloBytes, '\0'));
  const absl::StatusOr<Verdict> verdict = DecodeVerdict(peer.Read(kVerdictBytes));
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->refusal, Refusal::kWrongSecret);
  ExpectARankJoins();
}

TEST_F(StoreAttack, FramesThatAreChangedRepeatedForeignOrTooLongEndTheConnection) {
  WireWriter body;
  body.Text("key");
  body.Text("value");
  const Frame set{.type = FrameType::kSet, .request = 1, .body = body.data()};
  const auto attack = [&](uint32_t epoch, auto change) {
    RawPeer peer(served_.endpoint());
    std::string fields;
    const SessionKeys keys = JoinByHand(peer, &fields);
    FrameSealer sealer(keys.client_key, epoch);
    std::string bytes;
    sealer.Seal(set, &bytes);
    peer.Send(change(bytes));
    EXPECT_TRUE(peer.WaitClosed(In(10)));
  };
  attack(1, [](std::string bytes) { return bytes[30] ^= 1, bytes; });
  attack(1, [](const std::string& bytes) { return bytes + bytes; });
  attack(2, [](const std::string& bytes) { return bytes; });
  attack(1, [](std::string bytes) { return bytes[3] = '\x7f', bytes; });
  attack(1, [](const std::string& bytes) { return bytes.substr(1) + bytes; });
  ExpectARankJoins();
  EXPECT_EQ(Refused(Refusal::kBadFrame), 5u);
}

TEST_F(StoreAttack, AProvenClientThatSendsNonsenseInFramesIsDropped) {
  for (const FrameType type :
       {FrameType::kSet, FrameType::kWait, FrameType::kAdd, FrameType::kRemove, FrameType::kDone,
        FrameType::kValue, static_cast<FrameType>(999)}) {
    RawPeer peer(served_.endpoint());
    std::string fields;
    const SessionKeys keys = JoinByHand(peer, &fields);
    FrameSealer sealer(keys.client_key, 1);
    std::string bytes;
    sealer.Seal({.type = type, .request = 1, .body = "\x05"}, &bytes);
    peer.Send(bytes);
    EXPECT_TRUE(peer.WaitClosed(In(10))) << static_cast<int>(type);
  }
  ExpectARankJoins();
  EXPECT_EQ(Refused(Refusal::kBadFrame), 7u);
}

// Requests of 41 bytes for a value of a megabyte, by a client that has proven itself.
class AskingForMuch : public StoreAttack {
 protected:
  static constexpr size_t kRequests = 1400;

  AskingForMuch() : peer_(served_.endpoint()) {
    RemoteStore store(SystemSeams(), ClientOptions(served_.endpoint(), kSecret, 1, 2, 20));
    EXPECT_TRUE(Set(store, "large", std::string(kStoreValueBytesMax, 'x'), In(20)).ok());
    std::string fields;
    const SessionKeys keys = JoinByHand(peer_, &fields);
    FrameSealer sealer(keys.client_key, 1);
    WireWriter body;
    body.Text("large");
    body.U8(0);
    std::string requests;
    for (size_t i = 0; i < kRequests; ++i)
      sealer.Seal({.type = FrameType::kWait, .request = i + 1, .body = body.data()}, &requests);
    EXPECT_LT(requests.size(), 64u << 10);  // one read of the server's
    EXPECT_TRUE(peer_.Send(requests));
  }

  RawPeer peer_;
};

TEST_F(AskingForMuch, AClientThatDoesNotReadIsOwedOneAnswerAndTheOthersAreServed) {
  for (int i = 0; i < 20; ++i)
    ExpectARankJoins();
  served_.Stop();
  // One answer, what was read of requests, and the frames' headers.
  EXPECT_LT(served_.server().buffered_bytes(), kStoreValueBytesMax + (128u << 10));
}

TEST_F(AskingForMuch, AClientThatReadsLaterGetsEveryAnswer) {
  ExpectARankJoins();
  const size_t frame = kFrameHeaderBytes + kStoreValueBytesMax + kTagBytes;
  size_t got = 0;
  while (got < 50 * frame) {
    const std::string some = peer_.Read(frame, In(20));
    ASSERT_FALSE(some.empty()) << got;
    got += some.size();
  }
}

TEST(StoreAttackOnClients, AServerThatIsNoneIsNamed) {
  Endpoint endpoint = Loopback();
  const absl::StatusOr<int> listener = SystemSeams().net->Listen(&endpoint);
  ASSERT_TRUE(listener.ok());
  UniqueFd owner(*listener);
  std::thread web([&] {
    PollItem item{.handle = *listener, .want_read = true};
    ASSERT_TRUE(SystemSeams().net->Poll({&item, 1}, In(10)).ok());
    UniqueFd stream(*SystemSeams().net->Accept(*listener));
    SystemSeams().net->Write(stream.get(), "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
  });
  RemoteStore store(SystemSeams(), ClientOptions(endpoint, "secret"));
  const absl::Status status = store.Connect();
  web.join();
  EXPECT_EQ(ResultOf(status), WEFT_CORRUPT);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not a weft store, it sent HTTP"));
}

TEST(StoreAttackOnClients, AServerThatDoesNotKnowTheSecretIsNotTrusted) {
  Endpoint endpoint = Loopback();
  const absl::StatusOr<int> listener = SystemSeams().net->Listen(&endpoint);
  ASSERT_TRUE(listener.ok());
  UniqueFd owner(*listener);
  std::thread impostor([&] {
    PollItem item{.handle = *listener, .want_read = true};
    ASSERT_TRUE(SystemSeams().net->Poll({&item, 1}, In(10)).ok());
    UniqueFd stream(*SystemSeams().net->Accept(*listener));
    const std::string said = EncodeServerHello({.needs_secret = true}) + EncodeVerdict({});
    SystemSeams().net->Write(stream.get(), said.data(), said.size());
    PollItem reply{.handle = stream.get(), .want_read = true};
    ASSERT_TRUE(SystemSeams().net->Poll({&reply, 1}, In(10)).ok());
  });
  RemoteStore store(SystemSeams(), ClientOptions(endpoint, "secret"));
  const absl::Status status = store.Connect();
  impostor.join();
  EXPECT_EQ(ResultOf(status), WEFT_AUTH_FAILED);
}

}  // namespace
}  // namespace weft::test::store_attack_test
