#include "comm/node/adaptive_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "comm/kernels/isa.h"

namespace weft::adaptive_copy_test {
namespace {

// Whatever kind it begins with and however often it looks at the other.
TEST(AdaptiveCopy, CopiesEveryByteAndNoOther) {
  for (const bool streams : {false, true}) {
    AdaptiveCopy copy(FindStreamCopy(BestIsa()), streams);
    for (size_t turn = 0; turn < 200; ++turn) {
      const size_t bytes = 1 + turn * 97 % 9000;
      const size_t offset = turn % 67;
      std::vector<unsigned char> from(bytes);
      for (size_t i = 0; i < bytes; ++i)
        from[i] = static_cast<unsigned char>(i * 7 + turn);
      std::vector<unsigned char> to(bytes + offset + 64, 0xa5);
      copy.Copy(to.data() + offset, from.data(), bytes);
      ASSERT_TRUE(std::equal(from.begin(), from.end(), to.data() + offset)) << bytes;
      const auto untouched = [](unsigned char byte) {
        return byte == 0xa5;
      };
      ASSERT_TRUE(std::all_of(to.data(), to.data() + offset, untouched)) << bytes;
      ASSERT_TRUE(std::all_of(to.data() + offset + bytes, to.data() + to.size(), untouched))
          << bytes;
    }
  }
}

int streamed_copies = 0;

void CountingCopy(void* to, const void* from, size_t bytes) {
  ++streamed_copies;
  std::memcpy(to, from, bytes);
}

TEST(AdaptiveCopy, GoesOnLookingAtBothKinds) {
  AdaptiveCopy copy(CountingCopy, false);
  std::vector<char> from(64 << 10, 1);
  std::vector<char> to(from.size());
  streamed_copies = 0;
  for (int turn = 0; turn < 320; ++turn)
    copy.Copy(to.data(), from.data(), from.size());
  EXPECT_GE(streamed_copies, 5);
  EXPECT_EQ(to, from);
}

TEST(AdaptiveCopy, HasNothingToChooseWithoutStreamingStores) {
  AdaptiveCopy copy(nullptr, false);
  std::vector<char> from(4096, 3);
  std::vector<char> to(from.size());
  for (int turn = 0; turn < 50; ++turn)
    copy.Copy(to.data(), from.data(), from.size());
  EXPECT_EQ(to, from);
  EXPECT_FALSE(copy.streams());
}

}  // namespace
}  // namespace weft::adaptive_copy_test
