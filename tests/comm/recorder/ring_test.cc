// The ring keeps the newest calls, and a reader never gets half of one.
#include "comm/recorder/ring.h"

#include <array>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "comm/kernels/dtype.h"
#include "comm/recorder/describe.h"

namespace weft::test::ring_test {
namespace {

constexpr uint64_t kEntries = RecorderRing::kEntryCount;

struct Memory {
  std::array<RecorderEntry, kEntries> entries{};
  RecorderRing ring{entries.data()};
};

// A call all of whose fields follow from its number, so that a mixture of two is found out.
RecordedCall CallNumber(uint64_t sequence) {
  RecordedCall call;
  call.sequence = sequence;
  call.ticks = RecorderTicks();
  call.kind = static_cast<OpKind>(sequence % kOpKindCount);
  call.dtype = kDtypes[sequence % std::size(kDtypes)];
  constexpr size_t kOps = std::size(kReductionOps) + 2;
  const size_t op = sequence % kOps;
  call.op = op < kOps - 2 ? kReductionOps[op] : op < kOps - 1 ? kOpPremulSum : kOpUser;
  call.algorithm = static_cast<uint8_t>(sequence * 3 % 64);
  call.numerics = sequence % 3 == 0 ? WEFT_NUMERICS_FAST : WEFT_NUMERICS_CANONICAL;
  call.epoch = static_cast<uint32_t>(sequence * 5);
  call.count = sequence * 7;
  call.root = -static_cast<int32_t>(sequence % 1000);
  call.signature = static_cast<uint32_t>(sequence * 11);
  (sequence % 2 == 0 ? call.tag : call.purpose) = sequence * 13;
  return call;
}

bool IsCallNumber(const RecordedCall& found, uint64_t sequence) {
  const RecordedCall want = CallNumber(sequence);
  return found.sequence == sequence && found.kind == want.kind && found.dtype == want.dtype &&
         found.op == want.op && found.algorithm == want.algorithm &&
         found.numerics == want.numerics && found.epoch == want.epoch &&
         found.count == want.count && found.root == want.root &&
         found.signature == want.signature && found.tag == want.tag &&
         found.purpose == want.purpose;
}

CallProgress ProgressNumber(uint64_t sequence) {
  return {CallPhase::kReducing, static_cast<int>(sequence % 64), sequence % 1000, 1000};
}

TEST(RecorderRing, IsEmptyAtFirst) {
  Memory memory;
  EXPECT_FALSE(memory.ring.Last().has_value());
  for (const uint64_t sequence : {uint64_t{0}, uint64_t{1}, kEntries, ~uint64_t{0}}) {
    EXPECT_FALSE(memory.ring.Find(sequence).has_value()) << sequence;
  }
}

TEST(RecorderRing, ReturnsAllFieldsOfACall) {
  Memory memory;
  for (uint64_t sequence = 1; sequence <= 60; ++sequence) {
    const uint64_t before = RecorderTicks();
    memory.ring.Record(CallNumber(sequence));
    const auto found = memory.ring.Find(sequence);
    ASSERT_TRUE(found.has_value());
    EXPECT_TRUE(IsCallNumber(*found, sequence)) << sequence;
    EXPECT_EQ(found->state, RecordState::kIssued);
    EXPECT_GE(found->ticks, before);
    EXPECT_LE(found->ticks, RecorderTicks());
    EXPECT_EQ(memory.ring.Last()->sequence, sequence);
  }
}

TEST(RecorderRing, KeepsTheNewestCallsWhenItWraps) {
  Memory memory;
  constexpr uint64_t kLast = 5 * kEntries + 17;
  for (uint64_t sequence = 1; sequence <= kLast; ++sequence)
    memory.ring.Record(CallNumber(sequence));
  for (uint64_t sequence = 0; sequence <= kLast + kEntries; ++sequence) {
    const auto found = memory.ring.Find(sequence);
    const bool kept = sequence > kLast - kEntries && sequence <= kLast;
    ASSERT_EQ(found.has_value(), kept) << sequence;
    ASSERT_TRUE(!kept || IsCallNumber(*found, sequence)) << sequence;
  }
  EXPECT_EQ(memory.ring.Last()->sequence, kLast);
}

TEST(RecorderRing, AStateBelongsToItsOwnCall) {
  Memory memory;
  memory.ring.Record(CallNumber(5));
  memory.ring.SetState(5, RecordState::kDone);
  EXPECT_EQ(memory.ring.Find(5)->state, RecordState::kDone);
  // More calls are queued than the ring has entries: 5's entry is 133's when 5 ends.
  memory.ring.Record(CallNumber(5 + kEntries));
  memory.ring.SetState(5, RecordState::kFailed);
  EXPECT_EQ(memory.ring.Find(5 + kEntries)->state, RecordState::kIssued);
  memory.ring.SetState(5 + kEntries, RecordState::kDone);
  EXPECT_EQ(memory.ring.Find(5 + kEntries)->state, RecordState::kDone);
}

TEST(RecorderRing, ProgressIsOfACallThatHasNotEndedWell) {
  Memory memory;
  const CallProgress shown{CallPhase::kReducing, 2, 3, 8};
  memory.ring.Record(CallNumber(5));
  EXPECT_EQ(memory.ring.Find(5)->progress, CallProgress{});
  memory.ring.SetProgress(5, shown);
  EXPECT_EQ(memory.ring.Find(5)->progress, shown);
  memory.ring.SetState(5, RecordState::kFailed);
  EXPECT_EQ(memory.ring.Find(5)->progress, shown);
  memory.ring.SetState(5, RecordState::kDone);
  EXPECT_EQ(memory.ring.Find(5)->progress, CallProgress{});
}

TEST(RecorderRing, ProgressBelongsToItsOwnCall) {
  Memory memory;
  const CallProgress shown{CallPhase::kArriving, 1, 0, 0};
  memory.ring.Record(CallNumber(5));
  memory.ring.SetProgress(5, shown);
  // A newer call in its entry has none, also if the older one is told late.
  memory.ring.Record(CallNumber(5 + kEntries));
  EXPECT_EQ(memory.ring.Find(5 + kEntries)->progress, CallProgress{});
  memory.ring.SetProgress(5, shown);
  EXPECT_EQ(memory.ring.Find(5 + kEntries)->progress, CallProgress{});
  memory.ring.SetProgress(5 + kEntries, shown);
  EXPECT_EQ(memory.ring.Find(5 + kEntries)->progress, shown);
}

// A newer program may know more phases.
TEST(RecorderRing, ACallIsToldWithoutAPhaseThatIsNotKnown) {
  Memory memory;
  memory.ring.Record(CallNumber(7));
  RecorderWords words = memory.ring.Copy(7);
  words[7] = 0x3f;
  const auto found = RecorderRing::Decode(words);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->progress, CallProgress{});
}

TEST(RecorderRing, DoesNotDecodeWhatItDoesNotKnow) {
  Memory memory;
  memory.ring.Record(CallNumber(7));
  const RecorderWords good = memory.ring.Copy(7);
  ASSERT_TRUE(RecorderRing::Decode(good).has_value());
  for (const int byte : {0, 1, 2}) {  // kind, dtype, op
    RecorderWords bad = good;
    bad[2] |= uint64_t{0xff} << 8 * byte;
    EXPECT_FALSE(RecorderRing::Decode(bad).has_value()) << byte;
  }
  RecorderWords bad = good;
  bad[6] |= 0xff;
  EXPECT_FALSE(RecorderRing::Decode(bad).has_value());
  bad = good;
  bad[0] = 0;
  EXPECT_FALSE(RecorderRing::Decode(bad).has_value());
}

// Under ThreadSanitizer this also shows that reader and writer do not race.
TEST(RecorderRing, ATornEntryIsNeverReturned) {
  Memory memory;
  constexpr uint64_t kCalls = 200'000;
  std::atomic<uint64_t> recorded{0};
  std::thread writer([&] {
    for (uint64_t sequence = 1; sequence <= kCalls; ++sequence) {
      memory.ring.Record(CallNumber(sequence));
      memory.ring.SetProgress(sequence, ProgressNumber(sequence));
      memory.ring.SetState(sequence, RecordState::kFailed);
      recorded.store(sequence, std::memory_order_release);
    }
  });
  uint64_t reads = 0;
  uint64_t wrong = 0;
  uint64_t newest = 0;
  const auto look = [&](const std::optional<RecordedCall>& found) {
    if (!found) return;
    ++reads;
    const bool shown = found->progress.phase != CallPhase::kIssued;
    const bool foreign = shown && found->progress != ProgressNumber(found->sequence);
    if (!IsCallNumber(*found, found->sequence) || foreign) ++wrong;
  };
  while (recorded.load(std::memory_order_acquire) < kCalls) {
    // The oldest entries are the ones that are about to be written.
    const uint64_t now = recorded.load(std::memory_order_acquire);
    for (uint64_t ahead = 0; ahead < 4; ++ahead)
      look(RecorderRing::Decode(memory.ring.Copy((now + ahead) % kEntries)));
    const std::optional<RecordedCall> last = memory.ring.Last();
    look(last);
    if (!last) continue;
    EXPECT_GE(last->sequence, newest);
    newest = last->sequence;
  }
  writer.join();
  look(memory.ring.Last());
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(reads, 0u);
  EXPECT_EQ(memory.ring.Last()->sequence, kCalls);
}

TEST(Describe, SaysWhatRanksMustAgreeOn) {
  RecordedCall call{.sequence = 1, .kind = OpKind::kReduce, .dtype = WEFT_FLOAT32, .op = WEFT_MAX};
  call.count = 12;
  call.root = 3;
  EXPECT_EQ(Describe(call), "reduce (max) of 12 float32 to root 3");
  call.kind = OpKind::kBroadcast;
  EXPECT_EQ(Describe(call), "broadcast of 12 float32 from root 3");
  call.kind = OpKind::kAllReduce;
  EXPECT_EQ(Describe(call), "all_reduce (max) of 12 float32");
  call.kind = OpKind::kReduceScatter;
  EXPECT_EQ(Describe(call), "reduce_scatter (max) of 12 float32");
  call.kind = OpKind::kAllGather;
  EXPECT_EQ(Describe(call), "all_gather of 12 float32");
  call.purpose = PackPurpose({.kind = Purpose::Kind::kLoad, .context = 2, .subject = 7});
  EXPECT_EQ(Describe(call), "all_gather of 12 float32 to load parameter 7 of shard context 2");
  call.kind = OpKind::kAllGatherV;
  EXPECT_EQ(Describe(call), "all_gather_v of 12 float32 to load parameter 7 of shard context 2");
  call.purpose = PackPurpose({.kind = Purpose::Kind::kSplit});
  EXPECT_EQ(Describe(call), "split");
  EXPECT_STREQ(CallName(call), "split");
  call.purpose = 0;
  EXPECT_STREQ(CallName(call), "all_gather_v");
  call.signature = 0x1234;
  EXPECT_EQ(DescribeArguments(call), "all_gather_v of 12 float32");
  EXPECT_EQ(Describe(call), "all_gather_v of 12 float32 (signature of the counts 00001234)");
  call.kind = OpKind::kBarrier;
  EXPECT_EQ(Describe(call), "barrier");
}

}  // namespace
}  // namespace weft::test::ring_test
