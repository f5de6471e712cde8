#include "trainer/matmul.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "tests/trainer/finite_difference.h"
#include "trainer/ops.h"

namespace weft::trainer::matmul_test {
namespace {

std::vector<float> ToFloat(const std::vector<double>& x) {
  return {x.begin(), x.end()};
}

TEST(ReferenceMatmul, BackwardIsTheGradientOfForward) {
  const auto matmul = MakeMatmul<double>(Precision::kFp32);
  for (const bool transposed : {false, true}) {
    const MatmulShape shape{3, 4, 5};
    auto x = RandomValues(12, 1), w = RandomValues(20, 2), bias = RandomValues(5, 3);
    const auto weights = RandomValues(15, 4);
    std::vector<double> y(15), dx(12), dw(20, 0);
    const auto f = [&] {
      matmul->Forward(x.data(), w.data(), {bias.data()}, y.data(), shape, transposed);
      return Dot(y, weights);
    };
    matmul->BackwardInput(weights.data(), w.data(), dx.data(), shape, transposed);
    std::vector<double> more(12, 2);
    matmul->BackwardInput(weights.data(), w.data(), more.data(), shape, transposed, /*adds=*/true);
    for (size_t i = 0; i < more.size(); i++)
      EXPECT_NEAR(more[i], 2 + dx[i], 1e-13) << i;
    matmul->BackwardWeight(x.data(), weights.data(), {dw.data()}, shape, transposed);
    ExpectGradient("x", x.data(), dx.data(), x.size(), f);
    ExpectGradient("w", w.data(), dw.data(), w.size(), f);
  }
}

// Largest difference between what MakeMatmul gives and the plain loops, over all three products.
double Difference(Precision precision, MatmulShape s, bool transposed) {
  const auto fast = MakeMatmul<float>(precision);
  const auto plain = MakeReferenceMatmul<float>(precision);
  const auto x = ToFloat(RandomValues(s.m * s.k, 1)), w = ToFloat(RandomValues(s.k * s.n, 2));
  const auto bias = ToFloat(RandomValues(s.n, 3)), dy = ToFloat(RandomValues(s.m * s.n, 4));
  const auto addend = ToFloat(RandomValues(s.m * s.n, 5));
  double worst = 0;
  const auto compare = [&](size_t count, const auto& run) {
    std::vector<float> a(count, 0.5f), b(count, 0.5f);
    run(*fast, a.data());
    run(*plain, b.data());
    for (size_t i = 0; i < count; i++)
      worst = std::max(worst, std::abs(double(a[i]) - b[i]));
  };
  compare(s.m * s.n, [&](Matmul<float>& m, float* y) {
    m.Forward(x.data(), w.data(), {bias.data()}, y, s, transposed);
  });
  compare(s.m * s.n, [&](Matmul<float>& m, float* y) {
    m.Forward(x.data(), w.data(), {nullptr, addend.data()}, y, s, transposed);
  });
  compare(s.m * s.k, [&](Matmul<float>& m, float* dx) {
    m.BackwardInput(dy.data(), w.data(), dx, s, transposed);
  });
  compare(s.m * s.k, [&](Matmul<float>& m, float* dx) {
    m.BackwardInput(dy.data(), w.data(), dx, s, transposed, /*adds=*/true);
  });
  compare(s.k * s.n, [&](Matmul<float>& m, float* dw) {
    m.BackwardWeight(x.data(), dy.data(), {dw}, s, transposed);
    m.BackwardWeight(x.data(), dy.data(), {dw}, s, transposed);  // adds
  });
  compare(s.k * s.n, [&](Matmul<float>& m, float* dw) {
    m.BackwardWeight(x.data(), dy.data(), {dw, /*unset=*/true}, s, transposed);
  });
  return worst;
}

// Rounding grows with the length of the sums.
double Bound(MatmulShape s) {
  return std::max(2e-5, 1e-7 * double(std::max({s.m, s.k, s.n})));
}

TEST(Matmul, AgreesWithThePlainLoops) {
  for (const MatmulShape& s :
       {MatmulShape{1, 1, 1}, {33, 17, 9}, {64, 48, 32}, {2, 96, 256}, {9, 20, 512}}) {
    EXPECT_LT(Difference(Precision::kFp32, s, false), Bound(s)) << s.m << " " << s.k << " " << s.n;
    EXPECT_LT(Difference(Precision::kFp32, s, true), Bound(s)) << s.m << " " << s.k << " " << s.n;
  }
}

TEST(Matmul, Bf16RoundsInputsOnly) {
  if (!PrecisionSupported(Precision::kBf16)) GTEST_SKIP() << "oneDNN has no bf16 on this CPU";
  for (const MatmulShape& s : {MatmulShape{33, 17, 9}, {64, 48, 32}, {9, 20, 512}}) {
    EXPECT_LT(Difference(Precision::kBf16, s, false), Bound(s)) << s.m << " " << s.k << " " << s.n;
    EXPECT_LT(Difference(Precision::kBf16, s, true), Bound(s)) << s.m << " " << s.k << " " << s.n;
  }
}

// Rows of an operand of bfloat16, three numbers longer than its columns.
std::vector<uint16_t> Apart(const std::vector<float>& x, size_t rows, size_t columns) {
  std::vector<uint16_t> apart(rows * (columns + 3), 0x7fc1);  // not numbers
  for (size_t i = 0; i < rows; i++)
    GetOps<float>().to_bf16(&x[i * columns], &apart[i * (columns + 3)], columns);
  return apart;
}

void ExpectSameNumbers(const std::vector<float>& expected, const std::vector<uint16_t>& apart,
                       size_t rows, size_t columns) {
  const Numbers view(apart.data(), NumberType::kBf16, columns + 3);
  for (size_t i = 0; i < rows; i++) {
    std::vector<float> row(columns);
    GetOps<float>().widen(view.Rows(i, columns), row.data(), columns);
    for (size_t j = 0; j < columns; j++)
      ASSERT_NEAR(row[j], expected[i * columns + j], std::abs(row[j]) / 256 + 1e-6)
          << i << " " << j;
    EXPECT_EQ(apart[i * (columns + 3) + columns], 0x7fc1);
  }
}

// A training step's bits do not depend on which gradients the library leaves unset.
TEST(Matmul, AnUnsetGradientBecomesWhatIsAddedToZeros) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    if (!PrecisionSupported(precision)) continue;
    for (const MatmulShape& s : {MatmulShape{33, 17, 9}, {2048, 384, 1152}, {64, 48, 32}}) {
      const auto x = ToFloat(RandomValues(s.m * s.k, 1)), dy = ToFloat(RandomValues(s.m * s.n, 2));
      std::vector<float> unset(s.k * s.n, kNan), zeros(s.k * s.n);
      const auto matmul = MakeMatmul<float>(precision);
      matmul->BackwardWeight(x.data(), dy.data(), {unset.data(), true}, s, true);
      matmul->BackwardWeight(x.data(), dy.data(), {zeros.data()}, s, true);
      EXPECT_EQ(unset, zeros) << NameOf(precision) << " " << s.m << " " << s.k << " " << s.n;
    }
  }
}

// Inputs that are bfloat16 already, in rows that are apart, and results that become it.
TEST(Matmul, ReadsAndWritesBf16WhereItLies) {
  if (!PrecisionSupported(Precision::kBf16)) GTEST_SKIP() << "oneDNN has no bf16 on this CPU";
  constexpr NumberType kBf16 = NumberType::kBf16;
  for (const MatmulShape& s : {MatmulShape{33, 17, 9}, {64, 48, 32}, {9, 20, 512}}) {
    for (const bool transposed : {false, true}) {
      const auto x = ToFloat(RandomValues(s.m * s.k, 1)), w = ToFloat(RandomValues(s.k * s.n, 2));
      const auto bias = ToFloat(RandomValues(s.n, 3)), dy = ToFloat(RandomValues(s.m * s.n, 4));
      const auto xs = Apart(x, s.m, s.k), dys = Apart(dy, s.m, s.n);
      const Numbers x_view(xs.data(), kBf16, s.k + 3), dy_view(dys.data(), kBf16, s.n + 3);
      for (const auto& matmul :
           {MakeMatmul<float>(Precision::kBf16), MakeReferenceMatmul<float>(Precision::kBf16)}) {
        EXPECT_EQ(matmul->input_type(), kBf16);
        std::vector<float> y(s.m * s.n), dx(s.m * s.k), dw(s.k * s.n), dw_apart = dw;
        matmul->Forward(x.data(), w.data(), {bias.data()}, y.data(), s, transposed);
        matmul->BackwardInput(dy.data(), w.data(), dx.data(), s, transposed);
        matmul->BackwardWeight(x.data(), dy.data(), {dw.data()}, s, transposed);
        auto y_apart = Apart(y, s.m, s.n), dx_apart = Apart(dx, s.m, s.k);
        matmul->Forward(x_view, w.data(), {bias.data()}, {y_apart.data(), kBf16, s.n + 3}, s,
                        transposed);
        ExpectSameNumbers(y, y_apart, s.m, s.n);
        matmul->BackwardInput(dy_view, w.data(), {dx_apart.data(), kBf16, s.k + 3}, s, transposed);
        ExpectSameNumbers(dx, dx_apart, s.m, s.k);
        matmul->BackwardWeight(x_view, dy_view, {dw_apart.data()}, s, transposed);
        for (size_t i = 0; i < dw.size(); i++)
          ASSERT_NEAR(dw_apart[i], dw[i], Bound(s)) << i;
      }
    }
  }
}

TEST(Matmul, SameBitsEveryTime) {
  const MatmulShape s{100, 60, 70};
  const auto x = ToFloat(RandomValues(s.m * s.k, 1)), w = ToFloat(RandomValues(s.k * s.n, 2));
  std::vector<float> first(s.m * s.n), again(s.m * s.n);
  MakeMatmul<float>(Precision::kFp32)->Forward(x.data(), w.data(), {}, first.data(), s);
  MakeMatmul<float>(Precision::kFp32)->Forward(x.data(), w.data(), {}, again.data(), s);
  EXPECT_EQ(first, again);
}

}  // namespace
}  // namespace weft::trainer::matmul_test
