#include "trainer/sampler.h"

#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/failure.h"
#include "trainer/train.h"

namespace weft::trainer::sampler_test {
namespace {

constexpr size_t kText = 10007, kSeq = 16, kBatch = 12;

TEST(WindowSampler, WindowsOfAnEpochAreDisjointAndInsideTheText) {
  WindowSampler sampler(kText, kSeq, kBatch, 7);
  for (size_t epoch = 0; epoch < 3; epoch++) {
    std::vector<size_t> offsets;
    for (size_t step = 0; step < sampler.steps_per_epoch(); step++) {
      for (size_t slot = 0; slot < kBatch; slot++) {
        offsets.push_back(sampler.Offset(epoch * sampler.steps_per_epoch() + step, slot));
      }
    }
    std::sort(offsets.begin(), offsets.end());
    EXPECT_LE(offsets.back() + kSeq + 1, kText);
    for (size_t i = 1; i < offsets.size(); i++)
      ASSERT_GE(offsets[i] - offsets[i - 1], kSeq);
    // Nearly the whole text is used.
    EXPECT_GE(offsets.size() * kSeq, kText - (kBatch + 2) * kSeq);
  }
}

TEST(Shares, AreTheWholeBatchInOrderAndDifferByOneAtMost) {
  for (size_t batch = 1; batch <= 40; batch++) {
    for (size_t pieces = 1; pieces <= batch; pieces++) {
      size_t next = 0;
      for (size_t i = 0; i < pieces; i++) {
        const Share share = ShareOf(batch, pieces, i);
        ASSERT_EQ(share.first, next);
        ASSERT_GE(share.count, batch / pieces);
        ASSERT_LE(share.count, (batch + pieces - 1) / pieces);
        next += share.count;
      }
      ASSERT_EQ(next, batch);
    }
  }
}

TEST(WindowSampler, RanksTogetherSeeTheSameBatchForAnyRankCount) {
  for (const size_t ranks : {1, 2, 3, 4, 5, 7, 12}) {
    for (size_t step : {0, 5, 51, 52, 200}) {
      std::vector<size_t> together;
      for (size_t rank = 0; rank < ranks; rank++) {
        WindowSampler own(kText, kSeq, kBatch, 7);  // each rank has its own
        const Share share = ShareOf(kBatch, ranks, rank);
        for (size_t i = 0; i < share.count; i++)
          together.push_back(own.Offset(step, share.first + i));
      }
      WindowSampler single(kText, kSeq, kBatch, 7);
      std::vector<size_t> alone;
      for (size_t slot = 0; slot < kBatch; slot++)
        alone.push_back(single.Offset(step, slot));
      EXPECT_EQ(together, alone) << ranks << " ranks, step " << step;
    }
  }
}

TEST(WindowSampler, SeedAndEpochChangeTheOrder) {
  WindowSampler a(kText, kSeq, kBatch, 1), b(kText, kSeq, kBatch, 2), c(kText, kSeq, kBatch, 1);
  std::vector<size_t> first, other_seed, other_epoch;
  for (size_t slot = 0; slot < kBatch; slot++) {
    first.push_back(a.Offset(0, slot));
    other_seed.push_back(b.Offset(0, slot));
    other_epoch.push_back(c.Offset(c.steps_per_epoch(), slot));
  }
  EXPECT_NE(first, other_seed);
  EXPECT_NE(first, other_epoch);
}

TEST(WindowSampler, EachOfManyEpochsHasAnotherOrder) {
  const WindowSampler sampler(kText, kSeq, kBatch, 1);
  std::set<std::vector<size_t>> orders;
  constexpr size_t kEpochs = 50;
  for (size_t epoch = 0; epoch < kEpochs; epoch++) {
    std::vector<size_t> windows;  // whatever the place that the grid starts at
    for (size_t slot = 0; slot < kBatch; slot++)
      windows.push_back(sampler.Offset(epoch * sampler.steps_per_epoch(), slot) / kSeq);
    orders.insert(windows);
  }
  EXPECT_EQ(orders.size(), kEpochs);
}

// With a table of its windows this would take a tebibyte.
TEST(WindowSampler, TextOfAnySizeTakesNoMemory) {
  constexpr size_t kLong = (size_t{1} << 48) + 12345, kLongSeq = 1024;
  WindowSampler sampler(kLong, kLongSeq, kBatch, 7);
  EXPECT_GT(sampler.steps_per_epoch() * kBatch, uint64_t{1} << 37);
  std::vector<size_t> offsets;
  for (size_t step = 0; step < 300; step++) {
    for (size_t slot = 0; slot < kBatch; slot++)
      offsets.push_back(sampler.Offset(step, slot));
  }
  std::sort(offsets.begin(), offsets.end());
  EXPECT_LE(offsets.back() + kLongSeq + 1, kLong);
  EXPECT_GT(offsets.back(), kLong / 10 * 9);  // they are from all of the text
  EXPECT_LT(offsets.front(), kLong / 10);
  for (size_t i = 1; i < offsets.size(); i++)
    ASSERT_GE(offsets[i] - offsets[i - 1], kLongSeq);
  // The last steps of the epoch, from a place that a checkpoint may have.
  const size_t last = sampler.steps_per_epoch() - 1;
  const SamplePlace place = sampler.PlaceOf(last);
  EXPECT_EQ(place, (SamplePlace{0, last * kBatch}));
  EXPECT_EQ(sampler.PlaceOf(last + 1), (SamplePlace{1, 0}));
  WindowSampler resumed(kLong, kLongSeq, kBatch, 7);
  resumed.StartAt(5, place);
  for (size_t slot = 0; slot < kBatch; slot++) {
    EXPECT_EQ(resumed.Offset(5, slot), sampler.Offset(last, slot));
    EXPECT_EQ(resumed.Offset(6, slot), sampler.Offset(last + 1, slot));
  }
}

TEST(WindowSampler, GoingBackGivesTheSameWindows) {
  WindowSampler sampler(kText, kSeq, kBatch, 7);
  const size_t early = sampler.Offset(3, 2);
  sampler.Offset(10 * sampler.steps_per_epoch(), 0);
  EXPECT_EQ(sampler.Offset(3, 2), early);
}

TEST(WindowSampler, TextOfExactlyOneBatchIsEnoughAndOneByteLessIsNot) {
  WindowSampler sampler(kBatch * kSeq + 1, kSeq, kBatch, 7);
  std::set<size_t> offsets;
  for (size_t slot = 0; slot < kBatch; slot++)
    offsets.insert(sampler.Offset(9, slot));
  EXPECT_EQ(offsets.size(), kBatch);
  EXPECT_EQ(*offsets.rbegin(), (kBatch - 1) * kSeq);
  EXPECT_THROW(WindowSampler(kBatch * kSeq, kSeq, kBatch, 7), BadInput);
  EXPECT_THROW(WindowSampler(0, kSeq, kBatch, 7), BadInput);
  EXPECT_THROW(WindowSampler(kBatch * kSeq, kSeq, 0, 7), BadInput);
}

TEST(SpreadWindows, CoversTheTextEvenlyWithoutOverlap) {
  const auto offsets = SpreadWindows(1001, 10, 7);
  ASSERT_EQ(offsets.size(), 7u);
  EXPECT_EQ(offsets.front(), 0u);
  EXPECT_LE(offsets.back() + 11, 1001u);
  for (size_t i = 1; i < offsets.size(); i++)
    EXPECT_GE(offsets[i], offsets[i - 1] + 140);
  EXPECT_EQ(SpreadWindows(1001, 10, 1000).size(), 100u);
  EXPECT_TRUE(SpreadWindows(10, 10, 5).empty());
  EXPECT_TRUE(SpreadWindows(0, 10, 5).empty());
}

TEST(WindowSampler, GoesOnFromAPlaceAsIfItHadNotStopped) {
  WindowSampler whole(kText, kSeq, kBatch, 7);
  const size_t steps = 2 * whole.steps_per_epoch() + 3;
  for (const size_t stopped : {size_t{0}, size_t{1}, whole.steps_per_epoch(), steps - 2}) {
    WindowSampler resumed(kText, kSeq, kBatch, 7);
    resumed.StartAt(stopped, whole.PlaceOf(stopped));
    for (size_t step = stopped; step < steps; step++) {
      for (size_t slot = 0; slot < kBatch; slot++)
        ASSERT_EQ(resumed.Offset(step, slot), whole.Offset(step, slot)) << stopped << " " << step;
    }
  }
}

// The windows of an epoch are used once each, whatever the batch they are read by.
TEST(WindowSampler, AnotherBatchGoesOnAtTheSameSample) {
  WindowSampler first(kText, kSeq, kBatch, 7);
  WindowSampler all(kText, kSeq, 1, 7);
  const size_t windows = all.steps_per_epoch();
  constexpr size_t kStopped = 3;
  WindowSampler second(kText, kSeq, kBatch + 1, 7);
  second.StartAt(kStopped, first.PlaceOf(kStopped));
  const size_t used = kStopped * kBatch;
  const size_t left = (windows - used) / (kBatch + 1);
  for (size_t i = 0; i < left * (kBatch + 1); i++) {
    EXPECT_EQ(second.Offset(kStopped + i / (kBatch + 1), i % (kBatch + 1)),
              all.Offset(used + i, 0));
  }
  EXPECT_EQ(second.PlaceOf(kStopped + left), (SamplePlace{1, 0}));
  EXPECT_EQ(second.PlaceOf(kStopped + left + 1), (SamplePlace{1, kBatch + 1}));
}

}  // namespace
}  // namespace weft::trainer::sampler_test
