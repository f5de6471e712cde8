// Parts of staging against a map of every page and who had it last.
#include "comm/node/bounce_ring.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/leak_check.h"

namespace weft::test::bounce_ring_test {
namespace {

constexpr size_t kPage = BounceRing::kPartBytes;

TEST(BounceRing, TellsTheLastUserOfEveryPart) {
  const uint64_t seed = TestSeed(7);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int ring_number = 0; ring_number < 50; ++ring_number) {
    const size_t pages = 4 + random() % 60;
    BounceRing ring(pages * kPage);
    std::vector<uint64_t> users(pages, 0);
    const size_t lap = random() % 2 * (random() % (pages * kPage));
    for (uint64_t sequence = 1; sequence < 400; ++sequence) {
      const size_t bytes = 1 + random() % (pages * kPage / 4);
      const BounceRing::User last = ring.LastUser(bytes, lap);
      const size_t offset = ring.Take(bytes, lap, {sequence, sequence % 7});
      ASSERT_EQ(offset % kPage, 0u);
      ASSERT_LE(offset + bytes, pages * kPage);
      uint64_t newest = 0;
      for (size_t page = offset / kPage; page * kPage < offset + bytes; ++page) {
        newest = std::max(newest, users[page]);
        users[page] = sequence;
      }
      ASSERT_EQ(last.sequence, newest);
      ASSERT_EQ(last.round, newest % 7);
    }
  }
}

// On this the rule for reductions is built: that they wait for what peers stage two rounds later.
TEST(BounceRing, GivesNoPartBackBeforeThreeOthersOfItsSize) {
  constexpr size_t kPages = 64;
  for (const size_t lap : {size_t{0}, 20 * kPage, kPages * kPage}) {
    for (size_t begin = 0; begin < kPages; ++begin) {
      for (size_t bytes = kPage; bytes <= kPages * kPage / 4; bytes += kPage / 2) {
        BounceRing ring(kPages * kPage);
        if (begin > 0) ring.Take(begin * kPage, kPages * kPage, {1, 0});
        for (size_t round = 0; round < 3 * kPages; ++round) {
          const BounceRing::User last = ring.LastUser(bytes, lap);
          if (last.sequence == 2) {
            ASSERT_LE(last.round + 3, round) << begin << " " << bytes;
          }
          ring.Take(bytes, lap, {2, round});
        }
      }
    }
  }
}

TEST(BounceRing, BeginsAgainAfterALapOfFourParts) {
  BounceRing ring(64 * kPage);
  for (size_t i = 0; i < 12; ++i)
    EXPECT_EQ(ring.Take(2 * kPage, 0, {1, i}), i % 4 * 2 * kPage);
  for (size_t i = 0; i < 20; ++i)
    EXPECT_EQ(ring.Take(kPage, 10 * kPage, {2, i}), (8 + i) % 10 * kPage);
}

}  // namespace
}  // namespace weft::test::bounce_ring_test
