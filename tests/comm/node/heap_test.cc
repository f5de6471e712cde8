#include "comm/node/heap.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/support/leak_check.h"

namespace weft::test::heap_test {
namespace {

TEST(Heap, BlocksAreZeroedAlignedAndDisjoint) {
  const uint64_t seed = TestSeed(5);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const Holdings before = Holdings::Now();
  Heap heap;

  struct Live {
    char* data;
    size_t bytes;
    char fill;
  };

  std::vector<Live> live;
  for (int i = 0; i < 400; ++i) {
    if (!live.empty() && random() % 3 == 0) {
      const size_t k = random() % live.size();
      const Live& block = live[k];
      for (size_t b = 0; b < block.bytes; b += 997)
        ASSERT_EQ(block.data[b], block.fill);
      ASSERT_TRUE(heap.Free(block.data).ok());
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(k));
    }
    const size_t bytes = random() % 100000 + 1;
    auto block = heap.Allocate(bytes);
    ASSERT_TRUE(block.ok());
    auto* const data = static_cast<char*>(*block);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % Heap::kAlignment, 0u);
    EXPECT_TRUE(heap.Contains(data, bytes));
    ASSERT_TRUE(std::all_of(data, data + bytes, [](char c) { return c == 0; }));
    const char fill = static_cast<char>(i % 100 + 1);
    std::memset(data, fill, bytes);
    live.push_back({data, bytes, fill});
  }
  for (const Live& block : live)
    ASSERT_TRUE(heap.Free(block.data).ok());
  EXPECT_EQ(heap.live_bytes(), 0u);
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

TEST(Heap, RefusesForeignAndFreedPointers) {
  Heap heap;
  auto* const block = static_cast<char*>(*heap.Allocate(10000));
  int local = 0;
  EXPECT_EQ(ResultOf(heap.Free(&local)), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(heap.Free(block + 4096)), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(heap.Free(nullptr)), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(heap.Free(block).ok());
  EXPECT_EQ(ResultOf(heap.Free(block)), WEFT_INVALID_ARGUMENT);
}

TEST(Heap, AbsurdSizesAreErrors) {
  Heap heap;
  EXPECT_EQ(ResultOf(heap.Allocate(0).status()), WEFT_INVALID_ARGUMENT);
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 4096, size_t{1} << 60}) {
    const absl::Status status = heap.Allocate(bytes).status();
    EXPECT_EQ(ResultOf(status), WEFT_OUT_OF_MEMORY) << bytes;
    EXPECT_FALSE(status.message().empty());
  }
  EXPECT_EQ(heap.live_bytes(), 0u);
}

TEST(Heap, PinnedBlockIsFreedWithItsLastPin) {
  Heap heap;
  auto* const keep = static_cast<char*>(*heap.Allocate(4096));
  auto* const block = static_cast<char*>(*heap.Allocate(8192));
  heap.Pin(block + 5000);
  heap.Pin(block);
  EXPECT_TRUE(heap.Free(block).ok());
  EXPECT_EQ(heap.live_bytes(), 3 * 4096u);
  block[8191] = 1;
  heap.Unpin(block);
  EXPECT_EQ(heap.live_bytes(), 3 * 4096u);
  heap.Unpin(block + 5000);
  EXPECT_EQ(heap.live_bytes(), 4096u);
  EXPECT_TRUE(heap.Free(keep).ok());
}

TEST(Heap, QuarantinedBlockIsNeverReused) {
  Heap heap;
  auto* const block = static_cast<char*>(*heap.Allocate(4096));
  heap.Quarantine(block + 7);
  EXPECT_TRUE(heap.Free(block).ok());
  EXPECT_EQ(heap.live_bytes(), 4096u);
  EXPECT_NE(*heap.Allocate(4096), block);
}

TEST(Heap, ReservationGoesWithTheLastUser) {
  const Holdings before = Holdings::Now();
  Heap heap;
  const auto first = heap.Retain();
  ASSERT_TRUE(first.ok());
  void* const block = *heap.Allocate(1);
  heap.Release();
  EXPECT_TRUE(heap.Contains(block, 1));
  ASSERT_TRUE(heap.Free(block).ok());
  EXPECT_FALSE(heap.Contains(block, 1));
  EXPECT_EQ(Holdings::Now().Since(before), "");
  const auto second = heap.Retain();
  ASSERT_TRUE(second.ok());
  EXPECT_NE(first->id, second->id);
  heap.Release();
}

}  // namespace
}  // namespace weft::test::heap_test
