#include "shard/layout/widen.h"

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/comm/kernels/reference.h"

namespace weft::widen_test {
namespace {

class WidenTest : public testing::TestWithParam<weft_dtype_t> {};

TEST_P(WidenTest, IsExactForEveryNumber) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<uint16_t>(i);
  std::vector<float> widened(all.size());
  Widen(GetParam(), all.data(), all.size(), widened.data());
  for (size_t i = 0; i < all.size(); ++i) {
    const float expected = DecodeFloat(GetParam(), all[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(widened[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(widened[i]), std::bit_cast<uint32_t>(expected)) << i;
    }
  }
}

TEST_P(WidenTest, QuotientsAreRoundedOnceToNearestEven) {
  std::mt19937 random(5);
  for (const int64_t divisor : {1, 2, 3, 7, 24}) {
    std::vector<float> sums;
    for (int i = 0; i < 20000; ++i) {
      // Any bits, NaNs and infinities among them, and numbers of the sizes that gradients have.
      const float any = std::bit_cast<float>(static_cast<uint32_t>(random()));
      const float usual =
          std::ldexp(static_cast<float>(random() % 8191) - 4095, -int(random() % 30));
      sums.push_back(i % 2 == 0 ? any : usual);
    }
    std::vector<uint16_t> narrowed(sums.size());
    NarrowQuotients(GetParam(), sums.data(), sums.size(), divisor, narrowed.data());
    for (size_t i = 0; i < sums.size(); ++i) {
      const float quotient = sums[i] / static_cast<float>(divisor);
      EXPECT_EQ(narrowed[i], EncodeFloat(GetParam(), quotient)) << sums[i] << " / " << divisor;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, WidenTest, testing::Values(WEFT_BFLOAT16, WEFT_FLOAT16));

}  // namespace
}  // namespace weft::widen_test
