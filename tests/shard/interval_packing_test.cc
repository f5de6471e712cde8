#include "shard/layout/interval_packing.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "shard/layout/gaps.h"

namespace weft::interval_packing_test {
namespace {

// The most bytes that are alive at a time, moment by moment.
size_t MostAliveByMoment(const std::vector<Interval>& intervals, int64_t moments) {
  size_t most = 0;
  for (int64_t at = 0; at < moments; ++at) {
    size_t bytes = 0;
    for (const Interval& one : intervals)
      bytes += one.begin <= at && at <= one.end ? one.bytes : 0;
    most = std::max(most, bytes);
  }
  return most;
}

void ExpectApart(const std::vector<Interval>& intervals, size_t bytes) {
  for (size_t i = 0; i < intervals.size(); ++i) {
    EXPECT_LE(intervals[i].offset + intervals[i].bytes, bytes);
    for (size_t j = 0; j < i; ++j) {
      const Interval& a = intervals[i];
      const Interval& b = intervals[j];
      const bool in_time = a.begin <= b.end && b.begin <= a.end;
      const bool in_space = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      EXPECT_FALSE(in_time && in_space) << i << " and " << j;
    }
  }
}

constexpr int64_t kMoments = 60;

std::vector<Interval> RandomIntervals(std::mt19937& random, size_t bytes) {
  std::vector<Interval> intervals(random() % 40);
  for (Interval& one : intervals) {
    one.begin = static_cast<int64_t>(random() % kMoments);
    one.end = std::min(kMoments - 1, one.begin + static_cast<int64_t>(random() % 12));
    one.bytes = bytes != 0 ? bytes : 64 * (1 + random() % 20);
  }
  return intervals;
}

TEST(Color, KeepsApartWhatIsAliveTogether) {
  for (uint32_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<Interval> intervals = RandomIntervals(random, 0);
    const std::vector<Interval> before = intervals;
    const size_t bytes = PackIntervals(intervals);
    ExpectApart(intervals, bytes);
    EXPECT_GE(bytes, MostAliveByMoment(intervals, kMoments));
    EXPECT_EQ(MostAlive(intervals), MostAliveByMoment(intervals, kMoments));
    ASSERT_EQ(intervals.size(), before.size());
    size_t all = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(intervals[i].begin, before[i].begin);
      EXPECT_EQ(intervals[i].end, before[i].end);
      EXPECT_EQ(intervals[i].bytes, before[i].bytes);
      all += before[i].bytes;
    }
    EXPECT_LE(bytes, all);
  }
}

TEST(Color, IsOptimalForEqualSizes) {
  for (uint32_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<Interval> intervals = RandomIntervals(random, 256);
    const size_t bytes = PackIntervals(intervals);
    ExpectApart(intervals, bytes);
    EXPECT_EQ(bytes, MostAliveByMoment(intervals, kMoments));
  }
}

TEST(Color, TakesTheBetterOfBothOrders) {
  // Largest first would be best here: the small ones come first and would split the room.
  std::vector<Interval> intervals = {{0, 2, 1, 0}, {0, 0, 1, 0}, {1, 5, 2, 0}, {3, 5, 1, 0}};
  EXPECT_EQ(PackIntervals(intervals), 3u);
  ExpectApart(intervals, 3);
}

// More pairs than are looked at.
TEST(Color, KeepsApartWhatIsAliveWithVeryManyOthers) {
  constexpr size_t kCount = 1600;
  static_assert(kCount * (kCount - 1) / 2 > kPairsMax);
  std::mt19937 random(1);
  std::vector<Interval> intervals;
  for (size_t i = 0; i < kCount; ++i) {
    const auto begin = static_cast<int64_t>(i);
    intervals.push_back(
        {begin, static_cast<int64_t>(kCount + random() % kCount), 64 * (1 + random() % 20), 0});
  }
  size_t all = 0;
  for (const Interval& one : intervals)
    all += one.bytes;
  const size_t bytes = PackIntervals(intervals);
  EXPECT_EQ(bytes, all) << "all are alive at a time";
  std::vector<std::pair<size_t, size_t>> places;
  for (const Interval& one : intervals)
    places.emplace_back(one.offset, one.bytes);
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i)
    ASSERT_LE(places[i - 1].first + places[i - 1].second, places[i].first);
}

TEST(MostAlive, CountsBothEnds) {
  EXPECT_EQ(MostAlive({{0, 3, 5, 0}, {3, 4, 7, 0}, {4, 9, 1, 0}}), 12u);
  EXPECT_EQ(MostAlive({{0, 1'000'000'000'000, 5, 0}, {1'000'000'000'000, 1'000'000'000'001, 2, 0}}),
            7u);
  EXPECT_EQ(MostAlive({}), 0u);
}

// Beside a list of what is taken.
TEST(Gaps, GiveTheLowestThatIsLargeEnough) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Gaps gaps;
    std::map<size_t, size_t> taken;
    for (int call = 0; call < 400; ++call) {
      if (taken.empty() || random() % 5 < 3) {
        const size_t bytes = 1 + random() % 30;
        size_t lowest = 0;
        for (const auto& [offset, size] : taken) {
          if (lowest + bytes <= offset) break;
          lowest = offset + size;
        }
        ASSERT_EQ(gaps.Take(bytes), lowest);
        taken[lowest] = bytes;
      } else {
        const auto one =
            std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
        gaps.GiveBack(one->first, one->second);
        taken.erase(one);
      }
    }
  }
}

TEST(Color, OfNothingIsNothing) {
  std::vector<Interval> none;
  EXPECT_EQ(PackIntervals(none), 0u);
}

}  // namespace
}  // namespace weft::interval_packing_test
