// A word of progress comes back as it was packed, belongs to one call, and says who is waited for.
#include "comm/recorder/call_progress.h"

#include <random>

#include <gtest/gtest.h>

#include "tests/support/leak_check.h"

namespace weft::test::call_progress_test {
namespace {

constexpr uint64_t kFirstPhase = 1;  // 0 is none

TEST(CallProgress, ComesBackFromItsWord) {
  for (uint64_t phase = kFirstPhase; phase < kCallPhaseCount; ++phase) {
    for (const int rank :
         {CallProgress::kAnyOther, CallProgress::kNobody, 0, 1, 63, CallProgress::kRankMax}) {
      for (const uint64_t rounds : {uint64_t{0}, uint64_t{1}, CallProgress::kRoundsMax}) {
        for (const uint64_t cycle : {uint64_t{0}, uint64_t{1}, uint64_t{0x12345}}) {
          const CallProgress progress{static_cast<CallPhase>(phase), rank, rounds / 2, rounds};
          EXPECT_EQ(UnpackProgress(PackProgress(progress, cycle), cycle), progress)
              << phase << " " << rank << " " << rounds << " " << cycle;
        }
      }
    }
  }
}

TEST(CallProgress, MoreRoundsThanFitAreToldAsTheMost) {
  const CallProgress progress{CallPhase::kReducing, 2, 1'000'000, 2'000'000};
  const CallProgress shown = UnpackProgress(PackProgress(progress, 0), 0);
  EXPECT_EQ(shown.phase, CallPhase::kReducing);
  EXPECT_EQ(shown.waited_for, 2);
  EXPECT_EQ(shown.round, CallProgress::kRoundsMax);
  EXPECT_EQ(shown.rounds, CallProgress::kRoundsMax);
}

TEST(CallProgress, OfAnotherCallIsNone) {
  const uint64_t word = PackProgress({.phase = CallPhase::kArriving, .waited_for = 3}, 7);
  EXPECT_EQ(UnpackProgress(word, 7).waited_for, 3);
  for (const uint64_t cycle : {0, 6, 8, 7 + 256}) {
    EXPECT_EQ(UnpackProgress(word, cycle), CallProgress{}) << cycle;
  }
}

// A word may come from a newer program, or be nonsense.
TEST(CallProgress, AnyWordIsUnderstoodOrLeftOut) {
  EXPECT_EQ(UnpackProgress(0, 0), CallProgress{});
  for (uint64_t phase = kCallPhaseCount; phase < 64; ++phase) {
    EXPECT_EQ(UnpackProgress(phase, 0), CallProgress{}) << phase;
  }
  const uint64_t seed = TestSeed(5);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t word = random();
    const CallProgress progress = UnpackProgress(word, word >> 48);
    EXPECT_LT(static_cast<uint64_t>(progress.phase), kCallPhaseCount) << "seed " << seed;
    EXPECT_GE(progress.waited_for, CallProgress::kAnyOther) << "seed " << seed;
    EXPECT_LE(progress.waited_for, CallProgress::kRankMax) << "seed " << seed;
    DescribeProgress(progress);
  }
}

TEST(CallProgress, SaysForWhomAndWhere) {
  const auto text = [](CallPhase phase, int rank, uint64_t round, uint64_t rounds) {
    return DescribeProgress({phase, rank, round, rounds});
  };
  constexpr int kNobody = CallProgress::kNobody;
  EXPECT_EQ(DescribeProgress({}), "");
  EXPECT_EQ(text(CallPhase::kArriving, 2, 0, 0), "waits for rank 2 to arrive");
  EXPECT_EQ(text(CallPhase::kArriving, CallProgress::kAnyOther, 0, 0),
            "waits for other ranks to arrive");
  EXPECT_EQ(text(CallPhase::kReducing, 2, 3, 8), "waits for rank 2 to stage round 3 of 8");
  EXPECT_EQ(text(CallPhase::kReducing, kNobody, 3, 8), "reduces round 3 of 8");
  EXPECT_EQ(text(CallPhase::kGathering, 0, 3, 8), "waits for the part of rank 0 in round 3 of 8");
  EXPECT_EQ(text(CallPhase::kDirect, kNobody, 0, 0), "works in the buffers");
  // Every wait names whom it is for.
  for (uint64_t phase = kFirstPhase; phase < kCallPhaseCount; ++phase) {
    const std::string wait = text(static_cast<CallPhase>(phase), 5, 1, 2);
    EXPECT_NE(wait.find("rank 5"), std::string::npos) << wait;
    EXPECT_STRNE(CallPhaseName(static_cast<CallPhase>(phase)), "unknown");
  }
}

}  // namespace
}  // namespace weft::test::call_progress_test
