// Windows come and go through slots, whatever the order and the disk's pace.
#include "shard/offload/window_slots.h"

#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/allocator.h"
#include "base/status.h"
#include "tests/comm/kernels/reference.h"
#include "tests/shard/offload/memory_store.h"

namespace weft::test::window_slots_test {
namespace {

constexpr size_t kBlock = BlockStore::kAlignment;
constexpr size_t kWindowBytes = 2 * kBlock;

// What is known of windows, next to what the slots say.
class Windows {
 public:
  Windows(size_t windows, size_t slots, uint64_t seed)
      : store_(windows * kWindowBytes, seed),
        memory_(*PrivateMemory::Allocate(slots * kWindowBytes, kBlock, "slots")),
        slots_(store_, Places(windows), {memory_.data(), slots * kWindowBytes}, kWindowBytes),
        known_(windows, std::vector<std::byte>(kWindowBytes)) {}

  // Number 2 has no bytes.
  static std::vector<WindowPlace> Places(size_t windows) {
    std::vector<WindowPlace> places;
    for (size_t i = 0; i < windows; ++i)
      places.push_back({.offset = i * kWindowBytes, .bytes = i == 2 ? 0 : kWindowBytes});
    return places;
  }

  static bool IsEmpty(int window) { return window == 2; }

  void Visit(int window, bool changes, std::byte value) {
    ASSERT_TRUE(slots_.Visit(window, changes).ok());
    if (IsEmpty(window)) return;
    std::vector<std::byte>& known = known_[static_cast<size_t>(window)];
    ASSERT_EQ(std::memcmp(slots_.data(), known.data(), kWindowBytes), 0) << "window " << window;
    if (!changes) return;
    std::memset(slots_.data(), static_cast<int>(value), kWindowBytes / 3);
    std::memset(known.data(), static_cast<int>(value), kWindowBytes / 3);
  }

  void Read(int window, size_t begin, size_t bytes) {
    std::vector<std::byte> got(bytes);
    ASSERT_TRUE(slots_.Leave().ok());
    ASSERT_TRUE(slots_.Read(window, begin, bytes, got.data()).ok());
    ASSERT_EQ(std::memcmp(got.data(), known_[static_cast<size_t>(window)].data() + begin, bytes), 0)
        << "window " << window;
  }

  void Write(int window, size_t begin, size_t bytes, std::byte value) {
    const std::vector<std::byte> written(bytes, value);
    ASSERT_TRUE(slots_.Leave().ok());
    ASSERT_TRUE(slots_.Write(window, begin, bytes, written.data()).ok());
    std::memcpy(known_[static_cast<size_t>(window)].data() + begin, written.data(), bytes);
  }

  MemoryStore& store() { return store_; }

  WindowSlots& slots() { return slots_; }

 private:
  MemoryStore store_;
  PrivateMemory memory_;
  WindowSlots slots_;
  std::vector<std::vector<std::byte>> known_;
};

class WindowSlotsTest : public testing::TestWithParam<size_t> {};

INSTANTIATE_TEST_SUITE_P(Slots, WindowSlotsTest, testing::Values(2, 3, 4, 9));

TEST_P(WindowSlotsTest, KeepWhatIsWrittenInAnyOrder) {
  constexpr int kWindows = 7;
  const uint64_t seed = weft::TestSeed();
  std::mt19937_64 random(seed);
  Windows windows(kWindows, GetParam(), seed);
  for (int round = 0; round < 3000; ++round) {
    const auto window = static_cast<int>(random() % kWindows);
    const auto value = static_cast<std::byte>(random());
    switch (random() % 8) {
      case 0: {
        std::vector<int> next(random() % 9);
        for (int& one : next)
          one = static_cast<int>(random() % kWindows);
        windows.slots().Expect(std::move(next));
        break;
      }
      case 1:
      case 2: {
        if (Windows::IsEmpty(window)) break;
        const size_t begin = random() % kWindowBytes;
        const size_t bytes = 1 + random() % (kWindowBytes - begin);
        if (random() % 2 == 0) {
          windows.Read(window, begin, bytes);
        } else {
          windows.Write(window, begin, bytes, value);
        }
        break;
      }
      case 3:
        ASSERT_TRUE(windows.slots().Leave().ok());
        break;
      default:
        windows.Visit(window, random() % 2 == 0, value);
    }
    ASSERT_EQ(windows.store().complaints(), "") << "round " << round;
    if (HasFatalFailure()) return;
  }
  ASSERT_TRUE(windows.slots().Drain().ok());
  EXPECT_EQ(windows.store().under_way(), 0u);
  EXPECT_EQ(windows.store().complaints(), "");
}

TEST_P(WindowSlotsTest, APassMovesEachWindowOnceEachWay) {
  constexpr int kWindows = 20;
  Windows windows(kWindows, GetParam(), weft::TestSeed());
  std::vector<int> all;
  for (int window = 0; window < kWindows; ++window)
    all.push_back(window);
  constexpr uint64_t kBytes = (kWindows - 1) * kWindowBytes;  // one is empty
  for (int pass = 0; pass < 3; ++pass) {
    const uint64_t read = windows.store().read_bytes();
    const uint64_t written = windows.store().written_bytes();
    windows.slots().Expect(all);
    for (const int window : all)
      windows.Visit(window, /*changes=*/true, static_cast<std::byte>(pass));
    ASSERT_TRUE(windows.slots().Drain().ok());
    EXPECT_LE(windows.store().read_bytes() - read, kBytes);
    EXPECT_EQ(windows.store().written_bytes() - written, kBytes);
  }
}

TEST(WindowSlots, WhatFitsIsReadOnce) {
  Windows windows(4, 3, weft::TestSeed());
  for (int round = 0; round < 10; ++round) {
    for (const int window : {0, 1, 3})
      windows.Visit(window, /*changes=*/true, static_cast<std::byte>(round));
  }
  EXPECT_EQ(windows.store().read_bytes(), 3 * kWindowBytes);
}

TEST(WindowSlots, TheNextWindowsAreReadWhileOneIsUsed) {
  Windows windows(8, 4, weft::TestSeed());
  windows.slots().Expect({0, 1, 3, 4, 5});
  windows.Visit(0, true, std::byte{1});
  EXPECT_EQ(windows.store().started(), 4);
}

// As LAMB and LARS go when only the first window has params whose norms are needed.
TEST(WindowSlots, WhatComesTwiceInARowDoesNotStopReadingAhead) {
  Windows windows(9, 4, weft::TestSeed());
  windows.slots().Expect({0, 0, 1, 3, 4, 5, 6, 7, 8});
  windows.Visit(0, false, std::byte{1});
  for (const int window : {0, 1, 3, 4})
    windows.Visit(window, false, std::byte{1});
  // 0 to 4, and 5 to 7 ahead; number 2 has no bytes.
  EXPECT_GE(windows.store().started(), 6);
}

TEST(WindowSlots, AFailureIsFinal) {
  for (int k = 1; k <= 12; ++k) {
    Windows windows(6, 2, weft::TestSeed());
    windows.slots().Expect({0, 1, 3, 4, 5});
    windows.store().FailAt(k);
    absl::Status status;
    for (int round = 0; round < 4 && status.ok(); ++round) {
      for (const int window : {0, 1, 3, 4, 5}) {
        status = windows.slots().Visit(window, /*changes=*/true);
        if (!status.ok()) break;
      }
    }
    EXPECT_EQ(ResultOf(status), WEFT_SYSTEM_ERROR) << k;
    EXPECT_FALSE(windows.slots().Visit(0, false).ok());
    char byte;
    EXPECT_FALSE(windows.slots().Leave().ok() && windows.slots().Read(0, 0, 1, &byte).ok());
    EXPECT_FALSE(windows.slots().Drain().ok());
    EXPECT_EQ(windows.store().under_way(), 0u) << k;
    EXPECT_EQ(windows.store().complaints(), "") << k;
  }
}

}  // namespace
}  // namespace weft::test::window_slots_test
