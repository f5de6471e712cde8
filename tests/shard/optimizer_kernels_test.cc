#include "shard/optimizer/optimizer_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/comm/kernels/reference.h"
#include "tests/shard/optimizer_reference.h"

namespace weft {
namespace {

constexpr weft_dtype_t kTypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};
constexpr weft_dtype_t kGradientTypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16, WEFT_FLOAT64};
constexpr size_t kGuard = 16;  // elements behind the last that nobody may touch

// A gradient's bits; float64 with more digits than float32 has.
uint64_t EncodeGradient(weft_dtype_t dtype, double value) {
  if (dtype == WEFT_FLOAT64) return std::bit_cast<uint64_t>(value);
  return EncodeFloat(dtype, static_cast<float>(value));
}

double DecodeGradient(weft_dtype_t dtype, uint64_t bits) {
  return dtype == WEFT_FLOAT64 ? std::bit_cast<double>(bits) : DecodeFloat(dtype, bits);
}

// Arrays of a parameter that start `offset` elements into their memory.
struct State {
  State(size_t count, size_t offset, weft_dtype_t gradients, weft_dtype_t casts)
      : count(count),
        offset(offset),
        gradient_dtype(gradients),
        cast_dtype(casts),
        weights(offset + count + kGuard, 7),
        first_moment(weights),
        second_moment(weights),
        gradient(weights.size() * DtypeSize(gradients), 7),
        cast(weights.size() * DtypeSize(casts), 7) {}

  OptimizerArrays arrays() {
    return {.weights = weights.data() + offset,
            .first_moment = first_moment.data() + offset,
            .second_moment = second_moment.data() + offset,
            .gradients = gradient.data() + offset * DtypeSize(gradient_dtype),
            .gradient_dtype = gradient_dtype,
            .cast = cast.data() + offset * DtypeSize(cast_dtype),
            .cast_dtype = cast_dtype,
            .count = count};
  }

  void SetGradients(const Elements& elements) {
    const std::vector<char> bytes = PackElements(gradient_dtype, elements);
    std::copy(bytes.begin(), bytes.end(),
              gradient.begin() + static_cast<ptrdiff_t>(offset * DtypeSize(gradient_dtype)));
  }

  size_t count;
  size_t offset;
  weft_dtype_t gradient_dtype;
  weft_dtype_t cast_dtype;
  std::vector<float> weights;
  std::vector<float> first_moment;
  std::vector<float> second_moment;
  std::vector<char> gradient;
  std::vector<char> cast;
};

// Bits, so that NaNs can be compared, of everything that a step may write, guards included.
bool SameBits(const State& left, const State& right) {
  const size_t bytes = left.weights.size() * sizeof(float);
  return std::memcmp(left.weights.data(), right.weights.data(), bytes) == 0 &&
         std::memcmp(left.first_moment.data(), right.first_moment.data(), bytes) == 0 &&
         std::memcmp(left.second_moment.data(), right.second_moment.data(), bytes) == 0 &&
         left.cast == right.cast;
}

class OptimizerKernels : public testing::TestWithParam<Rule> {
 protected:
  // Weights from much below to much above the size of an update, moments of their usual sizes.
  void Randomize(State& state) {
    for (size_t i = 0; i < state.count; ++i) {
      const int exponent = -static_cast<int>(random_() % 14);
      state.weights[state.offset + i] = std::ldexp(normal_(random_), exponent);
      state.first_moment[state.offset + i] = normal_(random_) * 0.1f;
      state.second_moment[state.offset + i] = std::abs(normal_(random_)) * 0.01f;
    }
    RandomizeGradients(state);
  }

  void RandomizeGradients(State& state) {
    Elements elements;
    for (size_t i = 0; i < state.count; ++i) {
      const int exponent = -static_cast<int>(random_() % 12);
      const double value = std::ldexp(normal_(random_) / 3.0, exponent);
      elements.push_back(EncodeGradient(state.gradient_dtype, value));
    }
    state.SetGradients(elements);
  }

  std::mt19937 random_{TestSeed()};
  std::normal_distribution<float> normal_;
};

// The state as the reference wants it.
std::vector<Element> ElementsOf(const State& state) {
  std::vector<Element> elements;
  const Elements gradients = Unpack(state.gradient_dtype, state.gradient);
  for (size_t i = 0; i < state.count; ++i) {
    const size_t at = state.offset + i;
    elements.push_back({state.weights[at], state.first_moment[at], state.second_moment[at],
                        DecodeGradient(state.gradient_dtype, gradients[at])});
  }
  return elements;
}

// How many units of the last place that `size` has as float32 lie between.
long double UlpsBetween(float found, long double expected, long double size) {
  const int exponent = size == 0 ? -126 : std::max(-126, std::ilogb(size));
  return std::abs(found - expected) / std::ldexp(1.0L, exponent - 23);
}

// What a step in float32 loses where large numbers cancel is measured by the larger of old and new number; one
// in float64 loses nothing.
long double WorstUlps(Rule rule, const State& found, const std::vector<Element>& before,
                      const std::vector<Element>& expected) {
  long double worst = 0;
  const auto compare = [&](float value, long double old_value, long double new_value) {
    const bool single = rule == Rule::kAdamW;
    const long double size =
        single ? std::max(std::abs(old_value), std::abs(new_value)) : new_value;
    worst = std::max(worst, UlpsBetween(value, new_value, size));
  };
  for (size_t i = 0; i < found.count; ++i) {
    compare(found.weights[i], before[i].weight, expected[i].weight);
    if (rule == Rule::kSgd) continue;
    compare(found.first_moment[i], before[i].first_moment, expected[i].first_moment);
    compare(found.second_moment[i], before[i].second_moment, expected[i].second_moment);
  }
  return worst;
}

// The limit is 2. Arithmetic in float64 leaves one rounding; AdamW's leaves two, and a part of a third where epsilon
// is most of the divisor.
long double BarUlps(Rule rule) {
  return rule == Rule::kAdamW ? 2.0L : 0.51L;
}

TEST_P(OptimizerKernels, StayWithinTwoUlpsOfTheFormulaForAHundredSteps) {
  long double worst = 0;
  for (const weft_dtype_t dtype : kGradientTypes) {
    State state(1003, 0, dtype, WEFT_BFLOAT16);
    Randomize(state);
    for (int64_t step = 1; step <= 100; ++step) {
      RandomizeGradients(state);
      const std::vector<Element> before = ElementsOf(state);
      std::vector<Element> expected = before;
      KernelStep(GetParam(), BestIsa(), step, 0.7, state.arrays());
      ReferenceStep(GetParam(), step, 0.7, state.arrays(), expected);
      worst = std::max(worst, WorstUlps(GetParam(), state, before, expected));
    }
  }
  RecordProperty("worst_milliulps", static_cast<int>(worst * 1000));
  EXPECT_LE(worst, BarUlps(GetParam()));
}

// Weights that an update takes to nothing, moments of every size, a divisor that is mostly epsilon.
TEST_P(OptimizerKernels, StayWithinTwoUlpsOfTheFormulaWhereverNumbersLie) {
  long double worst = 0;
  for (int run = 0; run < 50; ++run) {
    State state(1000, 0, WEFT_FLOAT32, WEFT_BFLOAT16);
    Randomize(state);
    Elements gradients;
    for (size_t i = 0; i < state.count; ++i) {
      const int exponent = -static_cast<int>(random_() % 60);
      state.weights[i] = i % 3 == 0 ? 0 : normal_(random_) * 3e-3f;
      state.first_moment[i] = std::ldexp(normal_(random_), exponent);
      state.second_moment[i] = std::ldexp(std::abs(normal_(random_)), 2 * exponent);
      gradients.push_back(EncodeFloat(WEFT_FLOAT32, std::ldexp(normal_(random_), exponent)));
    }
    state.SetGradients(gradients);
    const std::vector<Element> before = ElementsOf(state);
    std::vector<Element> expected = before;
    KernelStep(GetParam(), BestIsa(), 1 + run * run, 0.3, state.arrays());
    ReferenceStep(GetParam(), 1 + run * run, 0.3, state.arrays(), expected);
    worst = std::max(worst, WorstUlps(GetParam(), state, before, expected));
  }
  RecordProperty("worst_milliulps", static_cast<int>(worst * 1000));
  EXPECT_LE(worst, BarUlps(GetParam()));
}

TEST_P(OptimizerKernels, GiveTheSameBitsForEveryCountAndInstructionSet) {
  for (const weft_dtype_t gradients : kGradientTypes) {
    for (const weft_dtype_t casts : kTypes) {
      for (size_t count = 0; count <= 130; ++count) {
        State start(count, count % 9, gradients, casts);
        Randomize(start);
        State expected = start;
        KernelStep(GetParam(), Isa::kScalar, 3, 0.5, expected.arrays());
        for (const Isa isa : AvailableIsas()) {
          State found = start;
          KernelStep(GetParam(), isa, 3, 0.5, found.arrays());
          ASSERT_TRUE(SameBits(found, expected)) << IsaName(isa) << ", " << count << " elements";
        }
        for (size_t i = 0; i < kGuard; ++i)
          ASSERT_EQ(expected.weights[expected.offset + count + i], 7);
      }
    }
  }
}

TEST_P(OptimizerKernels, GiveTheSameBitsForSpecialGradients) {
  for (const weft_dtype_t dtype : kGradientTypes) {
    Elements special = SpecialElements(dtype);
    State start(special.size() * 3 + 1, 1, dtype, dtype == WEFT_FLOAT64 ? WEFT_FLOAT32 : dtype);
    Randomize(start);
    Elements gradients(start.count, 0);
    for (size_t i = 0; i < start.count; ++i)
      gradients[i] = special[i % special.size()];
    start.SetGradients(gradients);
    State expected = start;
    KernelStepWithTrust(GetParam(), Isa::kScalar, 2, 1, 0.5, expected.arrays());
    for (const Isa isa : AvailableIsas()) {
      State found = start;
      KernelStepWithTrust(GetParam(), isa, 2, 1, 0.5, found.arrays());
      EXPECT_TRUE(SameBits(found, expected)) << IsaName(isa);
    }
  }
}

// Overflow of the second moment stops a weight, as in torch; it does not spoil it.
TEST(AdamW, DoesNotMoveWeightsWhoseSecondMomentIsInfinite) {
  for (const Isa isa : AvailableIsas()) {
    State state(20, 0, WEFT_FLOAT32, WEFT_FLOAT32);
    for (size_t i = 0; i < state.count; ++i) {
      state.weights[i] = 0.5f;
      state.first_moment[i] = state.second_moment[i] = 0;
    }
    state.second_moment[3] = INFINITY;
    Elements gradients(state.count, EncodeFloat(WEFT_FLOAT32, 0));
    gradients[7] = EncodeFloat(WEFT_FLOAT32, 1e30f);
    for (int step = 1; step <= 2; ++step) {
      state.SetGradients(gradients);
      UpdateAdamW(isa, MakeAdamWStep({.weight_decay = 0}, step, 1), state.arrays());
      gradients[7] = 0;
    }
    for (size_t i = 0; i < state.count; ++i) {
      EXPECT_EQ(state.weights[i], 0.5f) << IsaName(isa) << " " << i;
      EXPECT_EQ(std::isinf(state.second_moment[i]), i == 3 || i == 7);
    }
  }
}

TEST_P(OptimizerKernels, GiveTheSameBitsForEveryCut) {
  State start(300, 3, WEFT_BFLOAT16, WEFT_FLOAT16);
  Randomize(start);
  State whole = start;
  KernelStepWithTrust(GetParam(), BestIsa(), 5, 0.5, 0.25, whole.arrays());
  for (size_t cut = 0; cut <= start.count; ++cut) {
    State parts = start;
    OptimizerArrays left = parts.arrays();
    left.count = cut;
    const OptimizerArrays all = parts.arrays();
    const OptimizerArrays right = {.weights = all.weights + cut,
                                   .first_moment = all.first_moment + cut,
                                   .second_moment = all.second_moment + cut,
                                   .gradients = static_cast<const char*>(all.gradients) + 2 * cut,
                                   .gradient_dtype = WEFT_BFLOAT16,
                                   .cast = static_cast<char*>(all.cast) + 2 * cut,
                                   .cast_dtype = WEFT_FLOAT16,
                                   .count = all.count - cut};
    KernelStepWithTrust(GetParam(), BestIsa(), 5, 0.5, 0.25, right);
    KernelStepWithTrust(GetParam(), BestIsa(), 5, 0.5, 0.25, left);
    ASSERT_TRUE(SameBits(parts, whole)) << cut;
  }
}

TEST_P(OptimizerKernels, CastTheNewWeights) {
  for (const weft_dtype_t dtype : kTypes) {
    for (const Isa isa : AvailableIsas()) {
      State state(131, 2, WEFT_FLOAT32, dtype);
      Randomize(state);
      state.weights[2] = 1e-41f;
      state.weights[3] = 3e38f;
      state.weights[4] = NAN;
      KernelStepWithTrust(GetParam(), isa, 1, 1, 1, state.arrays());
      const Elements cast = Unpack(dtype, state.cast);
      for (size_t i = 2; i < 2 + state.count; ++i) {
        const float weight = state.weights[i];
        const uint64_t expected = weight != weight ? QuietNan(dtype) : EncodeFloat(dtype, weight);
        ASSERT_EQ(cast[i], expected) << IsaName(isa) << " " << weight;
      }
    }
  }
}

TEST_P(OptimizerKernels, NeedNoCast) {
  State with(100, 0, WEFT_FLOAT32, WEFT_BFLOAT16);
  Randomize(with);
  State without = with;
  KernelStep(GetParam(), BestIsa(), 1, 1, with.arrays());
  OptimizerArrays arrays = without.arrays();
  arrays.cast = nullptr;
  KernelStep(GetParam(), BestIsa(), 1, 1, arrays);
  EXPECT_EQ(with.weights, without.weights);
  EXPECT_EQ(without.cast, std::vector<char>(without.cast.size(), 7));
}

// A program with one library made with -ffast-math flushes denormals in all its threads.
#if defined(__SSE2__)
TEST_P(OptimizerKernels, KeepDenormalsInThreadsThatFlushThem) {
  State start(40, 0, WEFT_FLOAT32, WEFT_FLOAT32);
  Randomize(start);
  for (float& weight : start.weights)
    weight *= 0x1p-140f;
  start.SetGradients(Elements(40, 1));  // the least denormal
  State expected = start;
  KernelStepWithTrust(GetParam(), BestIsa(), 1, 1, 1, expected.arrays());
  const unsigned saved = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(saved | 0x8040);
  KernelStepWithTrust(GetParam(), BestIsa(), 1, 1, 1, start.arrays());
  __builtin_ia32_ldmxcsr(saved);
  EXPECT_TRUE(SameBits(start, expected));
}
#endif

INSTANTIATE_TEST_SUITE_P(Rules, OptimizerKernels, testing::ValuesIn(kRules), [](const auto& info) {
  std::string name = RuleName(info.param);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

}  // namespace
}  // namespace weft
