// Events come back as they were told, by whatever thread, and a reader never gets half of one.
#include "comm/recorder/lifecycle.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "comm/recorder/describe.h"

namespace weft::test::lifecycle_test {
namespace {

constexpr uint64_t kEntries = LifecycleLog::kEntryCount;

struct Memory {
  LifecycleMemory memory{};
  LifecycleLog log{&memory};

  std::vector<LifecycleEvent> Events() const {
    std::vector<LifecycleEvent> events;
    for (uint64_t index = 0; index < kEntries; ++index) {
      if (const auto event = LifecycleLog::Decode(log.Copy(index))) events.push_back(*event);
    }
    return events;
  }
};

// An event all of whose fields follow from one number.
LifecycleEvent EventOf(uint32_t number) {
  const auto value = static_cast<int32_t>(number);
  return {.kind = static_cast<LifecycleKind>(number % kLifecycleKindMax + 1),
          .epoch = number,
          .rank = value % 64 - 1,
          .result = value % 200,
          .signal = value % 65 - 1,
          .exit_code = value % 257 - 1,
          .sequence = static_cast<int64_t>(number) * 3 - 1,
          .other = uint64_t{number} << 20};
}

bool IsEventOf(const LifecycleEvent& found, uint32_t number) {
  const LifecycleEvent want = EventOf(number);
  return found.kind == want.kind && found.epoch == want.epoch && found.rank == want.rank &&
         found.result == want.result && found.signal == want.signal &&
         found.exit_code == want.exit_code && found.sequence == want.sequence &&
         found.other == want.other;
}

TEST(LifecycleLog, IsEmptyAtFirst) {
  EXPECT_TRUE(Memory().Events().empty());
}

TEST(LifecycleLog, ReturnsAllFieldsAndKeepsTheNewest) {
  Memory memory;
  constexpr uint32_t kLast = 3 * kEntries + 7;
  for (uint32_t number = 1; number <= kLast; ++number)
    memory.log.Record(EventOf(number));
  const std::vector<LifecycleEvent> events = memory.Events();
  ASSERT_EQ(events.size(), kEntries);
  for (const LifecycleEvent& event : events) {
    EXPECT_GT(event.number, kLast - kEntries);
    EXPECT_TRUE(IsEventOf(event, static_cast<uint32_t>(event.number))) << event.number;
    EXPECT_GT(event.ticks, 0u);
    EXPECT_LE(event.ticks, RecorderTicks());
  }
}

TEST(LifecycleLog, DoesNotDecodeWhatItDoesNotKnow) {
  Memory memory;
  memory.log.Record(EventOf(1));
  RecorderWords words = memory.log.Copy(1);
  ASSERT_TRUE(LifecycleLog::Decode(words).has_value());
  words[2] = (words[2] & ~uint64_t{0xff}) | (kLifecycleKindMax + 1);
  EXPECT_FALSE(LifecycleLog::Decode(words).has_value());
  words[2] &= ~uint64_t{0xff};
  EXPECT_FALSE(LifecycleLog::Decode(words).has_value());
}

// A rank dies while it writes: the entry stays empty, the others can be read.
TEST(LifecycleLog, AnEntryThatWasBeingWrittenIsNone) {
  Memory memory;
  memory.log.Record(EventOf(1));
  memory.log.Record(EventOf(2));
  memory.memory.entries[1].words[0].store(0);
  ASSERT_EQ(memory.Events().size(), 1u);
  EXPECT_TRUE(IsEventOf(memory.Events()[0], 2));
}

// Under ThreadSanitizer this also shows that readers and writers do not race.
TEST(LifecycleLog, SeveralThreadsMayTellAtOnce) {
  Memory memory;
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kEvents = 30'000;
  std::atomic<uint32_t> running{kThreads};
  std::vector<std::thread> writers;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    writers.emplace_back([&, thread] {
      for (uint32_t i = 0; i < kEvents; ++i)
        memory.log.Record(EventOf(i * kThreads + thread));
      --running;
    });
  }
  uint64_t wrong = 0;
  const auto look = [&] {
    for (const LifecycleEvent& event : memory.Events()) {
      if (!IsEventOf(event, event.epoch)) ++wrong;
    }
  };
  while (running.load() > 0)
    look();
  for (std::thread& writer : writers)
    writer.join();
  look();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(memory.Events().size(), kEntries / 2);  // a few may have been given up
}

TEST(DescribeEvent, SaysWhatHasHappened) {
  EXPECT_EQ(Describe(LifecycleEvent{.kind = LifecycleKind::kJoined, .epoch = 2, .other = 4}),
            "joined a group of 4 ranks, epoch 2");
  LifecycleEvent event{.kind = LifecycleKind::kPeerEnded, .rank = 2, .signal = 9};
  EXPECT_EQ(Describe(event), "found that rank 2 was killed by signal 9");
  event.signal = 0;
  event.exit_code = 3;
  EXPECT_EQ(Describe(event), "found that rank 2 exited with code 3");
  event = {.kind = LifecycleKind::kFailed, .rank = 2, .result = 102, .sequence = 41};
  EXPECT_EQ(Describe(event), "ended the group with result 102, rank 2, at #41");
  event = {.kind = LifecycleKind::kStalled, .rank = 1, .other = 'T'};
  EXPECT_EQ(Describe(event), "found that rank 1 does not run (state T)");
  event = {.kind = LifecycleKind::kReconfigured, .epoch = 1, .other = 2};
  EXPECT_EQ(Describe(event), "left epoch 1 for epoch 2");
  std::set<std::string> names;
  for (uint64_t kind = 1; kind <= kLifecycleKindMax; ++kind) {
    event.kind = static_cast<LifecycleKind>(kind);
    EXPECT_NE(Describe(event), "");
    names.insert(LifecycleKindName(event.kind));
  }
  EXPECT_EQ(names.size(), kLifecycleKindMax);
}

}  // namespace
}  // namespace weft::test::lifecycle_test
