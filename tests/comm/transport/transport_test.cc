// What every transport promises, on each of them; and what only TCP meets: strangers, late ranks, broken connections.
#include "comm/transport/transport.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/mutex.h"
#include "base/net.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/transport/memory_network.h"
#include "comm/transport/routed_transport.h"
#include "comm/transport/shared_memory_transport.h"
#include "comm/transport/tcp_transport.h"
#include "comm/transport/ucx/ucx_port.h"
#include "comm/transport/ucx/ucx_transport.h"
#include "tests/support/case_sample.h"

namespace weft::test {
namespace {

constexpr uint64_t kGroup = 5;
constexpr int64_t kLimitNs = 30'000'000'000;

// kRouted: ranks 0 and 1 share an island, each other rank is reached by TCP. kTwoRails, kThreeStreams: TCP over several connections.
enum class Kind {
  kMemory,
  kShuffled,
  kTcp,
  kTwoRails,
  kThreeStreams,
  kSharedMemory,
  kRouted,
  kUcx
};

std::string KindName(Kind kind) {
  switch (kind) {
    case Kind::kMemory:
      return "Memory";
    case Kind::kShuffled:
      return "Shuffled";
    case Kind::kTcp:
      return "Tcp";
    case Kind::kTwoRails:
      return "TwoRails";
    case Kind::kThreeStreams:
      return "ThreeStreams";
    case Kind::kSharedMemory:
      return "SharedMemory";
    case Kind::kRouted:
      return "Routed";
    case Kind::kUcx:
      return "Ucx";
  }
  return "";
}

#ifdef __has_feature
constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
constexpr bool kThreadSanitizer = false;
#endif

// Knows the connections that were made, and breaks one when it is told to: what the kernel has taken and not given away is lost.
class BreakingNet : public SystemNet {
 public:
  absl::StatusOr<int> Accept(int listener) override { return Note(SystemNet::Accept(listener)); }

  absl::StatusOr<int> Connect(const Endpoint& endpoint) override {
    return Note(SystemNet::Connect(endpoint));
  }

  // False: what was chosen was none.
  bool Break(uint64_t chance) {
    MutexLock lock(mutex_);
    if (handles_.empty()) return false;
    const int handle = handles_[chance / 2 % handles_.size()];
    sockaddr_storage peer;
    socklen_t bytes = sizeof(peer);
    if (getpeername(handle, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) return false;
    // An end that the other side sees at once and in order, or a reset of all.
    if (chance % 2 == 0) return shutdown(handle, SHUT_RDWR) == 0;
    const sockaddr nobody = {.sa_family = AF_UNSPEC};
    return connect(handle, &nobody, sizeof(nobody)) == 0;
  }

 private:
  absl::StatusOr<int> Note(absl::StatusOr<int> handle) {
    MutexLock lock(mutex_);
    if (handle.ok() && *handle >= 0 &&
        std::find(handles_.begin(), handles_.end(), *handle) == handles_.end())
      handles_.push_back(*handle);
    return handle;
  }

  Mutex mutex_;
  std::vector<int> handles_ WEFT_GUARDED_BY(mutex_);
};

// The transports of `size` ranks.
class Ranks {
 public:
  explicit Ranks(Kind kind, int size, Net* net = SystemSeams().net) : kind_(kind), net_(net) {
    if (kind == Kind::kSharedMemory) {
      std::vector<int> all(static_cast<size_t>(size));
      std::iota(all.begin(), all.end(), 0);
      MakeIsland(size);
      for (int rank = 0; rank < size; ++rank)
        transports_.push_back(MakeShared(all, rank));
      return;
    }
    if (kind == Kind::kMemory || kind == Kind::kShuffled) {
      network_ = std::make_unique<MemoryNetwork>(size, kind == Kind::kShuffled ? 17 : 0);
      for (int rank = 0; rank < size; ++rank)
        transports_.push_back(network_->Join(rank));
      return;
    }
    if (kind == Kind::kUcx) {
      MakeUcx(size);
      return;
    }
    std::vector<UniqueFd> reserved;
    const size_t rails = kind == Kind::kTwoRails ? 2 : 1;
    for (int rank = 0; rank < size; ++rank) {
      std::vector<Endpoint> endpoints(rails, {.kind = Endpoint::Kind::kTcp, .host = "127.0.0.1"});
      for (Endpoint& endpoint : endpoints)
        reserved.push_back(ReserveEndpoint(&endpoint).value());
      endpoints_.push_back(std::move(endpoints));
    }
    if (kind == Kind::kRouted) MakeIsland(2);
    for (int rank = 0; rank < size; ++rank) {
      if (kind != Kind::kRouted) {
        transports_.push_back(MakeTcp(rank, "secret"));
        continue;
      }
      std::vector<std::unique_ptr<Transport>> carriers;
      std::vector<int> routes(static_cast<size_t>(size), 0);
      if (rank < 2) {
        carriers.push_back(MakeShared({0, 1}, rank));
        std::fill(routes.begin() + 2, routes.end(), 1);
      }
      carriers.push_back(MakeTcp(rank, "secret"));
      transports_.push_back(
          std::make_unique<RoutedTransport>(std::move(carriers), std::move(routes)));
    }
  }

  void MakeIsland(int size) {
    island_.resize(SharedMemoryTransport::BytesFor(size) + kAlignment);
    SharedMemoryTransport::Clear(island(), size);
  }

  std::unique_ptr<Transport> MakeShared(const std::vector<int>& ranks, int rank) {
    auto made = SharedMemoryTransport::Make(SystemSeams(),
                                            {.memory = island(), .ranks = ranks, .self = rank});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  std::unique_ptr<Transport> MakeTcp(int rank, const std::string& secret,
                                     int64_t connect_ns = kLimitNs) {
    Seams seams = SystemSeams();
    seams.net = net_;
    auto made = TcpTransport::Make(seams, {.secret = secret,
                                           .self = rank,
                                           .endpoints = endpoints_,
                                           .streams = kind_ == Kind::kThreeStreams ? 3 : 1,
                                           .connect_ns = connect_ns,
                                           .again_ns = connect_ns});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  void MakeUcx(int size) {
    std::vector<std::unique_ptr<UcxPort>> ports;
    std::vector<std::string> addresses;
    for (int rank = 0; rank < size; ++rank) {
      auto port = UcxPort::Open({.transports = "tcp"});
      ASSERT_TRUE(port.ok()) << port.status();
      addresses.push_back((*port)->address());
      ports.push_back(*std::move(port));
    }
    for (int rank = 0; rank < size; ++rank) {
      auto made = UcxTransport::Make(SystemSeams(), std::move(ports[static_cast<size_t>(rank)]),
                                     {.secret = "secret", .self = rank, .addresses = addresses});
      ASSERT_TRUE(made.ok()) << made.status();
      transports_.push_back(*std::move(made));
    }
  }

  // One closes a group; over UCX, where it may have to wait for the others, while these go on.
  void Close(int rank, uint64_t group) {
    if (kind_ != Kind::kUcx) {
      transports_[static_cast<size_t>(rank)]->CloseGroup(group);
      return;
    }
    std::atomic<bool> closed{false};
    std::thread others([&] {
      while (!closed.load()) {
        for (const auto& transport : transports_) {
          if (transport != transports_[static_cast<size_t>(rank)]) transport->Advance();
        }
      }
    });
    transports_[static_cast<size_t>(rank)]->CloseGroup(group);
    closed.store(true);
    others.join();
  }

  std::unique_ptr<Transport>& operator[](int rank) {
    return transports_[static_cast<size_t>(rank)];
  }

  const Endpoint& endpoint(int rank) const { return endpoints_[static_cast<size_t>(rank)][0]; }

  // All are moved until `done`; false at the limit.
  bool Until(const std::function<bool()>& done, int64_t within_ns = kLimitNs) {
    const int64_t until_ns = MonotonicNs() + within_ns;
    while (!done()) {
      if (MonotonicNs() > until_ns) return false;
      for (const auto& transport : transports_) {
        if (transport != nullptr) transport->Advance();
      }
    }
    return true;
  }

 private:
  static constexpr size_t kAlignment = 128;

  std::byte* island() {
    const auto address = reinterpret_cast<uintptr_t>(island_.data());
    return island_.data() + (kAlignment - address % kAlignment) % kAlignment;
  }

  const Kind kind_;
  Net* const net_;
  std::vector<std::byte> island_;
  std::vector<std::vector<Endpoint>> endpoints_;
  std::unique_ptr<MemoryNetwork> network_;
  std::vector<std::unique_ptr<Transport>> transports_;
};

std::vector<std::byte> Bytes(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (size_t at = 0; at < count; at += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), count - at));
  }
  return bytes;
}

struct Message {
  std::vector<std::byte> from;
  std::vector<std::byte> to;
  Transfer send;
  Transfer receive;

  bool ended() const {
    return send.state() != TransferState::kPosted && receive.state() != TransferState::kPosted;
  }
};

std::unique_ptr<Message> MakeMessage(int sender, int receiver, uint64_t sequence, uint32_t index,
                                     size_t bytes, uint64_t group = kGroup) {
  auto message = std::make_unique<Message>();
  message->from = Bytes(bytes, sequence * 1000 + index * 10 + static_cast<uint64_t>(sender));
  message->to.resize(bytes);
  const StreamId stream{.group_id = group, .sequence = sequence};
  message->send = {.peer = receiver,
                   .stream = stream,
                   .tag = index,
                   .signature = 77,
                   .is_send = true,
                   .memory = message->from.data(),
                   .bytes = bytes};
  message->receive = {.peer = sender,
                      .stream = stream,
                      .tag = index,
                      .signature = 77,
                      .memory = message->to.data(),
                      .bytes = bytes};
  return message;
}

class TransportTest : public testing::TestWithParam<Kind> {};

constexpr size_t kSizes[] = {
    0,        1, 63, 4095, 4097, kAheadBytesMax, kAheadBytesMax + 1, 70'000, 600'000, (1 << 20) + 3,
    3'000'001};

TEST_P(TransportTest, AMessageOfAnySizeArrivesWhoeverComesFirst) {
  for (const size_t bytes : kSizes) {
    for (const bool send_first : {true, false}) {
      SCOPED_TRACE(StrCat(bytes, " bytes, ", send_first ? "send" : "receive", " first"));
      Ranks ranks(GetParam(), 2);
      for (const int sender : {0, 1}) {
        const auto message = MakeMessage(sender, 1 - sender, 1, 0, bytes);
        if (send_first) ranks[sender]->Post(&message->send);
        for (int round = 0; round < 50 && send_first; ++round) {
          ranks[0]->Advance();
          ranks[1]->Advance();
        }
        ranks[1 - sender]->Post(&message->receive);
        if (!send_first) ranks[sender]->Post(&message->send);
        ASSERT_TRUE(ranks.Until([&] { return message->ended(); }));
        EXPECT_EQ(message->send.state(), TransferState::kDone);
        EXPECT_EQ(message->receive.state(), TransferState::kDone);
        EXPECT_TRUE(message->from == message->to);
      }
    }
  }
}

// Each rank is a thread that posts in an order of its own.
void ExchangeMany(Kind kind, int size, uint64_t sequences, uint64_t seed,
                  Net* net = SystemSeams().net) {
  std::mt19937_64 random(seed);
  std::vector<std::unique_ptr<Message>> messages;
  std::vector<std::vector<Transfer*>> posts(static_cast<size_t>(size));
  for (uint64_t sequence = 1; sequence <= sequences; ++sequence) {
    for (int sender = 0; sender < size; ++sender) {
      for (int receiver = 0; receiver < size; ++receiver) {
        if (sender == receiver) continue;
        for (uint32_t index = 0; index < 2; ++index) {
          const size_t bytes = kSizes[random() % (std::size(kSizes) - 2)] + random() % 8;
          messages.push_back(MakeMessage(sender, receiver, sequence, index, bytes));
          posts[static_cast<size_t>(sender)].push_back(&messages.back()->send);
          posts[static_cast<size_t>(receiver)].push_back(&messages.back()->receive);
        }
      }
    }
  }
  Ranks ranks(kind, size, net);
  std::atomic<int> unfinished{size};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    std::vector<Transfer*>& mine = posts[static_cast<size_t>(rank)];
    std::shuffle(mine.begin(), mine.end(), random);
    threads.emplace_back([&, rank, own_seed = random()] {
      std::mt19937_64 own(own_seed);
      size_t posted = 0;
      const int64_t until_ns = MonotonicNs() + kLimitNs;
      const auto ended = [&] {
        return posted == mine.size() &&
               std::all_of(mine.begin(), mine.end(), [](const Transfer* transfer) {
                 return transfer->state() != TransferState::kPosted;
               });
      };
      while (!ended() && MonotonicNs() < until_ns) {
        for (uint64_t more = own() % 4; more > 0 && posted < mine.size(); --more)
          ranks[rank]->Post(mine[posted++]);
        ranks[rank]->Advance();
      }
      unfinished.fetch_sub(1);
      // What it has sent may have to be pushed on.
      while (unfinished.load() > 0 && MonotonicNs() < until_ns)
        ranks[rank]->Advance();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const auto& message : messages) {
    ASSERT_EQ(message->send.state(), TransferState::kDone);
    ASSERT_EQ(message->receive.state(), TransferState::kDone);
    ASSERT_TRUE(message->from == message->to);
  }
}

TEST_P(TransportTest, ManyMessagesBetweenThreadsArriveInAnyOrder) {
  const uint64_t seed = FirstSeedToTry(1);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  for (const int size : {2, 3, 4, 7}) {
    SCOPED_TRACE(StrCat(size, " ranks"));
    ExchangeMany(GetParam(), size, /*sequences=*/size < 7 ? 20 : 5, seed);
  }
}

// Far more than a receiver has room for.
TEST_P(TransportTest, SmallMessagesWaitForRoom) {
  Ranks ranks(GetParam(), 2);
  std::vector<std::unique_ptr<Message>> messages;
  for (uint32_t index = 0; index < 100; ++index) {
    messages.push_back(MakeMessage(0, 1, 1, index, index % 3 == 0 ? 0 : kAheadBytesMax));
    ranks[0]->Post(&messages.back()->send);
  }
  for (int round = 0; round < 300; ++round) {
    ranks[0]->Advance();
    ranks[1]->Advance();
  }
  // A large one is not held up by them.
  const auto large = MakeMessage(0, 1, 2, 0, 1'000'000);
  ranks[0]->Post(&large->send);
  ranks[1]->Post(&large->receive);
  EXPECT_TRUE(ranks.Until([&] { return large->ended(); }));
  EXPECT_TRUE(large->from == large->to);
  for (auto message = messages.rbegin(); message != messages.rend(); ++message)
    ranks[1]->Post(&(*message)->receive);
  EXPECT_TRUE(ranks.Until([&] {
    return std::all_of(messages.begin(), messages.end(),
                       [](const auto& message) { return message->ended(); });
  }));
  for (const auto& message : messages)
    EXPECT_TRUE(message->from == message->to);
}

// The room is full of messages that nobody receives yet: a small one that is wanted comes past them, posted before or after.
TEST_P(TransportTest, ASmallMessageIsNotHeldUpByThoseThatNobodyReceives) {
  for (const size_t bytes : {size_t{0}, size_t{9}, kAheadBytesMax}) {
    for (const bool send_first : {false, true}) {
      SCOPED_TRACE(StrCat(bytes, " bytes, ", send_first));
      Ranks ranks(GetParam(), 2);
      std::vector<std::unique_ptr<Message>> unwanted;
      for (uint32_t index = 0; index < 30; ++index) {
        unwanted.push_back(MakeMessage(0, 1, 1, index, kAheadBytesMax - index));
        ranks[0]->Post(&unwanted.back()->send);
      }
      for (uint32_t index = 30; index < 230; ++index) {  // what is left of it
        unwanted.push_back(MakeMessage(0, 1, 1, index, 0));
        ranks[0]->Post(&unwanted.back()->send);
      }
      const auto advance = [&] {
        for (int round = 0; round < 400; ++round) {
          ranks[0]->Advance();
          ranks[1]->Advance();
        }
      };
      advance();
      const auto wanted = MakeMessage(0, 1, 2, 0, bytes);
      if (send_first) ranks[0]->Post(&wanted->send);
      if (send_first) advance();
      ranks[1]->Post(&wanted->receive);
      if (!send_first) ranks[0]->Post(&wanted->send);
      ASSERT_TRUE(ranks.Until([&] { return wanted->ended(); }));
      EXPECT_EQ(wanted->receive.state(), TransferState::kDone);
      EXPECT_TRUE(wanted->from == wanted->to);
      for (const auto& message : unwanted)
        ranks[1]->Post(&message->receive);
      ASSERT_TRUE(ranks.Until([&] {
        return std::all_of(unwanted.begin(), unwanted.end(),
                           [](const auto& message) { return message->ended(); });
      }));
      for (const auto& message : unwanted)
        ASSERT_TRUE(message->receive.state() == TransferState::kDone &&
                    message->from == message->to);
    }
  }
}

TEST_P(TransportTest, WhatIsPostedToBeSentIsOfferedToItsReceiver) {
  Ranks ranks(GetParam(), 2);
  std::vector<std::unique_ptr<Message>> messages;
  for (const int sender : {0, 1}) {  // the one that is dialled, too, whom only the question reaches
    for (uint32_t index = 0; index < 40; ++index) {
      const size_t bytes = index % 4 == 0 ? 100'000 : kAheadBytesMax - index;
      messages.push_back(MakeMessage(sender, 1 - sender, 100 + index, 7 * index, bytes));
      const Transfer& send = messages.back()->send;
      ASSERT_EQ(ranks[1 - sender]->Offered(sender, send.stream).has_value(), false);
      ranks[sender]->Post(&messages.back()->send);
    }
  }
  for (const auto& message : messages) {
    const int receiver = message->send.peer;
    const auto offered = [&] {
      return ranks[receiver]->Offered(1 - receiver, message->send.stream);
    };
    ASSERT_TRUE(ranks.Until([&] { return offered().has_value(); }));
    std::optional<OfferedMessage> offer;  // a shuffled network does not say it each time
    while (!(offer = offered()).has_value()) {
    }
    ASSERT_EQ(offer->tag, message->send.tag);
    ASSERT_EQ(offer->bytes, message->send.bytes);
    ASSERT_EQ(offer->signature, message->send.signature);
    ranks[receiver]->Post(&message->receive);
    ASSERT_FALSE(offered().has_value());
  }
  ASSERT_TRUE(ranks.Until([&] {
    return std::all_of(messages.begin(), messages.end(),
                       [](const auto& message) { return message->ended(); });
  }));
}

TEST_P(TransportTest, CallsThatDifferAreFoundByTheReceiverAndNobodyGetsData) {
  for (const size_t bytes : {size_t{16}, size_t{100'000}}) {
    for (const bool other_size : {false, true}) {
      for (const bool send_first : {false, true}) {
        SCOPED_TRACE(StrCat(bytes, " bytes, ", other_size, send_first));
        Ranks ranks(GetParam(), 2);
        const auto message = MakeMessage(0, 1, 1, 0, bytes);
        const std::vector<std::byte> untouched = message->to;
        if (other_size) {
          message->receive.bytes -= 1;
        } else {
          message->receive.signature = 78;
        }
        if (send_first) ranks[0]->Post(&message->send);
        for (int round = 0; round < 50; ++round) {
          ranks[0]->Advance();
          ranks[1]->Advance();
        }
        ranks[1]->Post(&message->receive);
        if (!send_first) ranks[0]->Post(&message->send);
        ASSERT_TRUE(
            ranks.Until([&] { return message->receive.state() != TransferState::kPosted; }));
        EXPECT_EQ(message->receive.state(), TransferState::kMismatch);
        EXPECT_EQ(message->receive.other_signature, 77u);
        EXPECT_EQ(message->receive.other_bytes, bytes);
        EXPECT_TRUE(message->to == untouched);
        // Of a large one the sender hears as well.
        if (bytes < 1000) continue;
        ASSERT_TRUE(ranks.Until([&] { return message->send.state() != TransferState::kPosted; }));
        EXPECT_EQ(message->send.state(), TransferState::kMismatch);
        EXPECT_EQ(message->send.other_signature, message->receive.signature);
      }
    }
  }
}

// The two calls have no message in common, so neither half that is posted here has another one there.
TEST_P(TransportTest, ACallWithoutMessagesOfTheOtherIsFoundByTheirStream) {
  for (const size_t bytes : {size_t{16}, size_t{100'000}}) {
    for (const bool post_first : {false, true}) {
      SCOPED_TRACE(StrCat(bytes, " bytes, ", post_first));
      // Its send may not have ended when the ranks do.
      const auto message = MakeMessage(0, 1, 1, 0, bytes);
      Ranks ranks(GetParam(), 2);
      message->send.record = {1, 2, 3, 4};
      message->receive.record = {5, 6, 7, 8};
      message->receive.signature = 78;
      message->receive.tag = message->send.tag + 1;
      if (post_first) ranks[1]->Post(&message->receive);
      ranks[0]->Post(&message->send);
      for (int round = 0; round < 50; ++round) {
        ranks[0]->Advance();
        ranks[1]->Advance();
      }
      if (!post_first) ranks[1]->Post(&message->receive);
      ASSERT_TRUE(ranks.Until([&] { return message->receive.state() != TransferState::kPosted; }));
      EXPECT_EQ(message->receive.state(), TransferState::kMismatch);
      EXPECT_EQ(message->receive.other_signature, 77u);
      EXPECT_TRUE(message->receive.other_record == message->send.record);
    }
  }
}

// In the middle of large messages: memory is its owner's again at once, and other groups go on over the same connection.
TEST_P(TransportTest, AClosedGroupTouchesNoMemoryAndOthersGoOn) {
  const uint64_t seed = FirstSeedToTry(1);
  for (uint64_t round = 0; round < 20; ++round) {
    SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed, ", round ", round));
    std::mt19937_64 random(seed + round);
    Ranks ranks(GetParam(), 2);
    std::vector<std::unique_ptr<Message>> doomed;
    std::vector<std::unique_ptr<Message>> others;
    for (uint32_t index = 0; index < 6; ++index) {
      doomed.push_back(MakeMessage(0, 1, 1, index, kSizes[random() % std::size(kSizes)], kGroup));
      others.push_back(
          MakeMessage(0, 1, 1, index, kSizes[random() % std::size(kSizes)], kGroup + 1));
      for (auto* const messages : {&doomed, &others}) {
        ranks[0]->Post(&messages->back()->send);
        if (messages == &others || random() % 3 != 0) ranks[1]->Post(&messages->back()->receive);
      }
    }
    for (uint64_t step = random() % 60; step > 0; --step) {
      ranks[0]->Advance();
      ranks[1]->Advance();
    }
    const int first = static_cast<int>(random() % 2);
    ranks.Close(first, kGroup);
    for (uint64_t step = random() % 20; step > 0; --step) {
      ranks[0]->Advance();
      ranks[1]->Advance();
    }
    ranks.Close(1 - first, kGroup);
    for (const auto& message : doomed) {
      EXPECT_NE(message->send.state(), TransferState::kPosted);
      EXPECT_NE(message->receive.state(), TransferState::kPosted);
      std::fill(message->to.begin(), message->to.end(), std::byte{0xee});
      std::fill(message->from.begin(), message->from.end(), std::byte{0xdd});
    }
    ASSERT_TRUE(ranks.Until([&] {
      return std::all_of(others.begin(), others.end(),
                         [](const auto& message) { return message->ended(); });
    }));
    for (const auto& message : others) {
      EXPECT_EQ(message->receive.state(), TransferState::kDone);
      EXPECT_TRUE(message->from == message->to);
    }
    for (const auto& message : doomed) {
      EXPECT_TRUE(std::all_of(message->to.begin(), message->to.end(),
                              [](std::byte byte) { return byte == std::byte{0xee}; }));
    }
    const auto late = MakeMessage(0, 1, 2, 0, 10, kGroup);
    ranks[0]->Post(&late->send);
    EXPECT_EQ(late->send.state(), TransferState::kRetracted);
  }
}

TEST_P(TransportTest, ALostPeerIsAnEventOnce) {
  Ranks ranks(GetParam(), 3);
  const auto message = MakeMessage(0, 1, 1, 0, 1000);
  ranks[0]->Post(&message->send);
  ranks[1]->Post(&message->receive);
  ASSERT_TRUE(ranks.Until([&] { return message->ended(); }));
  const auto waiting = MakeMessage(1, 0, 2, 0, 100'000);
  ranks[0]->Post(&waiting->receive);
  ranks[1].reset();
  std::vector<LinkEvent> events;
  ASSERT_TRUE(ranks.Until([&] { return !(events = ranks[0]->TakeEvents()).empty(); }));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].peer, 1);
  EXPECT_EQ(ResultOf(events[0].why), WEFT_UNREACHABLE) << events[0].why;
  EXPECT_EQ(waiting->receive.state(), TransferState::kPosted) << "an event is no verdict";
  EXPECT_FALSE(ranks.Until([&] { return !ranks[0]->TakeEvents().empty(); }, 20'000'000));
  ranks[0]->CloseGroup(kGroup);
  EXPECT_EQ(waiting->receive.state(), TransferState::kRetracted);
}

INSTANTIATE_TEST_SUITE_P(All, TransportTest,
                         testing::Values(Kind::kMemory, Kind::kShuffled, Kind::kTcp,
                                         Kind::kTwoRails, Kind::kThreeStreams, Kind::kSharedMemory,
                                         Kind::kRouted),
                         [](const auto& kind) { return KindName(kind.param); });

#ifdef WEFT_TEST_UCX
INSTANTIATE_TEST_SUITE_P(Ucx, TransportTest, testing::Values(Kind::kUcx),
                         [](const auto& kind) { return KindName(kind.param); });
#endif

TEST(TcpTransport, ARankThatComesLateIsDialledAgain) {
  for (const int late : {0, 1}) {
    Ranks ranks(Kind::kTcp, 2);
    ranks[late].reset();
    const auto message = MakeMessage(1 - late, late, 1, 0, 1000);
    ranks[1 - late]->Post(&message->send);
    EXPECT_FALSE(ranks.Until([&] { return message->ended(); }, 50'000'000) &&
                 message->receive.state() == TransferState::kDone);
    ranks[late] = ranks.MakeTcp(late, "secret");
    ranks[late]->Post(&message->receive);
    ASSERT_TRUE(ranks.Until([&] { return message->receive.state() == TransferState::kDone; }));
    EXPECT_TRUE(message->from == message->to);
  }
}

// It has its socket, and does something else for longer than a connection may take to be made.
TEST(TcpTransport, ARankThatAnswersLateIsWaitedFor) {
  for (const int late : {0, 1}) {
    SCOPED_TRACE(late);
    Ranks ranks(Kind::kTcp, 2);
    constexpr int64_t kConnectNs = 100'000'000;
    for (const int rank : {0, 1}) {
      ranks[rank].reset();
      ranks[rank] = ranks.MakeTcp(rank, "secret", kConnectNs);
    }
    const auto message = MakeMessage(1 - late, late, 1, 0, 1000);
    ranks[1 - late]->Post(&message->send);
    const int64_t until_ns = MonotonicNs() + 3 * kConnectNs;
    while (MonotonicNs() < until_ns)
      ranks[1 - late]->Advance();
    EXPECT_TRUE(ranks[1 - late]->TakeEvents().empty());
    ranks[late]->Post(&message->receive);
    ASSERT_TRUE(ranks.Until([&] { return message->receive.state() == TransferState::kDone; }));
    EXPECT_TRUE(message->from == message->to);
  }
}

TEST(TcpTransport, WhoDoesNotKnowTheSecretIsNotConnectedWith) {
  Ranks ranks(Kind::kTcp, 2);
  ranks[0].reset();
  ranks[0] = ranks.MakeTcp(0, "another secret", 300'000'000);
  const auto message = MakeMessage(0, 1, 1, 0, 1000);
  ranks[0]->Post(&message->send);
  ranks[1]->Post(&message->receive);
  std::vector<LinkEvent> events;
  ASSERT_TRUE(ranks.Until([&] { return !(events = ranks[0]->TakeEvents()).empty(); }));
  EXPECT_EQ(ResultOf(events[0].why), WEFT_UNREACHABLE);
  EXPECT_NE(std::string(events[0].why.message()).find(ranks.endpoint(1).ToString()),
            std::string::npos);
  EXPECT_EQ(message->receive.state(), TransferState::kPosted);
}

TEST(TcpTransport, WhoCannotBeReachedIsNamedWithHowTheAddressWasChosen) {
  Ranks ranks(Kind::kTcp, 2);
  ranks[1].reset();  // nobody listens there
  auto made = TcpTransport::Make(
      SystemSeams(),
      {.secret = "secret",
       .self = 0,
       .endpoints = {{{.kind = Endpoint::Kind::kTcp, .host = "127.0.0.1"}}, {ranks.endpoint(1)}},
       .choices = {"interface eth0, chosen automatically", "interface ib0, by WEFT_IFNAME=ib"},
       .connect_ns = 300'000'000});
  ASSERT_TRUE(made.ok()) << made.status();
  const auto message = MakeMessage(0, 1, 1, 0, 1000);
  (*made)->Post(&message->send);
  std::vector<LinkEvent> events;
  const int64_t until_ns = MonotonicNs() + kLimitNs;
  while (events.empty() && MonotonicNs() < until_ns) {
    (*made)->Advance();
    events = (*made)->TakeEvents();
  }
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::string(events[0].why.message()),
            StrCat("no connection with rank 1 at ", ranks.endpoint(1).ToString(),
                   " (interface ib0, by WEFT_IFNAME=ib) could be made: could not connect to its "
                   "peer: Connection refused; WEFT_IFNAME on that rank's machine names another "
                   "interface"));
}

TEST(TcpTransport, StrangersHoldUpNobody) {
  Ranks ranks(Kind::kTcp, 2);
  Net& net = *SystemSeams().net;
  std::vector<int> strangers;
  for (int i = 0; i < 10; ++i) {
    const absl::StatusOr<int> stranger = net.Connect(ranks.endpoint(1));
    ASSERT_TRUE(stranger.ok());
    strangers.push_back(*stranger);
  }
  for (int round = 0; round < 20; ++round)
    ranks[1]->Advance();
  const std::string garbage = "GET / HTTP/1.1\r\n\r\n";
  for (size_t i = 0; i < strangers.size(); i += 2)
    (void)net.Write(strangers[i], garbage.data(), garbage.size());
  const auto message = MakeMessage(0, 1, 1, 0, 1'000'000);
  ranks[0]->Post(&message->send);
  ranks[1]->Post(&message->receive);
  ASSERT_TRUE(ranks.Until([&] { return message->ended(); }));
  EXPECT_TRUE(message->from == message->to);
  for (const int stranger : strangers)
    net.Close(stranger);
}

// Links of one connection and of several.
class TcpTransportTest : public testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(All, TcpTransportTest,
                         testing::Values(Kind::kTcp, Kind::kTwoRails, Kind::kThreeStreams),
                         [](const auto& kind) { return KindName(kind.param); });

// Three ranks on connections that are broken all the time; sends' memory is used again as soon as they have ended.
TEST_P(TcpTransportTest, BrokenConnectionsAreMadeAgainAndNothingIsLost) {
  const uint64_t seed = FirstSeedToTry(1);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  std::mt19937_64 random(seed);
  BreakingNet net;
  Ranks ranks(GetParam(), 3, &net);
  std::vector<std::unique_ptr<Message>> messages;
  int broken = 0;
  for (uint32_t index = 0; index < 1500; ++index) {
    const int sender = static_cast<int>(random() % 3);
    const int receiver = (sender + 1 + static_cast<int>(random() % 2)) % 3;
    messages.push_back(MakeMessage(sender, receiver, 1 + index / 100, index,
                                   kSizes[random() % (index % 10 == 0 ? std::size(kSizes) : 5)]));
    Message& message = *messages.back();
    const std::vector<std::byte> sent = message.from;
    const bool send_first = random() % 2 == 0;
    if (send_first) ranks[sender]->Post(&message.send);
    ranks[receiver]->Post(&message.receive);
    if (!send_first) ranks[sender]->Post(&message.send);
    bool overwritten = false;
    int64_t moves = 0;
    ASSERT_TRUE(ranks.Until([&] {
      if (!overwritten && message.send.state() == TransferState::kDone) {
        std::fill(message.from.begin(), message.from.end(), std::byte{0xee});
        overwritten = true;
      }
      if (++moves % 2 == 0 && random() % 3 == 0) broken += net.Break(random());
      return message.ended();
    })) << "message "
        << index;
    ASSERT_EQ(message.receive.state(), TransferState::kDone);
    ASSERT_TRUE(message.to == sent) << "message " << index;
  }
  std::printf("%d connections were broken\n", broken);
  EXPECT_GT(broken, 100);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_TRUE(ranks[rank]->TakeEvents().empty());
}

TEST_P(TcpTransportTest, ManyMessagesBetweenThreadsOutliveBreaks) {
  if (kThreadSanitizer)
    GTEST_SKIP() << "it breaks descriptors that other threads use: TSan would tell of that alone";
  BreakingNet net;
  std::atomic<bool> ended{false};
  std::thread breaker([&] {
    std::mt19937_64 random(1);
    while (!ended.load()) {
      net.Break(random());
      (void)SystemSeams().net->Poll({}, MonotonicNs() + 3'000'000);
    }
  });
  for (const int size : {2, 3, 4})
    ExchangeMany(GetParam(), size, /*sequences=*/20, FirstSeedToTry(1), &net);
  ended.store(true);
  breaker.join();
}

// It is in the middle of a part when the connection breaks, and its group is closed before there is another one.
TEST_P(TcpTransportTest, MemoryThatIsTakenBackWhileTheConnectionIsBrokenIsReadNoMore) {
  BreakingNet net;
  Ranks ranks(GetParam(), 2, &net);
  constexpr size_t kBytes = 64 << 20;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto doomed = MakeMessage(0, 1, 1, 0, kBytes);
  doomed->send.memory = static_cast<std::byte*>(memory);
  ranks[0]->Post(&doomed->send);
  ranks[1]->Post(&doomed->receive);
  ASSERT_TRUE(ranks.Until([&] { return doomed->receive.moved > 0; }));
  // Until the sockets are full.
  for (int idle = 0; idle < 100; ++idle)
    if (ranks[0]->Advance()) idle = 0;
  while (!net.Break(1)) {
  }
  ranks[0]->Advance();
  ranks[0]->CloseGroup(kGroup);
  ASSERT_EQ(doomed->send.state(), TransferState::kRetracted);
  ASSERT_EQ(mprotect(memory, kBytes, PROT_NONE), 0);
  const auto message = MakeMessage(0, 1, 1, 0, 1'000'000, kGroup + 1);
  ranks[0]->Post(&message->send);
  ranks[1]->Post(&message->receive);
  ASSERT_TRUE(ranks.Until([&] { return message->ended(); }));
  EXPECT_TRUE(message->from == message->to);
  ranks[1]->CloseGroup(kGroup);
  munmap(memory, kBytes);
}

// Nobody answers at its address any more, and it has not said that it leaves.
TEST(TcpTransport, ARankThatIsGoneForGoodIsAnEventAfterTheTime) {
  BreakingNet net;
  Ranks ranks(Kind::kTcp, 2, &net);
  constexpr int64_t kAgainNs = 300'000'000;
  for (const int rank : {0, 1}) {
    ranks[rank].reset();
    ranks[rank] = ranks.MakeTcp(rank, "secret", kAgainNs);
  }
  const auto message = MakeMessage(0, 1, 1, 0, 1000);
  ranks[0]->Post(&message->send);
  ranks[1]->Post(&message->receive);
  ASSERT_TRUE(ranks.Until([&] { return message->ended(); }));
  while (!net.Break(1)) {
  }
  ranks[1].reset();
  const int64_t begun_ns = MonotonicNs();
  std::vector<LinkEvent> events;
  ASSERT_TRUE(ranks.Until([&] { return !(events = ranks[0]->TakeEvents()).empty(); }));
  EXPECT_GE(MonotonicNs() - begun_ns, kAgainNs / 2);
  EXPECT_EQ(ResultOf(events[0].why), WEFT_UNREACHABLE);
  EXPECT_NE(std::string(events[0].why.message()).find("could not be made again"), std::string::npos)
      << events[0].why;
}

}  // namespace
}  // namespace weft::test
