#include "trainer/matmul.h"

#include <algorithm>
#include <cstddef>

#include "tests/trainer/finite_difference.h"

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
      matmul->Forward(x.data(), NumbersOf(w.data()), bias.data(), y.data(), shape, transposed);
      return Dot(y, weights);
    };
    matmul->BackwardInput(weights.data(), NumbersOf(w.data()), dx.data(), shape, transposed);
    matmul->BackwardWeight(x.data(), weights.data(), dw.data(), shape, transposed);
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
  double worst = 0;
  const auto compare = [&](size_t count, const auto& run) {
    std::vector<float> a(count, 0.5f), b(count, 0.5f);
    run(*fast, a.data());
    run(*plain, b.data());
    for (size_t i = 0; i < count; i++)
      worst = std::max(worst, std::abs(double(a[i]) - b[i]));
  };
  compare(s.m * s.n, [&](Matmul<float>& m, float* y) {
    m.Forward(x.data(), NumbersOf(w.data()), bias.data(), y, s, transposed);
  });
  compare(s.m * s.n, [&](Matmul<float>& m, float* y) {
    m.Forward(x.data(), NumbersOf(w.data()), nullptr, y, s, transposed);
  });
  compare(s.m * s.k, [&](Matmul<float>& m, float* dx) {
    m.BackwardInput(dy.data(), NumbersOf(w.data()), dx, s, transposed);
  });
  compare(s.k * s.n, [&](Matmul<float>& m, float* dw) {
    m.BackwardWeight(x.data(), dy.data(), dw, s, transposed);
    m.BackwardWeight(x.data(), dy.data(), dw, s, transposed);  // adds
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

TEST(Matmul, SameBitsEveryTime) {
  const MatmulShape s{100, 60, 70};
  const auto x = ToFloat(RandomValues(s.m * s.k, 1)), w = ToFloat(RandomValues(s.k * s.n, 2));
  std::vector<float> first(s.m * s.n), again(s.m * s.n);
  MakeMatmul<float>(Precision::kFp32)
      ->Forward(x.data(), NumbersOf(w.data()), nullptr, first.data(), s);
  MakeMatmul<float>(Precision::kFp32)
      ->Forward(x.data(), NumbersOf(w.data()), nullptr, again.data(), s);
  EXPECT_EQ(first, again);
}

}  // namespace
}  // namespace weft::trainer::matmul_test
