// Compares a gradient with central differences of a function, in double.
#ifndef WEFT_TESTS_TRAINER_FINITE_DIFFERENCE_H_
#define WEFT_TESTS_TRAINER_FINITE_DIFFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/random.h"

namespace weft::trainer {

// `count` values in [-1, 1) that depend on `seed` only.
inline std::vector<double> RandomValues(size_t count, uint64_t seed) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; i++)
    values[i] = 2 * UniformAt(Mix(seed), i) - 1;
  return values;
}

inline double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++)
    sum += a[i] * b[i];
  return sum;
}

// Checks gradient[i] = df / dx[i] for every i, or for about `samples` of them.
template <typename Function>
void ExpectGradient(const std::string& what, double* x, const double* gradient, size_t count,
                    const Function& f, size_t samples = SIZE_MAX) {
  constexpr double kStep = 1e-5;
  const size_t stride = std::max<size_t>(1, count / samples);
  for (size_t i = 0; i < count; i += stride) {
    const double saved = x[i];
    x[i] = saved + kStep;
    const double above = f();
    x[i] = saved - kStep;
    const double below = f();
    x[i] = saved;
    const double expected = (above - below) / (2 * kStep);
    EXPECT_NEAR(gradient[i], expected, 1e-7 + 1e-6 * std::abs(expected)) << what << " " << i;
  }
}

}  // namespace weft::trainer

#endif  // WEFT_TESTS_TRAINER_FINITE_DIFFERENCE_H_
