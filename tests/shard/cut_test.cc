#include "shard/layout/cut.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "gtest/gtest.h"

namespace weft::cut_test {
namespace {

using Cuts = std::vector<size_t>;

// Every element has exactly one owner: the parts tile [0, count) in the order of ranks.
void ExpectTiles(const Cuts& cuts, size_t count, int ranks) {
  ASSERT_EQ(cuts.size(), static_cast<size_t>(ranks) + 1);
  EXPECT_EQ(cuts.front(), 0u);
  EXPECT_EQ(cuts.back(), count);
  EXPECT_TRUE(std::is_sorted(cuts.begin(), cuts.end())) << testing::PrintToString(cuts);
}

TEST(CutElements, GivesEqualSharesRoundedUp) {
  EXPECT_EQ(CutElements(1000, 3), (Cuts{0, 384, 768, 1000}));
  EXPECT_EQ(CutElements(768, 3), (Cuts{0, 256, 512, 768}));
  EXPECT_EQ(CutElements(0, 2), (Cuts{0, 0, 0}));
  EXPECT_EQ(CutElements(128, 4), (Cuts{0, 128, 128, 128, 128}));
  EXPECT_EQ(CutElements(1, 3), (Cuts{0, 1, 1, 1}));
  EXPECT_EQ(CutElements(129, 1), (Cuts{0, 129}));
}

TEST(CutElements, TilesAtMultiplesOrTheEnd) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (size_t count = 0; count < 3000; count += 61) {
      SCOPED_TRACE(testing::Message() << count << " elements, " << ranks << " ranks");
      const Cuts cuts = CutElements(count, ranks);
      ExpectTiles(cuts, count, ranks);
      const size_t share = (count + static_cast<size_t>(ranks) - 1) / static_cast<size_t>(ranks);
      for (size_t r = 0; r < static_cast<size_t>(ranks); ++r) {
        EXPECT_TRUE(cuts[r] % kCutElements == 0 || cuts[r] == count);
        EXPECT_LE(cuts[r + 1] - cuts[r], RoundUpToCut(share));
      }
    }
  }
}

TEST(CutAt, TakesTheFirstBoundaryAtOrAfterTheShare) {
  EXPECT_EQ(CutAt({0, 300, 1000}, 3), (Cuts{0, 1000, 1000, 1000}));
  EXPECT_EQ(CutAt({0, 256, 512, 768}, 3), (Cuts{0, 256, 512, 768}));
  EXPECT_EQ(CutAt({0, 128, 1280}, 2), (Cuts{0, 1280, 1280}));
  // One huge and many tiny: the huge one has one owner, the others share what is behind it.
  EXPECT_EQ(CutAt({0, 10240, 10368, 10496, 10624}, 4), (Cuts{0, 10240, 10240, 10240, 10624}));
  EXPECT_EQ(CutAt({0, 128, 256, 384, 10624}, 4), (Cuts{0, 10624, 10624, 10624, 10624}));
  EXPECT_EQ(CutAt({0}, 3), (Cuts{0, 0, 0, 0}));
  EXPECT_EQ(CutAt({0, 128}, 4), (Cuts{0, 128, 128, 128, 128}));
}

TEST(CutAt, DoesNotOverflow) {
  const size_t huge = size_t{1} << 62;
  EXPECT_EQ(CutAt({0, huge / 2, huge}, 2), (Cuts{0, huge / 2, huge}));
  ExpectTiles(CutAt({0, huge}, 1000), huge, 1000);
}

TEST(CutAt, TilesAtBoundariesAsEquallyAsTheyAllow) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Cuts boundaries = {0};
    size_t largest = 0;
    for (uint32_t params = random() % 20; params > 0; --params) {
      const size_t count = kCutElements * (random() % 5 == 0 ? random() % 100 : random() % 4);
      largest = std::max(largest, count);
      boundaries.push_back(boundaries.back() + count);
    }
    const int ranks = 1 + static_cast<int>(random() % 9);
    const Cuts cuts = CutAt(boundaries, ranks);
    ExpectTiles(cuts, boundaries.back(), ranks);
    const size_t share = boundaries.back() / static_cast<size_t>(ranks) + 1;
    for (size_t r = 0; r + 1 < cuts.size(); ++r) {
      EXPECT_TRUE(std::binary_search(boundaries.begin(), boundaries.end(), cuts[r]));
      EXPECT_LE(cuts[r + 1] - cuts[r], share + largest);
    }
  }
}

TEST(CutByLoad, GivesLargeParamsOfUnitsToOneRankAfterTheOther) {
  Cuts loads(3);
  const Cuts unit = {0, 1024, 1152};  // a matrix and its bias
  EXPECT_EQ(CutByLoad(unit, loads), (Cuts{0, 1024, 1152, 1152}));
  EXPECT_EQ(CutByLoad(unit, loads), (Cuts{0, 0, 1024, 1152}));
  EXPECT_EQ(CutByLoad(unit, loads), (Cuts{0, 0, 0, 1152}));
  EXPECT_EQ(loads, (Cuts{1024, 1152, 1280}));
  EXPECT_EQ(CutByLoad({0}, loads), (Cuts{0, 0, 0, 0}));
  EXPECT_EQ(CutByLoad({0, 128}, loads), (Cuts{0, 128, 128, 128}));
}

TEST(CutByLoad, DoesNotOverflow) {
  const size_t huge = size_t{1} << 61;
  Cuts loads(2);
  EXPECT_EQ(CutByLoad({0, huge / 2, huge}, loads), (Cuts{0, huge / 2, huge}));
  EXPECT_EQ(CutByLoad({0, huge}, loads), (Cuts{0, huge, huge}));
  EXPECT_EQ(CutByLoad({0, huge}, loads), (Cuts{0, 0, huge}));
}

// The least that the rank with the most can have, of all ways to give params to ranks in their order.
size_t LeastMost(const Cuts& boundaries, const Cuts& loads, size_t param, size_t rank) {
  if (rank == loads.size()) return param + 1 == boundaries.size() ? 0 : ~size_t{0};
  size_t least = ~size_t{0};
  for (size_t end = param; end < boundaries.size(); ++end) {
    const size_t own = end == param ? 0 : loads[rank] + boundaries[end] - boundaries[param];
    least = std::min(least, std::max(own, LeastMost(boundaries, loads, end, rank + 1)));
  }
  return least;
}

TEST(CutByLoad, HasNoRankHaveMoreThanItMust) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int ranks = 1 + static_cast<int>(random() % 4);
    Cuts loads(static_cast<size_t>(ranks));
    for (int units = 0; units < 6; ++units) {
      Cuts boundaries = {0};
      for (uint32_t params = random() % 6; params > 0; --params)
        boundaries.push_back(boundaries.back() + kCutElements * (1 + random() % 30));
      const Cuts before = loads;
      const Cuts cuts = CutByLoad(boundaries, loads);
      ExpectTiles(cuts, boundaries.back(), ranks);
      size_t most = 0;
      for (size_t r = 0; r + 1 < cuts.size(); ++r) {
        EXPECT_TRUE(std::binary_search(boundaries.begin(), boundaries.end(), cuts[r]));
        EXPECT_EQ(loads[r], before[r] + cuts[r + 1] - cuts[r]);
        if (cuts[r] != cuts[r + 1]) most = std::max(most, loads[r]);
      }
      EXPECT_EQ(most, LeastMost(boundaries, before, 0, 0));
    }
  }
}

TEST(AddRowBoundaries, NeverPartsABlockOfRows) {
  for (const size_t row : {1, 2, 3, 64, 100, 127, 128, 129, 1000}) {
    for (const size_t rows : {1, 2, 5, 128}) {
      SCOPED_TRACE(testing::Message() << rows << " rows of " << row);
      const size_t count = row * 1000;
      Cuts boundaries = {kCutElements};
      AddRowBoundaries(kCutElements, count, row, rows, boundaries);
      EXPECT_TRUE(std::is_sorted(boundaries.begin(), boundaries.end()));
      for (const size_t boundary : boundaries) {
        const size_t inside = boundary - kCutElements;
        EXPECT_LT(inside, count);
        EXPECT_EQ(inside % kCutElements, 0u);
        EXPECT_EQ(inside % (row * rows), 0u);
      }
      // All such places are there.
      size_t places = 0;
      for (size_t at = 0; at < count; at += kCutElements)
        places += at % (row * rows) == 0 ? 1 : 0;
      EXPECT_EQ(boundaries.size(), places);
    }
  }
}

TEST(AddRowBoundaries, AddsNothingWhereNothingFits) {
  const size_t huge = ~size_t{0};
  Cuts boundaries;
  AddRowBoundaries(0, 10000, 0, 1, boundaries);
  AddRowBoundaries(0, 10000, huge, huge, boundaries);
  AddRowBoundaries(0, 10000, huge - 1, 1, boundaries);
  AddRowBoundaries(0, 0, 1, 1, boundaries);
  AddRowBoundaries(0, 128, 1, 1, boundaries);
  EXPECT_EQ(boundaries, Cuts());
}

}  // namespace
}  // namespace weft::cut_test
