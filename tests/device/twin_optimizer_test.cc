// What the kernels of optimizers and of sums of squares compute on devices, by their twins, against those of the CPU, bit by bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/device/kernel_choice.h"
#include "shard/optimizer/device/lamb_moments.h"
#include "shard/optimizer/device/update.h"
#include "shard/optimizer/device/update_packets.h"
#include "shard/optimizer/optimizer_kernels.h"
#include "shard/optimizer/sum_squares.h"
#include "tests/comm/kernels/reference.h"
#include "tests/device/twins.h"

namespace weft::test::twin_optimizer_test {
namespace {

constexpr weft_dtype_t kGradientTypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16, WEFT_FLOAT64};
constexpr weft_dtype_t kCastTypes[] = {WEFT_BFLOAT16, WEFT_FLOAT16, WEFT_FLOAT32};
constexpr size_t kCounts[] = {0, 1, 3, 4, 5, 127, 128, 129, 1000};
constexpr size_t kGuard = 16;

// The arrays of a parameter, `offset` elements into their memory; the same for the same seed.
class Parameter {
 public:
  Parameter(size_t count, size_t offset, weft_dtype_t gradients, weft_dtype_t casts, bool wild)
      : offset_(offset), count_(count), gradient_dtype_(gradients), cast_dtype_(casts) {
    std::mt19937_64 random(TestSeed() + count);
    const size_t room = offset + count + kGuard;
    for (std::vector<float>* array : {&weights_, &first_, &second_}) {
      array->resize(room);
      std::generate(array->begin(), array->end(), [&] { return Number(random, wild); });
    }
    for (float& square : second_)
      square = std::abs(square);
    Elements elements = RandomElements(gradients, room, random);
    if (!wild) {
      for (uint64_t& bits : elements) {
        const double value = Number(random, false);
        bits = gradients == WEFT_FLOAT64 ? std::bit_cast<uint64_t>(value * 1.000000001)
                                         : EncodeFloat(gradients, static_cast<float>(value));
      }
    }
    gradients_ = PackElements(gradients, elements);
    casts_.assign(room * DtypeSize(casts), 'x');
  }

  OptimizerArrays arrays() {
    return {.weights = weights_.data() + offset_,
            .first_moment = first_.data() + offset_,
            .second_moment = second_.data() + offset_,
            .gradients = gradients_.data() + offset_ * DtypeSize(gradient_dtype_),
            .gradient_dtype = gradient_dtype_,
            .cast = casts_.data() + offset_ * DtypeSize(cast_dtype_),
            .cast_dtype = cast_dtype_,
            .count = count_};
  }

  bool HasBitsOf(const Parameter& other) const {
    return Same(weights_, other.weights_) && Same(first_, other.first_) &&
           Same(second_, other.second_) && casts_ == other.casts_;
  }

 private:
  static float Number(std::mt19937_64& random, bool wild) {
    if (wild && random() % 4 == 0) return std::bit_cast<float>(static_cast<uint32_t>(random()));
    return std::normal_distribution<float>()(random) *
           std::ldexp(1.0F, static_cast<int>(random() % 12) - 8);
  }

  static bool Same(const std::vector<float>& left, const std::vector<float>& right) {
    return std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
  }

  size_t offset_;
  size_t count_;
  weft_dtype_t gradient_dtype_;
  weft_dtype_t cast_dtype_;
  std::vector<float> weights_;
  std::vector<float> first_;
  std::vector<float> second_;
  std::vector<char> gradients_;
  std::vector<char> casts_;
};

template <typename Step>
void RunTwin(const std::string& kernel, const Step& step, double trust_ratio,
             const OptimizerArrays& arrays) {
  const Twin twin = FindTwin(kernel);
  ASSERT_NE(twin, nullptr) << kernel;
  const device::UpdateParameters<Step> parameters = {UpdatePackets(arrays), arrays, step,
                                                     trust_ratio};
  twin(&parameters, {.blocks = 1, .threads = 3});
}

// Calls check(kernel's type, one parameter for the CPU, the same one for the twin) for all sizes, alignments and kinds of numbers of
// these types.
template <typename Check>
void ForEachCaseOf(weft_dtype_t gradients, weft_dtype_t casts, Check check) {
  for (const size_t count : kCounts) {
    for (const size_t offset : {size_t{0}, size_t{1}}) {
      for (const bool wild : {false, true}) {
        Parameter on_cpu(count, offset, gradients, casts, wild);
        Parameter on_device = on_cpu;
        check(std::string("_") + DtypeName(gradients), on_cpu, on_device);
        ASSERT_TRUE(on_device.HasBitsOf(on_cpu))
            << DtypeName(gradients) << " gradients, cast to " << DtypeName(casts) << ", " << count
            << " elements, " << offset << " off, wild: " << wild
            << ", --gtest_random_seed=" << TestSeed();
      }
    }
  }
}

template <typename Check>
void ForEachCase(Check check) {
  for (const weft_dtype_t gradients : kGradientTypes) {
    for (const weft_dtype_t casts : kCastTypes) {
      ForEachCaseOf(gradients, casts, check);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(TwinOptimizer, AdamWHasTheBitsOfTheCpu) {
  const AdamWStep step = MakeAdamWStep({.learning_rate = 1e-3, .weight_decay = 0.1}, 3, 0.7);
  for (const Isa isa : AvailableIsas()) {
    ForEachCase([&](const std::string& type, Parameter& on_cpu, Parameter& on_device) {
      UpdateAdamW(isa, step, on_cpu.arrays());
      RunTwin("weft_adamw" + type, step, 0, on_device.arrays());
    });
  }
}

TEST(TwinOptimizer, AnUpdateWithoutACastHasTheBitsOfTheCpu) {
  const AdamWStep step = MakeAdamWStep({.learning_rate = 1e-3}, 1, 1);
  ForEachCase([&](const std::string& type, Parameter& on_cpu, Parameter& on_device) {
    OptimizerArrays arrays = on_cpu.arrays();
    arrays.cast = nullptr;
    UpdateAdamW(BestIsa(), step, arrays);
    arrays = on_device.arrays();
    arrays.cast = nullptr;
    RunTwin("weft_adamw" + type, step, 0, arrays);
  });
}

TEST(TwinOptimizer, SgdHasTheBitsOfTheCpu) {
  for (const SgdOptions& options :
       {SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01},
        SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true},
        SgdOptions{.learning_rate = 0.1, .momentum = 0, .weight_decay = 0.01}}) {
    const SgdStep step = MakeSgdStep(options, 0.7);
    const auto arrays_of = [&](Parameter& parameter) {
      OptimizerArrays arrays = parameter.arrays();
      arrays.second_moment = nullptr;
      if (options.momentum == 0) arrays.first_moment = nullptr;
      return arrays;
    };
    ForEachCase([&](const std::string& type, Parameter& on_cpu, Parameter& on_device) {
      UpdateSgd(BestIsa(), step, arrays_of(on_cpu));
      RunTwin("weft_sgd" + type, step, 0, arrays_of(on_device));
    });
  }
}

TEST(TwinOptimizer, LionHasTheBitsOfTheCpu) {
  const LionStep step = MakeLionStep({.learning_rate = 1e-3, .weight_decay = 0.1}, 0.7);
  ForEachCase([&](const std::string& type, Parameter& on_cpu, Parameter& on_device) {
    UpdateLion(BestIsa(), step, on_cpu.arrays());
    RunTwin("weft_lion" + type, step, 0, on_device.arrays());
  });
}

TEST(TwinOptimizer, LarsHasTheBitsOfTheCpu) {
  const LarsStep step = MakeLarsStep({.learning_rate = 0.1, .weight_decay = 0.01}, 0.7);
  ForEachCase([&](const std::string& type, Parameter& on_cpu, Parameter& on_device) {
    UpdateLars(BestIsa(), step, 1.75, on_cpu.arrays());
    RunTwin("weft_lars" + type, step, 1.75, on_device.arrays());
  });
}

TEST(TwinOptimizer, LambHasTheBitsOfTheCpu) {
  const LambStep step = MakeLambStep({.learning_rate = 1e-2, .weight_decay = 0.05}, 4, 0.5);
  for (const uint64_t first : {uint64_t{0}, uint64_t{128 * 7 + 16}}) {
    ForEachCase([&](const std::string& type, Parameter& on_cpu, Parameter& on_device) {
      LambSums sums;
      UpdateLambMoments(BestIsa(), step, on_cpu.arrays(), first, sums);
      ExactSum::Words weight_words = {};
      ExactSum::Words update_words = {};
      const device::LambMomentsParameters parameters = {on_device.arrays(), step, first,
                                                        weight_words.data(), update_words.data()};
      FindTwin("weft_lamb_moments" + type)(&parameters, {});
      ASSERT_EQ(ExactSum(weight_words).words(), sums.weights.words());
      ASSERT_EQ(ExactSum(update_words).words(), sums.updates.words());
      ApplyLamb(BestIsa(), step, 0.6, on_cpu.arrays());
      RunTwin("weft_lamb_apply", step, 0.6, on_device.arrays());
    });
  }
}

// Random elements; unless `wild`, those that are no finite numbers are zero.
std::vector<char> RandomPacked(weft_dtype_t dtype, size_t count, bool wild,
                               std::mt19937_64& random) {
  Elements elements = RandomElements(dtype, count, random);
  const auto is_finite = [dtype](uint64_t bits) {
    return dtype == WEFT_FLOAT64 ? std::isfinite(std::bit_cast<double>(bits))
                                 : std::isfinite(DecodeFloat(dtype, bits));
  };
  if (!wild) std::replace_if(elements.begin(), elements.end(), std::not_fn(is_finite), 0);
  return PackElements(dtype, elements);
}

// The first `count` elements of `packed`, which are `first` elements into the space whose blocks are summed, at an address that is
// `offset` elements off.
void ExpectSquares(weft_dtype_t dtype, const std::vector<char>& packed, size_t count,
                   uint64_t first, size_t offset) {
  std::vector<char> memory(packed.size() + 16);
  char* const values = memory.data() + offset * DtypeSize(dtype);
  std::memcpy(values, packed.data(), packed.size());
  ExactSum sum;
  const int64_t nonfinite = AddSquares(BestIsa(), dtype, values, count, first, sum);
  std::vector<int64_t> words(device::kExactWords + 1);
  const device::SquaresParameters parameters = {count, first, values, words.data()};
  const Twin twin = FindTwin(SquaresKernel(dtype));
  ASSERT_NE(twin, nullptr);
  twin(&parameters, {});
  ExactSum::Words of_device;
  std::copy_n(words.begin(), of_device.size(), of_device.begin());
  ASSERT_EQ(ExactSum(of_device).words(), sum.words())
      << DtypeName(dtype) << ", " << count << " elements from " << first << ", " << offset
      << " off, --gtest_random_seed=" << TestSeed();
  ASSERT_EQ(words.back(), nonfinite);
}

TEST(TwinSquares, HaveTheBitsOfTheCpu) {
  static_assert(device::kExactWords == std::tuple_size_v<ExactSum::Words>);
  std::mt19937_64 random(TestSeed());
  for (const weft_dtype_t dtype : kGradientTypes) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{127}, size_t{128}, size_t{1000}}) {
      for (const uint64_t first : {uint64_t{0}, uint64_t{5}, uint64_t{128 * 3 + 120}}) {
        for (const bool wild : {false, true}) {
          const std::vector<char> packed = RandomPacked(dtype, count + 1, wild, random);
          ExpectSquares(dtype, packed, count, first, 0);
          ExpectSquares(dtype, packed, count, first, 1);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::test::twin_optimizer_test
