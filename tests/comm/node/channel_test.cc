// A channel's two ends against each other, and the receiving end against a sender that writes nonsense.
#include "comm/node/channel.h"

#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <string>

#include <gtest/gtest.h>

#include "comm/node/heap.h"
#include "message_case.h"
#include "tests/support/leak_check.h"

namespace weft::test::channel_test {
namespace {

using Found = ChannelReader::Found;

class ChannelEnds : public testing::Test {
 protected:
  ChannelEnds() {
    block_ = *ProcessHeap().Allocate(sizeof(Channel));
    channel_ = new (block_) Channel{};
    self_ = *NodePeer::Self();
    writer_ = ChannelWriter(channel_);
    reader_ = ChannelReader(channel_, self_.get());
  }

  ~ChannelEnds() override { EXPECT_TRUE(ProcessHeap().Free(block_).ok()); }

  bool Write(uint64_t tag, const std::string& payload) {
    return writer_.Write(
        {.kind = RecordKind::kEager, .dtype = WEFT_UINT8, .tag = tag, .count = payload.size()},
        payload.data(), payload.size());
  }

  // Puts a record that no writer would write at the front of an empty ring.
  Found LookAtForged(MessageHeader header, uint32_t produced) {
    std::memcpy(channel_->lines[0], &header, sizeof(header));
    channel_->produced.store(produced);
    MessageHeader found;
    const char* payload = nullptr;
    return reader_.Refresh() ? reader_.Look(&found, &payload) : Found::kCorrupt;
  }

  void* block_ = nullptr;
  Channel* channel_ = nullptr;
  std::shared_ptr<NodePeer> self_;
  ChannelWriter writer_;
  ChannelReader reader_;
};

// Random writes and reads around the ring many times, compared with a queue.
TEST_F(ChannelEnds, KeepRecordsInOrderAroundTheRing) {
  const uint64_t seed = TestSeed(8);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  std::deque<std::pair<uint64_t, std::string>> queue;
  uint64_t written = 0, refused = 0, read = 0;
  for (uint64_t step = 0; step < 60'000; ++step) {
    const uint64_t random = Mix(seed, step);
    // Phases in which one end is quicker than the other fill and empty the ring.
    if (random % 8 < (step / 500 % 2 == 0 ? 6u : 2u)) {
      const size_t bytes = random / 8 % 4 == 0 ? random / 64 % (kEagerBytes + 1) : random / 64 % 90;
      const std::string payload(bytes, static_cast<char>(written));
      if (Write(written, payload)) {
        queue.emplace_back(written++, payload);
      } else {
        ++refused;
      }
      continue;
    }
    MessageHeader header;
    const char* payload = nullptr;
    ASSERT_TRUE(reader_.Refresh());
    const Found found = reader_.Look(&header, &payload);
    ASSERT_EQ(found, queue.empty() ? Found::kNone : Found::kRecord);
    if (queue.empty()) continue;
    ASSERT_EQ(header.tag, queue.front().first);
    ASSERT_EQ(std::string(payload, header.count), queue.front().second);
    reader_.Consume(header);
    queue.pop_front();
    ++read;
    if (random / 8 % 2 == 0) reader_.PublishConsumed();
  }
  EXPECT_GT(read, 10'000u);
  EXPECT_GT(refused, 100u) << "the ring was never full";
}

TEST_F(ChannelEnds, TellTheSenderOfRoomOnlyIfItWaitsForIt) {
  MessageHeader header;
  const char* payload = nullptr;
  ASSERT_TRUE(Write(1, "a"));
  ASSERT_TRUE(reader_.Refresh());
  ASSERT_EQ(reader_.Look(&header, &payload), Found::kRecord);
  reader_.Consume(header);
  EXPECT_FALSE(reader_.PublishConsumed());
  const std::string large(kEagerBytes, 'x');
  while (Write(2, large)) {
  }
  ASSERT_TRUE(reader_.Refresh());
  ASSERT_EQ(reader_.Look(&header, &payload), Found::kRecord);
  reader_.Consume(header);
  EXPECT_TRUE(reader_.PublishConsumed());
  EXPECT_TRUE(Write(3, "b"));
}

TEST_F(ChannelEnds, CarryChunksThroughTwoHalves) {
  void* const stage = *ProcessHeap().Allocate(kStreamHalves * kStreamHalfBytes);
  writer_.SetStage(static_cast<char*>(stage),
                   static_cast<uint64_t>(static_cast<char*>(stage) - self_->base()));
  const char* chunk = nullptr;
  EXPECT_EQ(reader_.NextChunk(&chunk), Found::kNone);
  for (char c = 0; c < 20; ++c) {
    for (char half = 0; half < 2; ++half) {
      char* const to = writer_.FreeHalf();
      ASSERT_NE(to, nullptr);
      std::memset(to, 2 * c + half, kStreamHalfBytes);
      writer_.PublishChunk();
    }
    EXPECT_EQ(writer_.FreeHalf(), nullptr);
    for (char half = 0; half < 2; ++half) {
      EXPECT_FALSE(writer_.Drained(writer_.staged()));
      ASSERT_EQ(reader_.NextChunk(&chunk), Found::kRecord);
      EXPECT_EQ(chunk[kStreamHalfBytes - 1], 2 * c + half);
      reader_.PublishDrained();
    }
    EXPECT_TRUE(writer_.Drained(writer_.staged()));
  }
  EXPECT_TRUE(ProcessHeap().Free(stage).ok());
}

TEST_F(ChannelEnds, RefuseMoreRepliesThanThereIsRoomFor) {
  Reply reply;
  for (uint32_t i = 0; i < 3 * kReplyCount; ++i) {
    ASSERT_TRUE(reader_.CanReply());
    reader_.PublishReply(i, Reply::kFin);
    if (i % kReplyCount != kReplyCount - 1) continue;
    EXPECT_FALSE(reader_.CanReply());
    for (uint32_t k = 0; k < kReplyCount; ++k) {
      ASSERT_EQ(writer_.NextReply(&reply), ChannelWriter::Found::kReply);
      EXPECT_EQ(reply.rts, i + 1 - kReplyCount + k);
    }
    EXPECT_EQ(writer_.NextReply(&reply), ChannelWriter::Found::kNone);
  }
  channel_->replied.store(1'000'000);
  EXPECT_EQ(writer_.NextReply(&reply), ChannelWriter::Found::kCorrupt);
}

TEST_F(ChannelEnds, RefuseForgedRecords) {
  const MessageHeader eager{
      .lines = 2, .kind = RecordKind::kEager, .dtype = WEFT_UINT8, .count = 64};
  const auto forged = [&](auto change) {
    MessageHeader header = eager;
    change(header);
    return LookAtForged(header, 2);
  };
  EXPECT_EQ(LookAtForged(eager, 2), Found::kRecord) << "the record that the others are made of";
  EXPECT_EQ(LookAtForged(eager, 1), Found::kCorrupt) << "not all of it is there";
  EXPECT_EQ(LookAtForged(eager, kRingLines + 1), Found::kCorrupt) << "more than a ring";
  EXPECT_EQ(forged([](MessageHeader& h) { h.lines = 0; }), Found::kCorrupt);
  EXPECT_EQ(forged([](MessageHeader& h) { h.lines = 1; }), Found::kCorrupt);
  EXPECT_EQ(forged([](MessageHeader& h) { h.count = 100000; }), Found::kCorrupt);
  EXPECT_EQ(forged([](MessageHeader& h) { h.count = SIZE_MAX; }), Found::kCorrupt);
  EXPECT_EQ(forged([](MessageHeader& h) { h.dtype = 99; }), Found::kCorrupt);
  EXPECT_EQ(forged([](MessageHeader& h) { h.kind = RecordKind{9}; }), Found::kCorrupt);
  EXPECT_EQ(forged([](MessageHeader& h) { h.kind = RecordKind::kSkip; }), Found::kCorrupt)
      << "a skip that does not end at the ring's end";
  const auto announce = [&](RecordKind kind, uint64_t count, uint64_t place) {
    MessageHeader header = eager;
    header.kind = kind;
    header.lines = 1;
    header.count = count;
    header.place = place;
    return LookAtForged(header, 2);
  };
  EXPECT_EQ(announce(RecordKind::kRts, 100'000, 0), Found::kRecord);
  EXPECT_EQ(announce(RecordKind::kRts, 10, 0), Found::kCorrupt) << "small messages have no RTS";
  EXPECT_EQ(announce(RecordKind::kRts, SIZE_MAX, 0), Found::kCorrupt);
  EXPECT_EQ(announce(RecordKind::kHeapRts, 5000, 0), Found::kRecord);
  EXPECT_EQ(announce(RecordKind::kHeapRts, 5000, self_->identity().heap_bytes - 4999),
            Found::kCorrupt);
  EXPECT_EQ(announce(RecordKind::kHeapRts, 5000, UINT64_MAX), Found::kCorrupt);
  EXPECT_EQ(announce(RecordKind::kReadableRts, 10, 4096), Found::kCorrupt);
  EXPECT_EQ(announce(RecordKind::kReadableRts, SIZE_MAX, 4096), Found::kCorrupt);
  EXPECT_EQ(announce(RecordKind::kReadableRts, 5000, UINT64_MAX), Found::kRecord)
      << "where it is, is for the kernel to judge";
}

TEST_F(ChannelEnds, RefuseForgedStaging) {
  const char* chunk = nullptr;
  channel_->stage_offset.store(self_->identity().heap_bytes - 5);
  channel_->staged.store(1);
  EXPECT_EQ(reader_.NextChunk(&chunk), Found::kCorrupt);
  channel_->staged.store(3);
  EXPECT_EQ(reader_.NextChunk(&chunk), Found::kCorrupt);
}

}  // namespace
}  // namespace weft::test::channel_test
