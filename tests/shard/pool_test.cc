#include "shard/layout/pool.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "comm/node/heap.h"
#include "gtest/gtest.h"

namespace weft::pool_test {
namespace {

TEST(Pool, GivesThePlacesThatAreAskedFor) {
  Pool pool;
  ASSERT_TRUE(pool.Reserve(4096).ok());
  EXPECT_EQ(pool.bytes(), 4096u);
  std::byte* const first = pool.TakeAt(0, 1024);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(pool.TakeAt(1024, 512), first + 1024);
  EXPECT_EQ(pool.TakeAt(1535, 1), nullptr) << "the last byte of a place";
  EXPECT_EQ(pool.TakeAt(512, 1024), nullptr) << "across two places";
  EXPECT_EQ(pool.TakeAt(4000, 97), nullptr) << "beyond the end";
  EXPECT_EQ(pool.TakeAt(1536, 2560), first + 1536);
  EXPECT_FALSE(pool.HasRoom(1));
  pool.GiveBack(first + 1024);
  EXPECT_TRUE(pool.HasRoom(512));
  EXPECT_FALSE(pool.HasRoom(513));
  EXPECT_TRUE(pool.IsFree(1024, 512));
  EXPECT_FALSE(pool.IsFree(1023, 2));
  pool.GiveBack(first);
  pool.GiveBack(first + 1536);
  EXPECT_TRUE(pool.HasRoom(4096));
}

TEST(Pool, TakesTheLowestPlaceThatFits) {
  Pool pool;
  ASSERT_TRUE(pool.Reserve(4096).ok());
  std::byte* const base = pool.TakeAt(0, 512);
  ASSERT_NE(pool.TakeAt(768, 256), nullptr);
  EXPECT_EQ(*pool.Take(512), base + 1024);
  EXPECT_EQ(*pool.Take(256), base + 512);
  EXPECT_EQ(pool.spilled_bytes_max(), 0u);
  for (const int offset : {0, 512, 768, 1024})
    pool.GiveBack(base + offset);
}

TEST(Pool, SpillsIntoBlocksThatGoBackToTheHeap) {
  const size_t before = ProcessHeap().live_bytes();
  {
    Pool pool;
    ASSERT_TRUE(pool.Reserve(4096).ok());
    std::byte* const inside = *pool.Take(4096);
    std::byte* const first = *pool.Take(8192);
    std::byte* const second = *pool.Take(4096);
    std::memset(first, 1, 8192);
    std::memset(second, 2, 4096);
    EXPECT_EQ(pool.spilled_bytes_max(), 12288u);
    pool.GiveBack(first);
    pool.GiveBack(second);
    EXPECT_EQ(ProcessHeap().live_bytes(), before + 16384) << "until somebody may release it";
    pool.ReleaseGivenBack();
    EXPECT_EQ(ProcessHeap().live_bytes(), before + 4096);
    EXPECT_EQ(pool.spilled_bytes_max(), 12288u) << "the most since Reserve";
    pool.CountSpilledAnew();
    EXPECT_EQ(pool.spilled_bytes_max(), 0u);
    pool.GiveBack(inside);
    ASSERT_TRUE(pool.Reserve(512).ok()) << "smaller: stays as it is";
    EXPECT_EQ(pool.bytes(), 4096u);
    EXPECT_EQ(pool.spilled_bytes_max(), 0u);
    ASSERT_TRUE(pool.Reserve(32768).ok());
    EXPECT_EQ(ProcessHeap().live_bytes(), before + 32768);
  }
  EXPECT_EQ(ProcessHeap().live_bytes(), before);
}

TEST(Pool, ReleasesWhatWasGivenBackBeforeItTakesMore) {
  const size_t before = ProcessHeap().live_bytes();
  Pool pool;
  pool.GiveBack(*pool.Take(8192));
  pool.GiveBack(*pool.Take(4096));
  EXPECT_EQ(ProcessHeap().live_bytes(), before + 4096);
}

TEST(Pool, PoisonsWhatIsNotTaken) {
  const auto all = [](const std::byte* place, size_t bytes, int value) {
    return std::all_of(place, place + bytes,
                       [value](std::byte b) { return b == static_cast<std::byte>(value); });
  };
  Pool pool;
  pool.SetSource({.poison = true});
  ASSERT_TRUE(pool.Reserve(4096).ok());
  std::byte* const first = pool.TakeAt(0, 1024);
  std::byte* const second = pool.TakeAt(1024, 512);
  EXPECT_TRUE(all(first, 4096, 0xff)) << "never written";
  std::memset(first, 1, 1024);
  std::memset(second, 2, 512);
  pool.GiveBack(first);
  EXPECT_TRUE(all(first, 1024, 0xff));
  EXPECT_TRUE(all(second, 512, 2)) << "still taken";
  std::byte* const beyond = *pool.Take(8192);
  EXPECT_TRUE(all(beyond, 8192, 0xff));
  std::memset(beyond, 3, 8192);
  pool.GiveBack(beyond);
  EXPECT_TRUE(all(beyond, 8192, 0xff)) << "until it is released";
  pool.GiveBack(second);
  EXPECT_TRUE(all(first, 4096, 0xff));
}

TEST(Pool, WithoutABlockSpillsEverything) {
  Pool pool;
  EXPECT_FALSE(pool.HasRoom(1));
  EXPECT_EQ(pool.TakeAt(0, 64), nullptr);
  const absl::StatusOr<std::byte*> place = pool.Take(64);
  ASSERT_TRUE(place.ok()) << place.status();
  pool.GiveBack(*place);
}

TEST(Pool, NeverGivesAByteTwice) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Pool pool;
    ASSERT_TRUE(pool.Reserve(64 * 64).ok());

    struct Taken {
      std::byte* place;
      size_t bytes;
      unsigned char mark;
    };

    std::vector<Taken> taken;
    for (int i = 0; i < 400; ++i) {
      if (!taken.empty() && random() % 2 == 0) {
        std::swap(taken[random() % taken.size()], taken.back());
        const Taken& one = taken.back();
        EXPECT_TRUE(std::all_of(one.place, one.place + one.bytes,
                                [&](std::byte b) { return b == std::byte{one.mark}; }));
        pool.GiveBack(one.place);
        taken.pop_back();
        continue;
      }
      const size_t bytes = 64 * (1 + random() % 10);
      std::byte* place = pool.TakeAt(64 * (random() % 64), bytes);
      if (place == nullptr) place = *pool.Take(bytes);
      const auto mark = static_cast<unsigned char>(random());
      std::memset(place, mark, bytes);
      taken.push_back({place, bytes, mark});
    }
    for (const Taken& one : taken)
      pool.GiveBack(one.place);
    EXPECT_TRUE(pool.IsFree(0, 64 * 64));
  }
}

}  // namespace
}  // namespace weft::pool_test
