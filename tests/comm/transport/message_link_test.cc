// Links whose streams break again and again, in memory: what two ranks say to each other comes once, whole and into the right place,
// and no memory is read after it was given back.
#include "comm/transport/message_link.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "tests/support/case_sample.h"

namespace weft::test::message_link_test {
namespace {

constexpr uint64_t kGroup = 5;

// One direction of a connection: what was written and not read yet.
struct Pipe {
  std::string bytes;
  size_t begin = 0;  // of what was not read yet
  bool broken = false;

  size_t left() const { return bytes.size() - begin; }
};

// Moves as much as chance will have it. What a broken connection had taken is lost, or can still be read, as chance will have it.
class PipeStream : public ByteStream {
 public:
  PipeStream(std::shared_ptr<Pipe> out, std::shared_ptr<Pipe> in, std::mt19937_64* random)
      : out_(std::move(out)), in_(std::move(in)), random_(random) {}

  ~PipeStream() override {
    out_->broken = true;
    in_->broken = true;
  }

  IoResult Write(std::span<const iovec> pieces) override {
    if (out_->broken) return {};  // a read will say it
    size_t room = std::min(Some(pieces), kPipeBytes - std::min(kPipeBytes, out_->left()));
    if (room == 0) return {};
    size_t bytes = 0;
    for (const iovec& piece : pieces) {
      const size_t taken = std::min(piece.iov_len, room);
      out_->bytes.append(static_cast<const char*>(piece.iov_base), taken);
      room -= taken;
      bytes += taken;
    }
    return {.state = IoState::kDone, .bytes = bytes};
  }

  IoResult Read(std::span<const iovec> pieces) override {
    if (in_->left() == 0) return {.state = in_->broken ? IoState::kClosed : IoState::kWouldBlock};
    size_t left = std::min(in_->left(), Some(pieces));
    if (left == 0) return {};
    size_t bytes = 0;
    for (const iovec& piece : pieces) {
      const size_t taken = std::min(piece.iov_len, left);
      std::memcpy(piece.iov_base, in_->bytes.data() + in_->begin + bytes, taken);
      left -= taken;
      bytes += taken;
    }
    in_->begin += bytes;
    if (in_->begin > kPipeBytes) in_->bytes.erase(0, std::exchange(in_->begin, 0));
    return {.state = IoState::kDone, .bytes = bytes};
  }

  bool Flushed() const override { return true; }

 private:
  static constexpr size_t kPipeBytes = 200'000;

  // Of these, what chance will have moved.
  size_t Some(std::span<const iovec> pieces) {
    size_t bytes = 0;
    for (const iovec& piece : pieces)
      bytes += piece.iov_len;
    const uint64_t chance = (*random_)();
    if (chance % 8 == 0) return 0;
    return chance % 3 == 0 ? std::min<size_t>(bytes, 1 + (*random_)() % 100) : bytes;
  }

  const std::shared_ptr<Pipe> out_;
  const std::shared_ptr<Pipe> in_;
  std::mt19937_64* const random_;
};

// Two links, and what connects them.
class Pair {
 public:
  explicit Pair(std::mt19937_64* random, int connections = 1)
      : random_(random), pipes_(static_cast<size_t>(connections)) {
    for (int number = 0; number < connections; ++number)
      Connect(number);
  }

  MessageLink& operator[](int rank) { return links_[rank]; }

  int connections() const { return static_cast<int>(pipes_.size()); }

  void Connect(int number) {
    Pipes& pipes = pipes_[static_cast<size_t>(number)];
    pipes = {std::make_shared<Pipe>(), std::make_shared<Pipe>()};
    for (const int rank : {0, 1}) {
      links_[rank].Attach(std::make_unique<PipeStream>(pipes[rank], pipes[1 - rank], random_),
                          number);
    }
  }

  // One of the connections.
  void Break() {
    ++breaks_;
    for (const auto& pipe : pipes_[(*random_)() % pipes_.size()]) {
      pipe->broken = true;
      if ((*random_)() % 2 == 0)
        pipe->bytes.resize(pipe->bytes.size() - (*random_)() % (pipe->left() + 1));
    }
  }

  int breaks() const { return breaks_; }

  // One of them is moved. A connection that is seen to be broken by one is made again, also while the other one believes in it.
  void Advance() {
    MessageLink& link = links_[(*random_)() % 2];
    link.Advance();
    for (int number = 0; number < connections(); ++number) {
      if (!link.attached(number) && link.failure().ok() && !link.given_up(number)) Connect(number);
    }
  }

 private:
  using Pipes = std::array<std::shared_ptr<Pipe>, 2>;

  std::mt19937_64* const random_;
  std::vector<Pipes> pipes_;
  int breaks_ = 0;
  MessageLink links_[2] = {MessageLink(1, 71), MessageLink(0, 72)};
};

struct Message {
  std::vector<std::byte> from;
  std::vector<std::byte> sent;  // a copy: `from` is overwritten once the send has ended
  std::vector<std::byte> to;
  Transfer send;
  Transfer receive;
  bool overwritten = false;

  bool ended() const {
    return send.state() != TransferState::kPosted && receive.state() != TransferState::kPosted;
  }

  // Its owner does what it likes with it.
  void UseAgain() {
    if (overwritten || send.state() != TransferState::kDone) return;
    std::fill(from.begin(), from.end(), std::byte{0xee});
    overwritten = true;
  }
};

std::unique_ptr<Message> MakeMessage(int sender, uint64_t group, uint64_t tag, size_t bytes,
                                     std::mt19937_64* random) {
  auto message = std::make_unique<Message>();
  message->from.resize(bytes);
  for (std::byte& byte : message->from)
    byte = static_cast<std::byte>((*random)());
  message->sent = message->from;
  message->to.resize(bytes);
  const StreamId stream{.group_id = group, .sequence = 1 + tag % 7};
  message->send = {.peer = 1 - sender,
                   .stream = stream,
                   .tag = tag,
                   .signature = 77,
                   .is_send = true,
                   .memory = message->from.data(),
                   .bytes = bytes};
  message->receive = {.peer = sender,
                      .stream = stream,
                      .tag = tag,
                      .signature = 77,
                      .memory = message->to.data(),
                      .bytes = bytes};
  return message;
}

size_t SomeBytes(std::mt19937_64* random) {
  constexpr size_t kSizes[] = {0,
                               8,
                               100,
                               kAheadBytesMax,
                               kAheadBytesMax + 1,
                               kKeptOfMessage,
                               kKeptOfMessage + 1,
                               100'000,
                               kPartBytesMax,
                               kPartBytesMax + 10,
                               1'200'000};
  return kSizes[(*random)() % ((*random)() % 4 == 0 ? std::size(kSizes) : 5)];
}

using Messages = std::vector<std::unique_ptr<Message>>;

bool AllEnded(const Messages& messages) {
  return std::all_of(messages.begin(), messages.end(),
                     [](const auto& message) { return message->ended(); });
}

// How an exchange goes.
struct Weather {
  int connections = 1;
  int messages = 30;
  uint64_t moves_per_break = 30;
  uint64_t moves_per_give_up = 0;  // of the connections but the main one, each once; 0: none is
};

// Messages both ways, posted when chance will have it, over connections that break.
void ExchangeOverBreaks(uint64_t seed, const Weather& weather, int* breaks) {
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed, ", ", weather.connections, " connections"));
  std::mt19937_64 random(seed);
  Pair pair(&random, weather.connections);
  Messages messages;
  std::vector<std::pair<int, Transfer*>> posts;
  for (int index = 0; index < weather.messages; ++index) {
    const int sender = static_cast<int>(random() % 2);
    messages.push_back(
        MakeMessage(sender, kGroup, static_cast<uint64_t>(index), SomeBytes(&random), &random));
    posts.emplace_back(sender, &messages.back()->send);
    posts.emplace_back(1 - sender, &messages.back()->receive);
  }
  std::shuffle(posts.begin(), posts.end(), random);
  for (int64_t move = 0; !posts.empty() || !AllEnded(messages); ++move) {
    ASSERT_LT(move, 5'000'000) << "it hangs";
    if (!posts.empty() && random() % 3 == 0) {
      pair[posts.back().first].Post(posts.back().second);
      posts.pop_back();
    }
    if (random() % weather.moves_per_break == 0) pair.Break();
    if (weather.moves_per_give_up > 0 && random() % weather.moves_per_give_up == 0) {
      const auto others = static_cast<uint64_t>(weather.connections) - 1;
      pair[static_cast<int>(random() % 2)].GiveUp(1 + static_cast<int>(random() % others));
    }
    pair.Advance();
    if (move % 16 != 0) continue;
    for (const auto& message : messages)
      message->UseAgain();
  }
  for (const int rank : {0, 1})
    ASSERT_TRUE(pair[rank].failure().ok()) << pair[rank].failure();
  for (const auto& message : messages) {
    ASSERT_EQ(message->send.state(), TransferState::kDone);
    ASSERT_EQ(message->receive.state(), TransferState::kDone);
    ASSERT_TRUE(message->to == message->sent) << message->to.size() << " bytes";
  }
  *breaks += pair.breaks();
}

TEST(MessageLink, BreaksLoseNothingAndDoubleNothing) {
  const uint64_t first = FirstSeedToTry(1);
  int breaks = 0;
  for (uint64_t seed = first; seed < first + 100; ++seed) {
    ASSERT_NO_FATAL_FAILURE(
        ExchangeOverBreaks(seed, {.moves_per_break = seed % 2 == 0 ? 4u : 30u}, &breaks));
  }
  std::printf("%d breaks\n", breaks);
  EXPECT_GT(breaks, 1000);
}

TEST(MessageLink, PartsOverSeveralConnectionsThatBreakComeOnce) {
  const uint64_t first = FirstSeedToTry(1);
  int breaks = 0;
  for (uint64_t seed = first; seed < first + 100; ++seed) {
    ASSERT_NO_FATAL_FAILURE(ExchangeOverBreaks(seed,
                                               {.connections = 2 + static_cast<int>(seed % 3),
                                                .moves_per_break = seed % 2 == 0 ? 4u : 30u},
                                               &breaks));
  }
  std::printf("%d breaks\n", breaks);
  EXPECT_GT(breaks, 1000);
}

// What was on them goes over the others, whoever gives them up, also if both do.
TEST(MessageLink, ConnectionsThatAreGivenUpCostNothing) {
  const uint64_t first = FirstSeedToTry(1);
  int breaks = 0;
  for (uint64_t seed = first; seed < first + 60; ++seed) {
    ASSERT_NO_FATAL_FAILURE(ExchangeOverBreaks(seed,
                                               {.connections = 2 + static_cast<int>(seed % 3),
                                                .moves_per_break = seed % 2 == 0 ? 20u : 1'000'000u,
                                                .moves_per_give_up = 1 + seed % 400},
                                               &breaks));
  }
}

// By how much each takes, not evenly; and messages that are small go over the main one alone.
TEST(MessageLink, EachConnectionCarriesParts) {
  std::mt19937_64 random(FirstSeedToTry(1));
  Pair pair(&random, 3);
  Messages messages;
  size_t bytes = 0;
  for (uint64_t tag = 0; tag < 40; ++tag) {
    const size_t size = tag % 2 == 0 ? 1'000'000 : 100;
    messages.push_back(MakeMessage(0, kGroup, tag, size, &random));
    bytes += size;
    pair[1].Post(&messages.back()->receive);
    pair[0].Post(&messages.back()->send);
  }
  for (int move = 0; move < 100'000 && !AllEnded(messages); ++move)
    pair.Advance();
  ASSERT_TRUE(AllEnded(messages));
  for (const auto& message : messages)
    ASSERT_TRUE(message->to == message->sent);
  const uint64_t sent = pair[0].sent(0) + pair[0].sent(1) + pair[0].sent(2);
  EXPECT_GT(sent, bytes);
  EXPECT_LT(sent, bytes + bytes / 100);
  for (const int number : {0, 1, 2})
    EXPECT_GT(pair[0].sent(number), bytes / 20) << number;
}

// More than is kept, which nobody reads for a long time.
TEST(MessageLink, ManyMessagesInOneDirectionAreToldOf) {
  for (const size_t bytes : {size_t{8}, kAheadBytesMax, kKeptOfMessage, kKeptOfMessage + 1}) {
    SCOPED_TRACE(bytes);
    std::mt19937_64 random(1);
    Pair pair(&random);
    Messages messages;
    for (uint64_t tag = 0; tag < 100; ++tag) {
      messages.push_back(MakeMessage(0, kGroup, tag, bytes, &random));
      pair[1].Post(&messages.back()->receive);
    }
    for (const auto& message : messages)
      pair[0].Post(&message->send);
    for (int move = 0; move < 100'000 && !AllEnded(messages); ++move)
      pair.Advance();
    ASSERT_TRUE(AllEnded(messages));
  }
}

// What was begun of it goes on to a receiver that has not closed it, as it was when it was given back.
TEST(MessageLink, AClosedGroupIsReadNoMoreThoughTheStreamBreaks) {
  const uint64_t first = FirstSeedToTry(1);
  int moved_on = 0;
  for (uint64_t seed = first; seed < first + 100; ++seed) {
    SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
    std::mt19937_64 random(seed);
    Pair pair(&random);
    Messages doomed;
    Messages others;
    for (uint64_t tag = 0; tag < 6; ++tag) {
      for (Messages* const messages : {&doomed, &others}) {
        const uint64_t group = messages == &doomed ? kGroup + 1 : kGroup;
        messages->push_back(MakeMessage(0, group, tag, SomeBytes(&random), &random));
        pair[0].Post(&messages->back()->send);
        pair[1].Post(&messages->back()->receive);
      }
    }
    for (uint64_t step = random() % 200; step > 0; --step)
      pair.Advance();
    pair[0].CloseGroup(kGroup + 1);
    for (const auto& message : doomed)
      std::fill(message->from.begin(), message->from.end(), std::byte{0xee});
    for (int move = 0; move < 1'000'000 && !AllEnded(others); ++move) {
      if (random() % 40 == 0) pair.Break();
      pair.Advance();
    }
    ASSERT_TRUE(AllEnded(others));
    for (const auto& message : others)
      ASSERT_TRUE(message->to == message->sent);
    for (const auto& message : doomed) {
      ASSERT_NE(message->send.state(), TransferState::kPosted);
      if (message->receive.state() != TransferState::kDone) continue;
      ASSERT_TRUE(message->to == message->sent);
      if (message->send.state() == TransferState::kRetracted) ++moved_on;
    }
    pair[1].CloseGroup(kGroup + 1);
  }
  EXPECT_GT(moved_on, 0);
}

// Whoever leaves says so; then the end of the connection is the end.
TEST(MessageLink, AfterLeavingNoOtherStreamIsWaitedFor) {
  std::mt19937_64 random(1);
  Pair pair(&random);
  Messages messages;
  messages.push_back(MakeMessage(0, kGroup, 0, 100, &random));
  pair[0].Post(&messages[0]->send);
  pair[1].Post(&messages[0]->receive);
  for (int move = 0; move < 1000; ++move)
    pair.Advance();
  ASSERT_TRUE(AllEnded(messages));
  pair[0].Leave();
  for (int move = 0; move < 1000; ++move)
    pair[0].Advance();
  EXPECT_TRUE(pair[0].Quiet());
  pair.Break();
  for (int move = 0; move < 1000 && pair[1].attached(); ++move)
    pair[1].Advance();
  EXPECT_EQ(ResultOf(pair[1].failure()), WEFT_UNREACHABLE) << pair[1].failure();
}

TEST(MessageLink, AnotherOneInItsPlaceIsRefused) {
  std::mt19937_64 random(1);
  Pair pair(&random);
  Messages messages;
  messages.push_back(MakeMessage(0, kGroup, 0, 100, &random));
  pair[0].Post(&messages[0]->send);
  pair[1].Post(&messages[0]->receive);
  for (int move = 0; move < 1000; ++move)
    pair.Advance();
  MessageLink newcomer(0, 73);
  const auto there = std::make_shared<Pipe>();
  const auto back = std::make_shared<Pipe>();
  pair[0].Attach(std::make_unique<PipeStream>(there, back, &random));
  newcomer.Attach(std::make_unique<PipeStream>(back, there, &random));
  for (int move = 0; move < 1000; ++move) {
    newcomer.Advance();
    pair[0].Advance();
  }
  EXPECT_EQ(ResultOf(pair[0].failure()), WEFT_CORRUPT);
  EXPECT_NE(std::string(pair[0].failure().message()).find("not the one that it was"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::test::message_link_test
