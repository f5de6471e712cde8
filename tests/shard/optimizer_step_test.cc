#include "shard/optimizer/optimizer_step.h"

#include <cmath>

#include "gtest/gtest.h"

namespace weft::optimizer_step_test {
namespace {

double ValueOf(const FloatPair& pair) {
  return double{pair.high} + pair.low;
}

TEST(OptimizerStep, CorrectsTheBiasOfEveryStep) {
  const AdamWOptions options = {.learning_rate = 0.01, .weight_decay = 0.1};
  for (const int64_t step : {1, 2, 3, 10, 99, 1000, 12345, 1000000, 1000000000}) {
    const auto exponent = static_cast<long double>(step);
    const long double bias1 = 1 - std::pow(static_cast<long double>(options.beta1), exponent);
    const long double bias2 = 1 - std::pow(static_cast<long double>(options.beta2), exponent);
    const AdamWStep made = MakeAdamWStep(options, step, 0.5);
    // What the direction m / (root_factor sqrt(v) + epsilon) is multiplied by, divided by its parts.
    const double step_size = -made.step_size;
    EXPECT_NEAR(step_size / ValueOf(made.root_factor) / (0.01L / bias1 * std::sqrt(bias2)), 1,
                1e-13);
    EXPECT_NEAR(step_size / ValueOf(made.epsilon) / (0.01L / bias1 / 1e-8L), 1, 1e-13) << step;
    EXPECT_NEAR(made.decay * step_size / (0.01 * 0.1), 1, 1e-7);
    EXPECT_NEAR(ValueOf(made.mean_new), 0.5 * (1 - 0.9), 1e-15);
    EXPECT_NEAR(std::pow(ValueOf(made.root_new), 2), 0.25 * (1 - 0.999), 1e-15);
    const LambStep lamb = MakeLambStep({}, step, 0.5);
    EXPECT_NEAR(lamb.mean_factor * bias1, 1, 1e-13) << step;
    EXPECT_NEAR(lamb.root_factor * std::sqrt(bias2), 1, 1e-13) << step;
    EXPECT_EQ(lamb.gradient_factor, 0.5);
  }
}

// A warm-up begins with a rate of 0: moments move, weights do not, and nothing is divided by it.
TEST(OptimizerStep, TakesARateOfZero) {
  for (const double rate : {0.0, 1e-300}) {
    const AdamWStep made = MakeAdamWStep({.learning_rate = rate, .weight_decay = 0.1}, 1, 1);
    EXPECT_EQ(made.step_size, 0);
    EXPECT_EQ(made.decay, 0);
    EXPECT_TRUE(std::isfinite(made.root_factor.high));
    EXPECT_TRUE(std::isfinite(made.epsilon.high));
  }
}

TEST(OptimizerStep, UnscalesAndClipsAsTorchDoes) {
  EXPECT_EQ(GradientFactor(1024, 4096, 0), 1.0 / 1024);        // no clipping
  EXPECT_EQ(GradientFactor(1024, 1024 * 0.5, 1), 1.0 / 1024);  // below the bound
  EXPECT_DOUBLE_EQ(GradientFactor(1024, 1024 * 5, 2), 2 / (5 + 1e-6) / 1024);
  EXPECT_EQ(GradientFactor(1, 0, 1), 1);
}

TEST(OptimizerStep, DecaysEitherTheGradientOrTheWeight) {
  const SgdStep coupled = MakeSgdStep({.learning_rate = 0.5, .weight_decay = 0.25}, 1);
  EXPECT_EQ(coupled.coupled_decay, 0.25);
  EXPECT_EQ(coupled.decay, 1);
  const SgdStep decoupled =
      MakeSgdStep({.learning_rate = 0.5, .weight_decay = 0.25, .decoupled = true}, 1);
  EXPECT_EQ(decoupled.coupled_decay, 0);
  EXPECT_EQ(decoupled.decay, 0.875);
}

TEST(OptimizerStep, TrustsWhatHasNoNormAsItIs) {
  EXPECT_EQ(LambTrustRatio(0, 4), 1);
  EXPECT_EQ(LambTrustRatio(4, 0), 1);
  EXPECT_EQ(LambTrustRatio(16, 4), 2);
  const LarsStep step = MakeLarsStep({.weight_decay = 0.5, .coefficient = 0.125}, 0.25);
  EXPECT_EQ(LarsTrustRatio(step, 0, 4), 1);
  EXPECT_EQ(LarsTrustRatio(step, 4, 0), 1);
  EXPECT_EQ(LarsTrustRatio(step, 16, 64), 0.125 * 4 / (8 * 0.25 + 0.5 * 4));
}

}  // namespace
}  // namespace weft::optimizer_step_test
