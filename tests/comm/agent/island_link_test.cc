// One connection between islands against what may be at its other end: who does not know the secret, who repeats what others have
// said, who sends garbage, who says nothing, and who does not read.
#include "comm/agent/island_link.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "tests/sim/sim_world.h"

namespace weft::test::island_link_test {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecondNs = 1'000 * kMs;
const Endpoint kEndpoint{.kind = Endpoint::Kind::kTcp, .host = "10.0.0.1", .port = 9};

// A node that listens and takes one connection, and one that dials it.
class Pair {
  SimWorld world_;  // outlives the links
  SimNode* const server_;
  SimNode* const client_;
  int listener_ = -1;

 public:
  explicit Pair(uint64_t seed)
      : world_(seed), server_(world_.AddNode()), client_(world_.AddNode()) {
    Endpoint endpoint = kEndpoint;
    listener_ = *server_->Listen(&endpoint);
    world_.AddActor({server_, [this] { Serve(); }, [this] { return Wake(accepted.get()); },
                     [this] {
                       return done();
                     }});
    world_.AddActor({client_,
                     [this] {
                       if (act) act();
                       Advance(client_, dialed.get());
                     },
                     [this] { return Wake(dialed.get()); },
                     [this] {
                       return done();
                     }});
  }

  IslandLinkSettings Settings(int island, uint32_t epoch = 1) const {
    return {.secret = "the job's secret",
            .self = {.island = island, .pid = 10 + island, .start_time = 5, .epoch = epoch},
            .attempt_ns = 2 * kSecondNs,
            .beat_ns = 300 * kMs,
            .silence_ns = kSecondNs};
  }

  void Dial(IslandLinkSettings settings) {
    dialed = IslandLink::Dial(client_->seams(), std::move(settings), kEndpoint);
  }

  bool RunUntil(std::function<bool()> wanted, int64_t ns) {
    done = std::move(wanted);
    const bool ended = world_.Run(world_.now_ns() + ns);
    done = [] {
      return false;
    };
    return ended;
  }

  bool RunUntilReady() {
    return RunUntil([this] { return dialed->ready() && accepted && accepted->ready(); },
                    3 * kSecondNs);
  }

  SimWorld& world() { return world_; }

  SimNode* server() { return server_; }

  SimNode* client() { return client_; }

  void CutOff(int64_t from_ns) {
    world_.SilenceBetween(client_, server_, from_ns, SimWorld::kForever);
    world_.SilenceBetween(server_, client_, from_ns, SimWorld::kForever);
  }

  std::unique_ptr<IslandLink> dialed;
  std::unique_ptr<IslandLink> accepted;
  std::function<bool()> done = [] {
    return false;
  };
  std::function<void()> act;  // of the client's node

 private:
  void Serve() {
    if (!accepted) {
      const int handle = *server_->Accept(listener_);
      if (handle < 0) return;
      accepted = IslandLink::Accept(server_->seams(), Settings(1), handle);
    }
    Advance(server_, accepted.get());
  }

  static void Advance(SimNode* node, IslandLink* link) {
    if (link == nullptr || link->failed()) return;
    PollItem item = link->Item();
    EXPECT_TRUE(node->Poll({&item, 1}, 0).ok());
    link->Advance(item.readable, item.writable);
  }

  static int64_t Wake(const IslandLink* link) {
    return link == nullptr ? INT64_MAX : link->NextWakeNs();
  }
};

TEST(IslandLink, BothSidesLearnWhoTheOtherOneIsAndFramesArriveInOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Pair pair(seed);
    pair.Dial(pair.Settings(0, 7));
    ASSERT_TRUE(pair.RunUntilReady());
    EXPECT_EQ(pair.dialed->peer().island, 1);
    EXPECT_EQ(pair.accepted->peer().island, 0);
    EXPECT_EQ(pair.accepted->peer().epoch, 7u);
    EXPECT_EQ(pair.dialed->peer().epoch, 1u);
    EXPECT_EQ(pair.accepted->epoch(), 7u);
    for (int i = 0; i < 50; ++i)
      pair.dialed->Send(IslandFrame::kReady, std::string(static_cast<size_t>(i), 'x'));
    size_t next = 0;
    EXPECT_TRUE(pair.RunUntil(
        [&] {
          while (std::optional<Frame> frame = pair.accepted->Next())
            EXPECT_EQ(frame->body.size(), next++);
          return next == 50;
        },
        5 * kSecondNs));
  }
}

TEST(IslandLink, WhoDoesNotKnowTheSecretGetsNothing) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Pair pair(seed);
    IslandLinkSettings settings = pair.Settings(0);
    settings.secret = "a guess";
    pair.Dial(settings);
    ASSERT_TRUE(pair.RunUntil(
        [&] { return pair.dialed->failed() && pair.accepted && pair.accepted->failed(); },
        3 * kSecondNs));
    EXPECT_EQ(ResultOf(pair.accepted->failure()), WEFT_AUTH_FAILED);
  }
}

// Garbage of any kind and length, and a store's client with the right secret: nothing is allocated for them, and the link ends.
TEST(IslandLink, AStrangerIsReadIntoAFixedBuffer) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Pair pair(seed);
    const int stream = *pair.client()->Connect(kEndpoint);
    std::string sent = seed % 2 == 0 ? "GET / HTTP/1.1\r\n" : EncodeClientFields({.rank = 3});
    sent += std::string(4096, static_cast<char>(pair.world().Pick(256)));
    pair.act = [&] {
      while (!sent.empty()) {
        const IoResult result = pair.client()->Write(stream, sent.data(), sent.size());
        if (result.state != IoState::kDone) return;
        sent.erase(0, result.bytes);
      }
    };
    size_t largest = 0;
    ASSERT_TRUE(pair.RunUntil(
        [&] {
          if (pair.accepted) largest = std::max(largest, pair.accepted->buffered_bytes());
          return pair.accepted && pair.accepted->failed();
        },
        3 * kSecondNs));
    EXPECT_LE(largest, 1024u);
  }
}

// What one dialler has said is sent again on another connection, byte for byte.
TEST(IslandLink, ARepeatedHandshakeIsRefused) {
  Pair pair(1);
  const IslandLinkSettings settings = pair.Settings(0);
  // A server of the attacker's hears the hello; a server of ours then gets it.
  const int stream = *pair.client()->Connect(kEndpoint);
  std::string hello;
  std::string answer;
  pair.act = [&] {
    char buffer[64];
    while (hello.size() < kServerHelloBytes) {
      const IoResult result = pair.client()->Read(
          stream, buffer, std::min(sizeof(buffer), kServerHelloBytes - hello.size()));
      if (result.state != IoState::kDone) return;
      hello.append(buffer, result.bytes);
    }
    if (answer.empty()) {
      // Made for another hello, whose nonce was another one.
      std::string other = hello;
      other.back() = static_cast<char>(other.back() ^ 1);
      const std::string fields = EncodeClientFields({.rank = 0, .size = 1});
      answer = fields + MakeSessionKeys(settings.secret, other, fields).client_proof;
    }
    static size_t written = 0;
    while (written < answer.size()) {
      const IoResult result =
          pair.client()->Write(stream, answer.data() + written, answer.size() - written);
      if (result.state != IoState::kDone) return;
      written += result.bytes;
    }
  };
  ASSERT_TRUE(
      pair.RunUntil([&] { return pair.accepted && pair.accepted->failed(); }, 3 * kSecondNs));
  EXPECT_EQ(ResultOf(pair.accepted->failure()), WEFT_AUTH_FAILED);
}

TEST(IslandLink, SilenceEndsALinkAndBeatsKeepIt) {
  Pair pair(3);
  pair.Dial(pair.Settings(0));
  ASSERT_TRUE(pair.RunUntilReady());
  EXPECT_FALSE(pair.RunUntil([&] { return pair.dialed->failed() || pair.accepted->failed(); },
                             20 * kSecondNs));
  const int64_t cut_ns = pair.world().now_ns();
  pair.CutOff(cut_ns);
  ASSERT_TRUE(pair.RunUntil([&] { return pair.dialed->failed(); }, 2 * kSecondNs));
  EXPECT_GE(pair.world().now_ns(), cut_ns + 600 * kMs);
  EXPECT_LE(pair.world().now_ns(), cut_ns + kSecondNs + 100 * kMs);
  EXPECT_EQ(ResultOf(pair.dialed->failure()), WEFT_TIMEOUT);
}

// Its machine answers: that is no silence, however long it lasts, and little is sent meanwhile. When that is cut off, too, it is missed.
TEST(IslandLink, AStoppedProcessKeepsItsLinkWhileItsMachineAnswers) {
  Pair pair(3);
  pair.Dial(pair.Settings(0));
  ASSERT_TRUE(pair.RunUntilReady());
  const int64_t stopped_ns = pair.world().now_ns();
  const int64_t goes_on_ns = stopped_ns + 600 * kSecondNs;
  pair.world().StopBetween(pair.server(), stopped_ns, goes_on_ns);
  const auto any_failed = [&] {
    return pair.dialed->failed() || pair.accepted->failed();
  };
  EXPECT_FALSE(pair.RunUntil(any_failed, 599 * kSecondNs));
  const int64_t now_ns = pair.world().now_ns();
  EXPECT_TRUE(pair.dialed->MachineAnswers(pair.dialed->heard_ns(), kSecondNs));
  EXPECT_LE(pair.dialed->heard_ns(), stopped_ns + kSecondNs);
  EXPECT_EQ(pair.dialed->answered_ns(), now_ns);
  pair.dialed->Send(IslandFrame::kRecord, "for later");
  std::string heard;
  EXPECT_TRUE(pair.RunUntil(
      [&] {
        while (std::optional<Frame> frame = pair.accepted->Next())
          heard = frame->body;
        return !heard.empty() && pair.dialed->heard_ns() > goes_on_ns;
      },
      3 * kSecondNs));
  EXPECT_EQ(heard, "for later");
  const int64_t again_ns = pair.world().now_ns();
  pair.world().StopBetween(pair.server(), again_ns, SimWorld::kForever);
  EXPECT_FALSE(pair.RunUntil(any_failed, 100 * kSecondNs));
  pair.CutOff(pair.world().now_ns());
  EXPECT_TRUE(pair.RunUntil([&] { return pair.dialed->failed(); }, 4 * kSecondNs));
}

TEST(IslandLink, WhoDoesNotReadIsGivenUpBeforeMuchIsKeptForIt) {
  Pair pair(4);
  pair.Dial(pair.Settings(0));
  ASSERT_TRUE(pair.RunUntilReady());
  const std::string body(size_t{64} * 1024, 'x');
  int sent = 0;
  while (!pair.dialed->failed()) {
    ASSERT_LE(++sent, 8);
    pair.dialed->Send(IslandFrame::kRecord, body);
  }
  EXPECT_EQ(ResultOf(pair.dialed->failure()), WEFT_UNREACHABLE);
}

TEST(IslandLink, WhatCameBeforeTheEndIsTaken) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Pair pair(seed);
    pair.Dial(pair.Settings(0));
    ASSERT_TRUE(pair.RunUntilReady());
    pair.accepted->Send(IslandFrame::kMembership, "the last word");
    ASSERT_TRUE(pair.RunUntil(
        [&] {
          pair.accepted->Flush();
          return pair.accepted->flushed();
        },
        kSecondNs));
    pair.accepted->Fail(MakeError(WEFT_ABORTED, "done"));
    std::string heard;
    EXPECT_TRUE(pair.RunUntil(
        [&] {
          while (std::optional<Frame> frame = pair.dialed->Next())
            heard = frame->body;
          return pair.dialed->failed();
        },
        kSecondNs));
    EXPECT_EQ(heard, "the last word") << "seed " << seed;
  }
}

// Who sends it may end at once: it will not be said again on another link.
TEST(IslandLink, WhatTheOtherSideHadSentIsTakenByOneThatSendsNoMore) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Pair pair(seed);
    pair.Dial(pair.Settings(0));
    ASSERT_TRUE(pair.RunUntilReady());
    pair.accepted->Send(IslandFrame::kMembership, "the last word");
    ASSERT_TRUE(pair.RunUntil(
        [&] {
          pair.accepted->Flush();
          return pair.accepted->flushed();
        },
        kSecondNs));
    pair.dialed->FinishSending();
    pair.dialed->Send(IslandFrame::kRecord, "nobody hears this");
    EXPECT_TRUE(pair.dialed->flushed());
    std::string heard;
    EXPECT_TRUE(pair.RunUntil(
        [&] {
          EXPECT_FALSE(pair.accepted->Next());
          while (std::optional<Frame> frame = pair.dialed->Next())
            heard = frame->body;
          return pair.dialed->failed();
        },
        kSecondNs));
    EXPECT_TRUE(pair.accepted->failed()) << "seed " << seed;
    EXPECT_EQ(heard, "the last word") << "seed " << seed;
  }
}

// Every body, cut short, made longer, or with a changed length, is refused and not believed.
TEST(IslandProtocol, MalformedBodiesAreRefused) {
  IslandNumberSet ranks = IslandNumberSet::All(70);
  const std::string promise =
      EncodePromise({.ballot = 9, .island = 2, .dead = {1, 2, 3}, .accepted_ranks = ranks});
  const std::string verdict =
      EncodeVerdictOf({.record = {.result = WEFT_TIMEOUT, .sentence = "why"},
                       .excluded = IslandNumberSet(9),
                       .closed = IslandNumberSet(9)});
  const std::string reach = EncodeReach({{.island = 1, .number = 2, .lost = {4, 5}}});
  const std::string deaths = EncodeDeaths({{.world_rank = 3}, {.world_rank = 4}});
  ASSERT_TRUE(DecodePromise(promise, 70).ok());
  ASSERT_TRUE(DecodeVerdictOf(verdict, 9).ok());
  ASSERT_TRUE(DecodeReach(reach).ok());
  ASSERT_TRUE(DecodeDeaths(deaths).ok());
  EXPECT_FALSE(DecodePromise(promise, 71).ok());
  EXPECT_FALSE(DecodeVerdictOf(verdict, 8).ok());
  for (size_t bytes = 0; bytes < promise.size(); ++bytes)
    EXPECT_FALSE(DecodePromise(promise.substr(0, bytes), 70).ok()) << bytes;
  for (size_t bytes = 0; bytes < verdict.size(); ++bytes)
    EXPECT_FALSE(DecodeVerdictOf(verdict.substr(0, bytes), 9).ok()) << bytes;
  for (size_t bytes = 0; bytes < reach.size(); ++bytes)
    EXPECT_FALSE(DecodeReach(reach.substr(0, bytes)).ok()) << bytes;
  for (size_t bytes = 0; bytes < deaths.size(); ++bytes)
    EXPECT_FALSE(DecodeDeaths(deaths.substr(0, bytes)).ok()) << bytes;
  EXPECT_FALSE(DecodeDeaths(deaths + "x").ok());
  std::string many = deaths;
  many[0] = many[1] = static_cast<char>(0xff);
  EXPECT_FALSE(DecodeDeaths(many).ok());
}

// The system's sockets; notes which of them are to end when nobody answers.
class NotingNet : public SystemNet {
 public:
  void EndUnanswered(int stream, int64_t after_ns) override {
    asked[stream] = after_ns;
    SystemNet::EndUnanswered(stream, after_ns);
  }

  std::map<int, int64_t> asked;
};

TEST(IslandLinkOnTcp, EndsItsSocketWhenTheOtherMachineDoesNotAnswer) {
  NotingNet net;
  Seams seams = SystemSeams();
  seams.net = &net;
  Endpoint endpoint{.kind = Endpoint::Kind::kTcp, .host = "127.0.0.1"};
  const int listener = *net.Listen(&endpoint);
  IslandLinkSettings settings{.secret = "the job's secret",
                              .attempt_ns = 20 * kSecondNs,
                              .beat_ns = kSecondNs,
                              .silence_ns = 20 * kSecondNs,
                              .unanswered_ns = 60 * kSecondNs};
  const auto dialed = IslandLink::Dial(seams, settings, endpoint);
  PollItem arrives{.handle = listener, .want_read = true};
  ASSERT_TRUE(net.Poll({&arrives, 1}, seams.clock->NowNs() + 20 * kSecondNs).ok());
  const auto accepted = IslandLink::Accept(seams, settings, *net.Accept(listener));
  const int64_t until_ns = seams.clock->NowNs() + 20 * kSecondNs;
  while (!(dialed->ready() && accepted->ready()) && seams.clock->NowNs() < until_ns) {
    PollItem items[] = {dialed->Item(), accepted->Item()};
    ASSERT_TRUE(net.Poll(items, until_ns).ok());
    dialed->Advance(items[0].readable, items[0].writable);
    accepted->Advance(items[1].readable, items[1].writable);
  }
  EXPECT_TRUE(dialed->ready() && accepted->ready());
  ASSERT_EQ(net.asked.size(), 2u);
  for (const IslandLink* link : {dialed.get(), accepted.get()})
    EXPECT_EQ(net.asked.at(link->Item().handle), 60 * kSecondNs);
  net.Close(listener);
}

}  // namespace
}  // namespace weft::test::island_link_test
