// The free ranges of chunks.
#include "comm/device/memory/chunk_gaps.h"

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>

#include <gtest/gtest.h>

namespace weft::test::chunk_gaps_test {
namespace {

TEST(ChunkGaps, TakeTheSmallestThatHasRoomOfThoseTheLowest) {
  ChunkGaps gaps;
  EXPECT_EQ(gaps.Take(1), std::nullopt);
  gaps.Put({1000, 1100}, {1000, 2000});
  gaps.Put({1500, 1550}, {1000, 2000});
  gaps.Put({1700, 1750}, {1000, 2000});
  EXPECT_EQ(gaps.Take(101), std::nullopt);
  EXPECT_EQ(gaps.Take(40), std::optional<uint64_t>(1500));
  EXPECT_EQ(gaps.Take(11), std::optional<uint64_t>(1700));
  EXPECT_EQ(gaps.Take(10), std::optional<uint64_t>(1540));
  EXPECT_EQ(gaps.Take(100), std::optional<uint64_t>(1000));
  EXPECT_EQ(gaps.Take(39), std::optional<uint64_t>(1711));
  EXPECT_EQ(gaps.Take(1), std::nullopt);
}

TEST(ChunkGaps, ThatTouchBecomeOneInsideAChunk) {
  ChunkGaps gaps;
  gaps.Put({100, 120}, {100, 200});
  gaps.Put({140, 200}, {100, 200});
  gaps.Put({200, 300}, {200, 300});
  gaps.Put({120, 140}, {100, 200});
  gaps.TakeWhole({100, 200});
  gaps.TakeWhole({200, 300});
  EXPECT_EQ(gaps.Take(1), std::nullopt);
}

// Against a map of every piece: what is taken was free, and all is there again in the end.
TEST(ChunkGaps, HandOutEachByteOnce) {
  constexpr uint64_t kChunk = 4096;
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    ChunkGaps gaps;
    for (uint64_t chunk = 0; chunk < 4; ++chunk)
      gaps.Put({chunk * kChunk, (chunk + 1) * kChunk}, {chunk * kChunk, (chunk + 1) * kChunk});
    std::map<uint64_t, uint64_t> taken;
    const auto give = [&](std::map<uint64_t, uint64_t>::iterator piece) {
      const uint64_t chunk = piece->first / kChunk * kChunk;
      gaps.Put({piece->first, piece->second}, {chunk, chunk + kChunk});
      taken.erase(piece);
    };
    for (int step = 0; step < 2'000; ++step) {
      const uint64_t bytes = random() % 300 + 1;
      if (const std::optional<uint64_t> begin = gaps.Take(bytes)) {
        ASSERT_EQ(*begin / kChunk, (*begin + bytes - 1) / kChunk) << "it lies in two chunks";
        const auto next = taken.lower_bound(*begin);
        ASSERT_TRUE(next == taken.end() || next->first >= *begin + bytes) << "seed " << seed;
        ASSERT_TRUE(next == taken.begin() || std::prev(next)->second <= *begin) << "seed " << seed;
        taken[*begin] = *begin + bytes;
      }
      if (!taken.empty() && random() % 2 == 0) {
        give(std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size())));
      }
    }
    while (!taken.empty())
      give(taken.begin());
    for (uint64_t chunk = 0; chunk < 4; ++chunk)
      gaps.TakeWhole({chunk * kChunk, (chunk + 1) * kChunk});
    EXPECT_EQ(gaps.Take(1), std::nullopt);
  }
}

}  // namespace
}  // namespace weft::test::chunk_gaps_test
