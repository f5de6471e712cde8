// The ring keeps the newest messages with how they ended, and a reader never gets half of one.
#include "comm/recorder/message_ring.h"

#include <array>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "comm/recorder/describe.h"
#include "comm/recorder/ticks.h"

namespace weft::test::message_ring_test {
namespace {

constexpr uint64_t kEntries = MessageRing::kEntryCount;

struct Memory {
  std::array<RecorderEntry, kEntries> entries{};
  MessageRing ring{entries.data()};

  std::optional<RecordedMessage> Find(uint64_t number) const {
    const auto found = MessageRing::Decode(ring.Copy(number % kEntries));
    return found && found->number == number ? found : std::nullopt;
  }
};

// A message all of whose fields follow from its number, so that a mixture of two is found out.
Message MessageNumber(uint64_t number) {
  Message message;
  message.is_send = number % 2 == 0;
  message.count = number * 7;
  message.dtype = number % 3 == 0 ? WEFT_FLOAT64 : WEFT_INT8;
  message.peer = static_cast<int>(number % 65) - 1;  // WEFT_ANY_SOURCE as well
  message.tag = ~number;
  return message;
}

bool IsMessageNumber(const RecordedMessage& found, uint64_t number) {
  const Message want = MessageNumber(number);
  return found.number == number && found.ticks == number * 3 && found.is_send == want.is_send &&
         found.count == want.count && found.dtype == want.dtype && found.peer == want.peer &&
         found.tag == want.tag;
}

TEST(MessageRing, KeepsTheNewestWhenItWraps) {
  Memory memory;
  constexpr uint64_t kLast = 3 * kEntries + 5;
  for (uint64_t number = 1; number <= kLast; ++number) {
    EXPECT_EQ(memory.ring.Record(number * 3, MessageNumber(number)).number, number);
  }
  for (uint64_t number = 1; number <= kLast; ++number) {
    const auto found = memory.Find(number);
    ASSERT_EQ(found.has_value(), number > kLast - kEntries) << number;
    if (!found) continue;
    EXPECT_TRUE(IsMessageNumber(*found, number)) << number;
    EXPECT_EQ(found->state, MessageState::kIssued);
    EXPECT_EQ(found->source, -1);
    EXPECT_EQ(found->moved_bytes, 0u);
  }
}

TEST(MessageRing, SaysHowFarItCame) {
  Memory memory;
  const MessageRing::Place place = memory.ring.Record(3, MessageNumber(1));
  MessageRing::SetState(place, MessageState::kMatched);
  MessageRing::SetCourse(place, uint64_t{1} << 40, 63);
  EXPECT_EQ(memory.Find(1)->state, MessageState::kMatched);
  EXPECT_EQ(memory.Find(1)->moved_bytes, uint64_t{1} << 40);
  EXPECT_EQ(memory.Find(1)->source, 63);
  MessageRing::SetState(place, MessageState::kFailed);
  EXPECT_EQ(memory.Find(1)->state, MessageState::kFailed);
}

// One message that waits for long while many others pass: its entry is another's when it ends.
TEST(MessageRing, AnEndBelongsToItsOwnMessage) {
  Memory memory;
  const MessageRing::Place first = memory.ring.Record(3, MessageNumber(1));
  for (uint64_t number = 2; number <= kEntries + 1; ++number)
    memory.ring.Record(number * 3, MessageNumber(number));
  MessageRing::SetState(first, MessageState::kFailed);
  MessageRing::SetCourse(first, 99, 7);
  const auto newer = memory.Find(kEntries + 1);
  ASSERT_TRUE(newer.has_value());
  EXPECT_EQ(newer->state, MessageState::kIssued);
  EXPECT_EQ(newer->moved_bytes, 0u);
  EXPECT_EQ(newer->source, -1);
}

TEST(MessageRing, DoesNotDecodeWhatItDoesNotKnow) {
  Memory memory;
  EXPECT_FALSE(MessageRing::Decode(memory.ring.Copy(1)).has_value());
  memory.ring.Record(3, MessageNumber(1));
  const RecorderWords good = memory.ring.Copy(1);
  ASSERT_TRUE(MessageRing::Decode(good).has_value());
  RecorderWords bad = good;
  bad[0] = 0;
  EXPECT_FALSE(MessageRing::Decode(bad).has_value());
  bad = good;
  bad[2] |= 0xff;  // dtype
  EXPECT_FALSE(MessageRing::Decode(bad).has_value());
  bad = good;
  bad[5] = 4;  // state
  EXPECT_FALSE(MessageRing::Decode(bad).has_value());
}

// Under ThreadSanitizer this also shows that reader and writer do not race.
TEST(MessageRing, ATornEntryIsNeverReturned) {
  Memory memory;
  constexpr uint64_t kMessages = 200'000;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (uint64_t number = 1; number <= kMessages; ++number) {
      const MessageRing::Place place = memory.ring.Record(number * 3, MessageNumber(number));
      MessageRing::SetState(place, number % 2 == 0 ? MessageState::kDone : MessageState::kFailed);
    }
    done.store(true);
  });
  const MessageRing reader(memory.entries.data());  // as a peer has it
  uint64_t wrong = 0;
  uint64_t reads = 0;
  while (!done.load()) {
    for (uint64_t index = 0; index < kEntries; ++index) {
      const auto found = MessageRing::Decode(reader.Copy(index));
      if (!found) continue;
      ++reads;
      const MessageState other =
          found->number % 2 == 0 ? MessageState::kFailed : MessageState::kDone;
      if (!IsMessageNumber(*found, found->number) || found->state == other) ++wrong;
    }
  }
  writer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(memory.Find(kMessages).has_value());
  EXPECT_EQ(memory.Find(kMessages)->state, MessageState::kDone);
}

TEST(DescribeMessage, NamesBothSides) {
  RecordedMessage message{.is_send = true, .dtype = WEFT_FLOAT32, .peer = 1, .count = 8, .tag = 7};
  EXPECT_EQ(Describe(message), "send of 8 float32 to rank 1 with tag 7");
  message.is_send = false;
  EXPECT_EQ(Describe(message), "recv of 8 float32 from rank 1 with tag 7");
  message.peer = WEFT_ANY_SOURCE;
  EXPECT_EQ(Describe(message), "recv of 8 float32 from any rank with tag 7");
  message.source = 2;
  EXPECT_EQ(Describe(message), "recv of 8 float32 from any rank (rank 2) with tag 7");
}

}  // namespace
}  // namespace weft::test::message_ring_test
