#include "trainer/ops.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/trainer/finite_difference.h"
#include "tests/trainer/isas.h"
#include "trainer/random.h"

namespace weft::trainer::ops_test {
namespace {

constexpr NumberType kDouble = NumberType::kFloat64;

// Every test runs on every instruction set of this machine.
class OpsTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!IsaSupported(GetParam())) GTEST_SKIP() << "this CPU lacks the instructions";
  }

  const Ops<double>& ops() const { return OpsFor<double>(GetParam()); }

  const Ops<float>& float_ops() const { return OpsFor<float>(GetParam()); }
};

TEST_P(OpsTest, ExpIsAccurateInFloatAndDouble) {
  std::vector<float> x32, y32;
  std::vector<double> x64, y64;
  for (int i = 0; i <= 11'678; i++) {
    const double x = -80 + 0.0137 * i;
    x32.push_back(float(x));
    x64.push_back(x);
  }
  y32.resize(x32.size());
  y64.resize(x64.size());
  float_ops().exp(x32.data(), y32.data(), x32.size());
  ops().exp(x64.data(), y64.data(), x64.size());
  for (size_t i = 0; i < x32.size(); i++) {
    const double expected32 = std::exp(double(x32[i]));
    EXPECT_NEAR(y32[i] / expected32, 1, 3e-7) << x32[i];
    EXPECT_NEAR(y64[i] / std::exp(x64[i]), 1, 4e-15) << x64[i];
  }
}

TEST_P(OpsTest, ExpClampsInsteadOfOverflowing) {
  const float x[3] = {-1e30f, 0, 1e30f};
  float y[3];
  float_ops().exp(x, y, 3);
  EXPECT_GE(y[0], 0);
  EXPECT_LT(y[0], 1e-36f);
  EXPECT_EQ(y[1], 1);
  EXPECT_TRUE(std::isfinite(y[2]));
}

TEST_P(OpsTest, EmbeddingGradient) {
  constexpr size_t kBatch = 2, kSeq = 3, kWidth = 5, kVocabulary = 4;
  const Token tokens[kBatch * kSeq] = {0, 3, 3, 1, 0, 3};
  auto wte = RandomValues(kVocabulary * kWidth, 1);
  auto wpe = RandomValues(kSeq * kWidth, 2);
  const auto weights = RandomValues(kBatch * kSeq * kWidth, 3);
  std::vector<double> out(weights.size()), dwte(wte.size()), dwpe(wpe.size());
  const auto f = [&] {
    ops().embed(tokens, wte.data(), wpe.data(), out.data(), kBatch, kSeq, kWidth);
    return Dot(out, weights);
  };
  ops().embed_backward(tokens, weights.data(), dwte.data(), dwpe.data(), kBatch, kSeq, kWidth);
  ExpectGradient("wte", wte.data(), dwte.data(), wte.size(), f);
  ExpectGradient("wpe", wpe.data(), dwpe.data(), wpe.size(), f);
}

TEST_P(OpsTest, LayerNormGradientAtWidthsAroundTheVectorSize) {
  for (const size_t width : {1, 2, 7, 8, 9, 16, 21}) {
    constexpr size_t kRows = 3;
    auto x = RandomValues(kRows * width, 1);
    auto gamma = RandomValues(width, 2), beta = RandomValues(width, 3);
    const auto weights = RandomValues(kRows * width, 4);
    std::vector<double> out(x.size()), mean(kRows), rstd(kRows);
    const auto f = [&] {
      ops().layer_norm(x.data(), gamma.data(), beta.data(), out.data(), mean.data(), rstd.data(),
                       kRows, width);
      return Dot(out, weights);
    };
    f();
    std::vector<double> dx(x.size()), dgamma(width), dbeta(width);
    ops().layer_norm_backward(weights.data(), x.data(), gamma.data(), mean.data(), rstd.data(),
                              dx.data(), dgamma.data(), dbeta.data(), kRows, width);
    if (width > 1) ExpectGradient("x", x.data(), dx.data(), x.size(), f);
    ExpectGradient("gamma", gamma.data(), dgamma.data(), width, f);
    ExpectGradient("beta", beta.data(), dbeta.data(), width, f);
  }
}

TEST_P(OpsTest, LayerNormRowsHaveMeanZeroAndVarianceOne) {
  constexpr size_t kWidth = 37;
  const auto x = RandomValues(kWidth, 5);
  const std::vector<double> one(kWidth, 1), zero(kWidth, 0);
  std::vector<double> out(kWidth);
  double mean, rstd, sum = 0, squares = 0;
  ops().layer_norm(x.data(), one.data(), zero.data(), out.data(), &mean, &rstd, 1, kWidth);
  for (const double y : out)
    sum += y, squares += y * y;
  EXPECT_NEAR(sum / kWidth, 0, 1e-12);
  EXPECT_NEAR(squares / kWidth, 1, 1e-4);
}

// The definition, one query at a time.
std::vector<double> PlainAttention(const std::vector<double>& qkv, const AttentionShape& s) {
  const size_t width = s.heads * s.head_dim;
  std::vector<double> out(s.batch * s.seq * width);
  const auto at = [&](size_t b, size_t t, size_t which, size_t h, size_t d) {
    return qkv[(((b * s.seq + t) * s.heads + h) * 3 + which) * s.head_dim + d];
  };
  for (size_t b = 0; b < s.batch; b++) {
    for (size_t h = 0; h < s.heads; h++) {
      for (size_t t = 0; t < s.seq; t++) {
        std::vector<double> p(t + 1);
        double sum = 0;
        for (size_t u = 0; u <= t; u++) {
          double score = 0;
          for (size_t d = 0; d < s.head_dim; d++)
            score += at(b, t, 0, h, d) * at(b, u, 1, h, d);
          sum += p[u] = std::exp(score / std::sqrt(double(s.head_dim)));
        }
        for (size_t d = 0; d < s.head_dim; d++) {
          double value = 0;
          for (size_t u = 0; u <= t; u++)
            value += p[u] / sum * at(b, u, 2, h, d);
          out[(b * s.seq + t) * width + h * s.head_dim + d] = value;
        }
      }
    }
  }
  return out;
}

TEST_P(OpsTest, AttentionEqualsItsDefinition) {
  for (const size_t seq : {1, 2, 31, 32, 33, 70}) {
    for (const size_t dim : {1, 4, 9, 16}) {
      const AttentionShape shape{2, seq, 3, dim};
      const auto qkv = RandomValues(2 * seq * 3 * 3 * dim, seq + dim);
      std::vector<double> out(2 * seq * 3 * dim), lse(seq * 2 * 3);
      ops().attention(qkv.data(), out.data(), lse.data(), shape, {});
      const auto expected = PlainAttention(qkv, shape);
      for (size_t i = 0; i < out.size(); i++)
        ASSERT_NEAR(out[i], expected[i], 1e-12) << i;
    }
  }
}

TEST_P(OpsTest, AttentionGradient) {
  for (const uint32_t threshold : {0, 20'000}) {
    const DropoutMask mask = {.key = 5, .first_row = 70, .threshold = threshold};
    for (const size_t seq : {1, 5, 35}) {
      const AttentionShape shape{2, seq, 2, 3};
      auto qkv = RandomValues(2 * seq * 3 * 6, seq);
      const auto weights = RandomValues(2 * seq * 6, seq + 1);
      std::vector<double> out(weights.size()), lse(seq * 2 * 2), dqkv(qkv.size(), 7);
      const auto f = [&] {
        ops().attention(qkv.data(), out.data(), lse.data(), shape, mask);
        return Dot(out, weights);
      };
      f();
      ops().attention_backward(qkv.data(), out.data(), lse.data(), weights.data(), dqkv.data(),
                               shape, mask);
      ExpectGradient("qkv", qkv.data(), dqkv.data(), qkv.size(), f, 150);
    }
  }
}

// As dropout.h defines it.
bool IsDropped(const DropoutMask& mask, uint64_t row, uint64_t column) {
  const uint64_t bits = Mix(Mix(mask.key ^ Mix(mask.first_row + row)) + column / 4);
  return ((bits >> (16 * (column % 4))) & 0xffff) < mask.threshold;
}

TEST_P(OpsTest, DropoutIsThatOfItsDefinitionAndScalesTheRest) {
  const DropoutMask mask = {.key = 77, .first_row = uint64_t{1} << 40, .threshold = 6'554};
  for (const size_t columns : {1, 3, 63, 64, 65, 130}) {
    constexpr size_t kRows = 300;
    const std::vector<double> x(kRows * columns, 1);
    std::vector<double> out(x.size()), again = x;
    ops().dropout(x.data(), out.data(), kRows, columns, mask);
    ops().dropout(again.data(), again.data(), kRows, columns, mask);
    EXPECT_EQ(out, again);
    size_t dropped = 0;
    for (size_t i = 0; i < out.size(); i++) {
      const bool drop = IsDropped(mask, i / columns, i % columns);
      ASSERT_EQ(out[i], drop ? 0 : 65536.0 / (65536 - 6'554)) << i;
      dropped += drop ? 1 : 0;
    }
    if (columns > 60) {
      EXPECT_NEAR(double(dropped) / double(out.size()), 0.1, 0.01);
    }
  }
}

// The same rows of probabilities whichever sequences a call has.
TEST_P(OpsTest, DropoutOfAttentionGoesByTheGlobalSequence) {
  constexpr size_t kSeq = 33, kHeads = 3, kDim = 4, kWidth = kHeads * kDim;
  const AttentionShape both{2, kSeq, kHeads, kDim}, one{1, kSeq, kHeads, kDim};
  const auto qkv = RandomValues(2 * kSeq * 3 * kWidth, 1);
  std::vector<double> out(2 * kSeq * kWidth), lse(2 * kHeads * kSeq), second(kSeq * kWidth);
  DropoutMask mask = {.key = 3, .first_row = 10 * kHeads * kSeq, .threshold = 30'000};
  ops().attention(qkv.data(), out.data(), lse.data(), both, mask);
  mask.first_row += kHeads * kSeq;
  ops().attention(qkv.data() + kSeq * 3 * kWidth, second.data(), lse.data(), one, mask);
  EXPECT_TRUE(std::equal(second.begin(), second.end(), out.begin() + kSeq * kWidth));
}

TEST_P(OpsTest, GeluIsItsTanhFormAndHasItsGradient) {
  auto x = RandomValues(29, 1);
  for (double& v : x)
    v *= 5;
  const auto weights = RandomValues(x.size(), 2);
  std::vector<double> out(x.size()), dx(x.size());
  const auto f = [&] {
    ops().gelu(x.data(), out.data(), 1, x.size());
    return Dot(out, weights);
  };
  f();
  for (size_t i = 0; i < x.size(); i++) {
    const double u = std::sqrt(2 / M_PI) * (x[i] + 0.044715 * x[i] * x[i] * x[i]);
    EXPECT_NEAR(out[i], 0.5 * x[i] * (1 + std::tanh(u)), 1e-12);
  }
  std::vector<double> sums(x.size(), 1);
  ops().gelu_backward(x.data(), weights.data(), dx.data(), sums.data(), 1, x.size());
  ExpectGradient("x", x.data(), dx.data(), x.size(), f);
  for (size_t i = 0; i < x.size(); i++)
    EXPECT_NEAR(sums[i], 1 + dx[i], 1e-12);
}

TEST_P(OpsTest, ResidualAndBiasGradientsAreSums) {
  auto a = RandomValues(23, 1), b = RandomValues(23, 2);
  std::vector<double> out(23);
  ops().add(a.data(), b.data(), out.data(), 23);
  for (size_t i = 0; i < 23; i++)
    EXPECT_EQ(out[i], a[i] + b[i]);

  constexpr size_t kRows = 4, kColumns = 11;
  const auto dy = RandomValues(kRows * kColumns, 3);
  auto bias = RandomValues(kColumns, 4);
  std::vector<double> dbias(kColumns, 1);  // the operation adds
  ops().column_sum(dy.data(), dbias.data(), kRows, kColumns);
  for (double& v : dbias)
    v -= 1;
  const auto f = [&] {
    double sum = 0;
    for (size_t i = 0; i < dy.size(); i++)
      sum += dy[i] * bias[i % kColumns];
    return sum;
  };
  ExpectGradient("bias", bias.data(), dbias.data(), kColumns, f);
}

TEST_P(OpsTest, CrossEntropyGradient) {
  for (const size_t columns : {1, 5, 16, 19}) {
    constexpr size_t kRows = 3;
    auto logits = RandomValues(kRows * columns, 1);
    const Token targets[kRows] = {0, Token(columns - 1), Token(columns / 2)};
    constexpr double kScale = 0.25;
    const auto f = [&] {
      auto copy = logits;
      return kScale *
             ops().cross_entropy(copy.data(), targets, 0, kDouble, kRows, columns, columns);
    };
    auto gradient = logits;
    const double loss =
        ops().cross_entropy(gradient.data(), targets, kScale, kDouble, kRows, columns, columns);
    EXPECT_DOUBLE_EQ(kScale * loss, f());
    ExpectGradient("logits", logits.data(), gradient.data(), logits.size(), f);
  }
}

TEST_P(OpsTest, CrossEntropySurvivesLargeLogits) {
  float logits[4] = {1000, 0, -1000, 999};
  const Token target = 3;
  const double loss = float_ops().cross_entropy(logits, &target, 1, NumberType::kFloat32, 1, 4, 4);
  EXPECT_NEAR(loss, std::log(1 + std::exp(1.0)), 1e-5);
  EXPECT_NEAR(logits[0] + logits[1] + logits[2] + logits[3], 0, 1e-6);
}

TEST_P(OpsTest, SmallMatmulHandlesEveryTail) {
  for (const size_t m : {1, 3, 8, 13}) {
    for (const size_t n : {1, 7, 16, 35}) {
      constexpr size_t kInner = 5;
      const auto a = RandomValues(m * kInner, m), b = RandomValues(kInner * n, n);
      std::vector<double> c(m * n, 2);
      ops().small_matmul(m, n, kInner, a.data(), 1, m, b.data(), n, c.data(), n, true);
      for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
          double sum = 2;
          for (size_t p = 0; p < kInner; p++)
            sum += a[p * m + i] * b[p * n + j];
          ASSERT_NEAR(c[i * n + j], sum, 1e-13) << m << " " << n;
        }
      }
    }
  }
}

TEST_P(OpsTest, CrossEntropyLeavesOutWhatStandsBehindTheColumns) {
  constexpr size_t kRows = 2, kColumns = 19, kStride = 24;
  const auto logits = RandomValues(kRows * kColumns, 1);
  const Token targets[kRows] = {18, 3};
  std::vector<double> dense = logits, apart(kRows * kStride, 1e6);
  for (size_t row = 0; row < kRows; row++)
    std::copy_n(logits.begin() + long(row * kColumns), kColumns,
                apart.begin() + long(row * kStride));
  EXPECT_EQ(ops().cross_entropy(apart.data(), targets, 0.5, kDouble, kRows, kColumns, kStride),
            ops().cross_entropy(dense.data(), targets, 0.5, kDouble, kRows, kColumns, kColumns));
  for (size_t i = 0; i < apart.size(); i++) {
    const size_t row = i / kStride, column = i % kStride;
    EXPECT_EQ(apart[i], column < kColumns ? dense[row * kColumns + column] : 0) << i;
  }
}

// The value of a float16 as its definition has it.
double ValueOfFp16(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST_P(OpsTest, EveryFp16IsWidenedExactlyAndRoundsToItself) {
  std::vector<uint16_t> all(65536), back(65536);
  for (size_t i = 0; i < all.size(); i++)
    all[i] = uint16_t(i);
  std::vector<float> wide(all.size());
  float_ops().widen({all.data(), NumberType::kFp16}, wide.data(), all.size());
  float_ops().to_fp16(wide.data(), back.data(), all.size());
  for (size_t i = 0; i < all.size(); i++) {
    const double expected = ValueOfFp16(all[i]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(ValueOfFp16(back[i]))) << i;
      continue;
    }
    ASSERT_EQ(double(wide[i]), expected) << i;
    ASSERT_EQ(std::signbit(wide[i]), (i & 0x8000) != 0) << i;
    ASSERT_EQ(back[i], all[i]) << i;
  }
}

// Halfway between two float16, and a little to both sides.
TEST_P(OpsTest, Fp16RoundsToNearestEven) {
  for (uint32_t i = 0; i < 0x7c00; i++) {
    const double low = ValueOfFp16(uint16_t(i));
    const double high = i == 0x7bff ? 65536 : ValueOfFp16(uint16_t(i + 1));
    const auto middle = float((low + high) / 2);  // exact: it has one bit more
    const float x[] = {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)};
    uint16_t y[3];
    float_ops().to_fp16(x, y, 3);
    ASSERT_EQ(y[0], i) << i;
    ASSERT_EQ(y[1], i % 2 == 0 ? i : i + 1) << i;
    ASSERT_EQ(y[2], i + 1) << i;
  }
  const float large[] = {65519.99f, 65520, 1e38f, -1e38f};
  uint16_t y[4];
  float_ops().to_fp16(large, y, 4);
  EXPECT_EQ(y[0], 0x7bff);
  EXPECT_EQ(y[1], 0x7c00);
  EXPECT_EQ(y[2], 0x7c00);
  EXPECT_EQ(y[3], 0xfc00);
}

TEST_P(OpsTest, EmbedsTablesOf16BitsAsTheirValues) {
  constexpr size_t kBatch = 2, kSeq = 3, kWidth = 21, kVocabulary = 70'000;
  const Token tokens[kBatch * kSeq] = {0, 69'999, 300, 65'536, 0, 257};
  std::vector<uint16_t> wte(kVocabulary * kWidth), wpe(kSeq * kWidth);
  for (size_t i = 0; i < wte.size(); i++)
    wte[i] = uint16_t(0x3c00 + i % 512);
  for (size_t i = 0; i < wpe.size(); i++)
    wpe[i] = uint16_t(0x3000 + i % 64);
  for (const NumberType type : {NumberType::kBf16, NumberType::kFp16}) {
    std::vector<float> wide(wte.size()), wide_positions(wpe.size());
    float_ops().widen({wte.data(), type}, wide.data(), wide.size());
    float_ops().widen({wpe.data(), type}, wide_positions.data(), wide_positions.size());
    std::vector<float> out(kBatch * kSeq * kWidth), expected(out.size());
    float_ops().embed(tokens, {wte.data(), type}, {wpe.data(), type}, out.data(), kBatch, kSeq,
                      kWidth);
    float_ops().embed(tokens, wide.data(), wide_positions.data(), expected.data(), kBatch, kSeq,
                      kWidth);
    EXPECT_EQ(out, expected);
    EXPECT_EQ(out[kWidth + 20], wide[size_t{69'999} * kWidth + 20] + wide_positions[kWidth + 20]);
  }
}

TEST_P(OpsTest, Bf16RoundsToNearestEvenAndKeepsNaN) {
  const uint32_t bits[] = {0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001, 0x7f800000,
                           0x7f800001, 0xff7fffff, 0x00000001, 0xffc00000};
  const uint16_t expected[] = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x7f80,
                               0x7fc0, 0xff80, 0x0000, 0xffc0};
  constexpr size_t kCount = std::size(bits);
  float x[kCount];
  uint16_t y[kCount];
  std::memcpy(x, bits, sizeof x);
  float_ops().to_bf16(x, y, kCount);
  for (size_t i = 0; i < kCount; i++)
    EXPECT_EQ(y[i], expected[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(Isas, OpsTest, testing::ValuesIn(kIsas), IsaName);

}  // namespace
}  // namespace weft::trainer::ops_test
