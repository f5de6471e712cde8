// Streaming copies against the bytes they were to copy: every alignment, every small size, sizes
// around what is unrolled, nothing written around the destination, and what a release store after
// them publishes.

#include "comm/kernels/copy.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/comm/kernels/reference.h"

namespace weft::copy_test {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kGuard = 2 * kLine;
constexpr char kCanary = '\xa5';

// Lines of memory that begin at a line, so that offsets are alignments.
class Lines {
 public:
  explicit Lines(size_t bytes) : storage_(bytes + kLine) {}

  char* data() {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (kLine - address % kLine) % kLine;
  }

 private:
  std::vector<char> storage_;
};

void FillRandomly(char* bytes, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  for (size_t i = 0; i < count; ++i) {
    do {
      bytes[i] = static_cast<char>(random());
    } while (bytes[i] == kCanary);  // so that what was not copied differs
  }
}

class CopyTest : public testing::TestWithParam<Isa> {
 protected:
  // Copies `bytes` bytes between the given offsets into a line, and looks at all of the destination.
  void CheckCopy(size_t to_shift, size_t from_shift, size_t bytes) {
    char* const to = to_.data() + kGuard + to_shift;
    const char* const from = from_.data() + from_shift;
    std::memset(to - kGuard, kCanary, bytes + 2 * kGuard);
    copy_(to, from, bytes);
    const auto untouched = [](const char* start) {
      return std::all_of(start, start + kGuard, [](char byte) { return byte == kCanary; });
    };
    ASSERT_EQ(std::memcmp(to, from, bytes), 0)
        << bytes << " bytes from a line's byte " << from_shift << " to byte " << to_shift
        << ", --gtest_random_seed=" << TestSeed();
    ASSERT_TRUE(untouched(to - kGuard) && untouched(to + bytes))
        << bytes << " bytes from a line's byte " << from_shift << " to byte " << to_shift
        << " were not all that was written";
  }

  static constexpr size_t kBytesMax = size_t{1} << 20;
  const CopyKernel copy_ = FindStreamCopy(GetParam());
  Lines to_{kBytesMax + 4 * kGuard};
  Lines from_{kBytesMax + 4 * kGuard};

  void SetUp() override { FillRandomly(from_.data(), kBytesMax + 4 * kGuard, TestSeed()); }
};

TEST_P(CopyTest, CopiesEverySmallSizeToEveryAlignment) {
  for (size_t to_shift = 0; to_shift < kLine; ++to_shift) {
    for (size_t bytes = 0; bytes <= 300; ++bytes)
      ASSERT_NO_FATAL_FAILURE(CheckCopy(to_shift, (to_shift * 7 + 3) % kLine, bytes));
  }
}

TEST_P(CopyTest, CopiesFromEveryAlignmentToEveryAlignment) {
  for (size_t to_shift = 0; to_shift < kLine; ++to_shift) {
    for (size_t from_shift = 0; from_shift < kLine; ++from_shift) {
      for (const size_t bytes : {kLine - 1, kLine, 5 * kLine + 1, 9 * kLine - 1})
        ASSERT_NO_FATAL_FAILURE(CheckCopy(to_shift, from_shift, bytes));
    }
  }
}

TEST_P(CopyTest, CopiesMuchAtOnce) {
  for (const size_t bytes :
       {size_t{1021}, size_t{4096}, size_t{4099}, size_t{65536}, kBytesMax - 1, kBytesMax}) {
    for (const size_t to_shift : {0, 1, 32, 63}) {
      for (const size_t from_shift : {0, 5, 32})
        ASSERT_NO_FATAL_FAILURE(CheckCopy(to_shift, from_shift, bytes));
    }
  }
}

TEST_P(CopyTest, NothingNeedsNoMemory) {
  copy_(nullptr, nullptr, 0);
}

// A reader that has acquired the number of a round sees that round's bytes, all of them.
TEST_P(CopyTest, AReleaseStorePublishesIt) {
  constexpr uint32_t kRounds = 2000;
  constexpr size_t kBytes = 4096 + 40;  // head, lines and tail
  std::atomic<uint32_t> ready{0};
  std::atomic<uint32_t> read{0};
  char* const slot = to_.data() + 24;
  uint32_t wrong_bytes = 0;
  std::thread reader([&] {
    for (uint32_t round = 1; round <= kRounds; ++round) {
      while (ready.load(std::memory_order_acquire) != round)
        std::this_thread::yield();
      for (size_t i = 0; i < kBytes; ++i)
        wrong_bytes += slot[i] != static_cast<char>(round) ? 1 : 0;
      read.store(round, std::memory_order_release);
    }
  });
  std::vector<char> bytes(kBytes);
  for (uint32_t round = 1; round <= kRounds; ++round) {
    std::memset(bytes.data(), static_cast<char>(round), kBytes);
    copy_(slot, bytes.data(), kBytes);
    ready.store(round, std::memory_order_release);
    while (read.load(std::memory_order_acquire) != round)
      std::this_thread::yield();
  }
  reader.join();
  EXPECT_EQ(wrong_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Isas, CopyTest, testing::ValuesIn(AvailableIsas()),
                         [](const auto& info) { return std::string(IsaName(info.param)); });

}  // namespace
}  // namespace weft::copy_test
