// The norms of LAMB over parts of a parameter: what ranks add up must not depend on who had what.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "shard/optimizer/sum_squares.h"
#include "tests/comm/kernels/reference.h"
#include "tests/shard/optimizer_reference.h"

namespace weft {
namespace {

constexpr LambOptions kOptions = {.learning_rate = 1e-2, .weight_decay = 0.05};

struct Parameter {
  explicit Parameter(size_t count)
      : weights(count), first_moment(count), second_moment(count), gradients(count) {
    std::mt19937 random(TestSeed());
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < count; ++i) {
      weights[i] = normal(random);
      first_moment[i] = normal(random);
      second_moment[i] = std::abs(normal(random));
      gradients[i] = normal(random);
    }
  }

  OptimizerArrays Part(size_t begin, size_t end) {
    return {.weights = weights.data() + begin,
            .first_moment = first_moment.data() + begin,
            .second_moment = second_moment.data() + begin,
            .gradients = gradients.data() + begin,
            .count = end - begin};
  }

  std::vector<float> weights;
  std::vector<float> first_moment;
  std::vector<float> second_moment;
  std::vector<float> gradients;
};

TEST(LambSums, AreTheSameForEveryCutAndInstructionSet) {
  constexpr size_t kCount = 128 * 20 + 50;
  const LambStep step = MakeLambStep(kOptions, 4, 0.5);
  for (const uint64_t first : {uint64_t{0}, uint64_t{128 * 7 + 16}}) {
    Parameter whole(kCount);
    LambSums expected;
    UpdateLambMoments(Isa::kScalar, step, whole.Part(0, kCount), first, expected);
    for (const Isa isa : AvailableIsas()) {
      for (uint64_t at = first; at <= first + kCount; at += kSquareBlock) {
        const size_t cut = std::max(at / kSquareBlock * kSquareBlock, first) - first;
        Parameter parts(kCount);
        LambSums sums;
        UpdateLambMoments(isa, step, parts.Part(cut, kCount), first + cut, sums);
        UpdateLambMoments(isa, step, parts.Part(0, cut), first, sums);
        EXPECT_EQ(sums.weights.words(), expected.weights.words()) << cut;
        EXPECT_EQ(sums.updates.words(), expected.updates.words()) << cut;
        EXPECT_EQ(parts.first_moment, whole.first_moment);
        EXPECT_EQ(parts.second_moment, whole.second_moment);
      }
    }
  }
}

TEST(LambSums, OfWeightsAreWhatAddSquaresGives) {
  Parameter parameter(1000);
  LambSums sums;
  UpdateLambMoments(BestIsa(), MakeLambStep(kOptions, 1, 1), parameter.Part(0, 1000), 48, sums);
  ExactSum weights;
  AddSquares(BestIsa(), WEFT_FLOAT32, parameter.weights.data(), 1000, 48, weights);
  EXPECT_EQ(sums.weights.words(), weights.words());
}

// The norm of the update is that of what the second phase applies.
TEST(LambSums, OfUpdatesAreThoseOfWhatIsApplied) {
  Parameter parameter(1000);
  const std::vector<float> before = parameter.weights;
  const LambStep step = MakeLambStep(kOptions, 2, 1);
  LambSums sums;
  UpdateLambMoments(BestIsa(), step, parameter.Part(0, 1000), 0, sums);
  ApplyLamb(BestIsa(), step, 1000,
            parameter.Part(0, 1000));  // large: differences keep their digits
  double squares = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double update = (double{before[i]} - parameter.weights[i]) / (1000 * step.step_size);
    squares += update * update;
  }
  EXPECT_NEAR(squares / sums.updates.Value(), 1, 1e-6);
}

// A gradient that is no number is seen in the sums, before weights are touched.
TEST(LambSums, ShowWhatIsNotFinite) {
  Parameter parameter(300);
  parameter.gradients[200] = NAN;
  LambSums sums;
  UpdateLambMoments(BestIsa(), MakeLambStep(kOptions, 2, 1), parameter.Part(0, 300), 0, sums);
  EXPECT_TRUE(std::isnan(sums.updates.Value()));
  EXPECT_TRUE(std::isfinite(sums.weights.Value()));
}

}  // namespace
}  // namespace weft
