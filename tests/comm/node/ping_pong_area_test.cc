// Parts that two ranks write in turn, against two maps of every page: who wrote there last, and when.
#include "comm/node/ping_pong_area.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/leak_check.h"

namespace weft::test::ping_pong_area_test {
namespace {

constexpr size_t kPage = BounceRing::kPartBytes;

struct Use {
  int writer = -1;
  uint64_t sequence = 0;
  size_t round = 0;
};

Use Newest(const Use& a, const Use& b) {
  return std::pair(a.sequence, a.round) < std::pair(b.sequence, b.round) ? b : a;
}

TEST(PingPongArea, TellsWhoMustHaveReadWhatIsOverwritten) {
  const uint64_t seed = TestSeed(7);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int number = 0; number < 50; ++number) {
    const size_t pages = 2 + random() % 30 * 2;
    PingPongArea stage(pages * kPage);
    std::array<std::vector<Use>, 2> areas;
    for (auto& area : areas)
      area.resize(pages);
    for (uint64_t sequence = 1; sequence < 200; ++sequence) {
      const size_t bytes = 1 + random() % (pages * kPage / 2);
      const size_t rounds = 1 + random() % 7;
      for (size_t round = 0; round < rounds; ++round) {
        const PingPongArea::Users last = stage.LastUsers(bytes, round);
        const auto [offset, swapped] = stage.Take(bytes, {sequence, round});
        ASSERT_EQ(offset % kPage, 0u);
        ASSERT_LE(offset + bytes, pages * kPage);
        for (int writer = 0; writer < 2; ++writer) {
          Use read_here;
          Use read_there;
          auto& area = areas[static_cast<size_t>(swapped ? 1 - writer : writer)];
          for (size_t page = offset / kPage; page * kPage < offset + bytes; ++page) {
            if (area[page].writer == writer) read_there = Newest(read_there, area[page]);
            if (area[page].writer == 1 - writer) read_here = Newest(read_here, area[page]);
            area[page] = {writer, sequence, round};
          }
          ASSERT_EQ(last.read_here.sequence, read_here.sequence);
          ASSERT_EQ(last.read_here.round, read_here.round);
          ASSERT_EQ(last.read_there.sequence, read_there.sequence);
          ASSERT_EQ(last.read_there.round, read_there.round);
        }
      }
    }
  }
}

// A rank that stages a round has read the one before the last; it must not wait for what it has yet to read.
TEST(PingPongArea, WritesWhereTheRoundBeforeTheLastWasRead) {
  for (const size_t bytes : {size_t{1}, kPage, 3 * kPage + 64, 8 * kPage}) {
    PingPongArea stage(16 * kPage);
    stage.Take(5 * kPage, {1, 0});
    for (size_t round = 0; round < 20; ++round) {
      const PingPongArea::Users last = stage.LastUsers(bytes, round);
      if (round >= 2) {
        EXPECT_EQ(last.read_here.sequence, 2u);
        EXPECT_EQ(last.read_here.round, round - 2);
      }
      stage.Take(bytes, {2, round});
    }
  }
}

}  // namespace
}  // namespace weft::test::ping_pong_area_test
