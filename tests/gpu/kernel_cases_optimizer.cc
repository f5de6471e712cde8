// Sums of squares and optimizers.
#include <bit>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "comm/device/element/squares.h"
#include "comm/kernels/dtype.h"
#include "shard/optimizer/device/lamb_moments.h"
#include "shard/optimizer/device/update_packets.h"
#include "shard/optimizer/optimizer_step.h"
#include "tests/gpu/kernel_cases.h"
#include "tests/gpu/parameter_bytes.h"

namespace weft::test {
namespace {

constexpr weft_dtype_t kGradientTypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16, WEFT_FLOAT64};
constexpr weft_dtype_t kCastTypes[] = {WEFT_BFLOAT16, WEFT_FLOAT16, WEFT_FLOAT32};

// Where an optimizer's arrays are in an arena.
struct ArrayPieces {
  size_t weights;
  size_t first;
  size_t second;
  size_t gradients;
  size_t cast;
  weft_dtype_t gradient_dtype;
  weft_dtype_t cast_dtype;
  bool has_cast;
  size_t count;

  OptimizerArrays At(const Arena& arena, char* base) const {
    const auto floats = [&](size_t piece) {
      return reinterpret_cast<float*>(arena.At(base, piece));
    };
    return {.weights = floats(weights),
            .first_moment = floats(first),
            .second_moment = floats(second),
            .gradients = arena.At(base, gradients),
            .gradient_dtype = gradient_dtype,
            .cast = has_cast ? arena.At(base, cast) : nullptr,
            .cast_dtype = cast_dtype,
            .count = count};
  }
};

}  // namespace

// `wild`: some of them are any bits at all.
std::vector<char> KernelCases::DrawFloats(size_t count, bool wild, bool positive) {
  std::vector<float> floats(count);
  std::normal_distribution<float> normal;
  for (float& value : floats) {
    value = normal(random_) * std::ldexp(1.0F, static_cast<int>(Draw(12)) - 8);
    if (wild && Draw(4) == 0) value = std::bit_cast<float>(static_cast<uint32_t>(random_()));
    if (positive) value = std::abs(value);
  }
  std::vector<char> bytes(count * sizeof(float));
  if (count > 0) std::memcpy(bytes.data(), floats.data(), bytes.size());
  return bytes;
}

void KernelCases::Squares(const Take& take) {
  constexpr size_t kWordBytes = (device::kExactWords + 1) * sizeof(int64_t);
  for (const weft_dtype_t dtype : kGradientTypes) {
    for (int round = 0; round < 8 * options_.rounds; ++round) {
      KernelCase one;
      one.check = "squares";
      one.kernel = SquaresKernel(dtype);
      DrawLaunch(one);
      const size_t count = DrawCount(1);
      const uint64_t first_index = Draw(2) * Draw(1000);
      const size_t shift = Draw(3) * DtypeSize(dtype);
      // Half of them of numbers that are all finite.
      const bool wild = Draw(2) == 0;
      const std::vector<char> values = wild || dtype != WEFT_FLOAT32
                                           ? DrawElements(dtype, count)
                                           : DrawFloats(count, false, false);
      const size_t array = one.arena.Add(values, shift);
      const size_t words = one.arena.Add(std::vector<char>(kWordBytes), 0);
      one.what = StrCat(count, " elements from ", first_index, ", ", shift, " bytes off");
      const Arena arena = one.arena;
      one.parameters = [=](char* base) {
        return ParameterBytes(
            device::SquaresParameters{count, first_index, arena.At(base, array),
                                      reinterpret_cast<int64_t*>(arena.At(base, words))});
      };
      take(one);
    }
  }
}

template <typename StepOf>
void KernelCases::Update(const std::string& name, const StepOf& step, const Take& take) {
  constexpr bool kIsLambs = std::is_same_v<StepOf, LambStep>;
  for (const weft_dtype_t gradients : kGradientTypes) {
    for (int round = 0; round < 4 * options_.rounds; ++round) {
      KernelCase one;
      one.check = kIsLambs ? "lamb" : "update";
      one.kernel = kIsLambs ? name : StrCat(name, "_", DtypeName(gradients));
      DrawLaunch(one);
      const size_t count = DrawCount(1);
      const int shift_kind = static_cast<int>(Draw(3));
      const size_t shift = DrawShift(shift_kind);
      const bool wild = Draw(2) == 0;
      ArrayPieces pieces = {};
      pieces.count = count;
      pieces.gradient_dtype = gradients;
      pieces.cast_dtype = kCastTypes[Draw(std::size(kCastTypes))];
      pieces.has_cast = Draw(3) != 0;
      const size_t off = shift * sizeof(float);
      pieces.weights = one.arena.Add(DrawFloats(count, wild, false), off);
      pieces.first = one.arena.Add(DrawFloats(count, wild, false), off);
      pieces.second = one.arena.Add(DrawFloats(count, wild, true), off);
      pieces.gradients =
          one.arena.Add(DrawElements(gradients, count),
                        (shift_kind == 2 ? DrawShift(shift_kind) : shift) * DtypeSize(gradients));
      pieces.cast = one.arena.Add(std::vector<char>(count * DtypeSize(pieces.cast_dtype)),
                                  shift * DtypeSize(pieces.cast_dtype));
      one.what = StrCat(count, " elements, shifts ", shift_kind, ", cast to ",
                        pieces.has_cast ? DtypeName(pieces.cast_dtype) : "nothing");
      const Arena arena = one.arena;
      one.parameters = [=](char* base) {
        device::UpdateParameters<StepOf> parameters = {{}, pieces.At(arena, base), step, 0.6};
        parameters.range = UpdatePackets(parameters.arrays);
        return ParameterBytes(parameters);
      };
      take(one);
    }
  }
}

void KernelCases::Updates(const Take& take) {
  Update("weft_adamw", MakeAdamWStep({.learning_rate = 1e-3, .weight_decay = 0.1}, 3, 0.7), take);
  Update("weft_sgd",
         MakeSgdStep({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}, 0.7), take);
  Update("weft_sgd", MakeSgdStep({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}, 0.7),
         take);
  Update("weft_lion", MakeLionStep({.learning_rate = 1e-3, .weight_decay = 0.1}, 0.7), take);
  Update("weft_lars", MakeLarsStep({.learning_rate = 0.1, .weight_decay = 0.01}, 0.7), take);
  Update("weft_lamb_apply", MakeLambStep({.learning_rate = 1e-2, .weight_decay = 0.05}, 4, 0.5),
         take);
}

void KernelCases::LambMoments(const Take& take) {
  constexpr size_t kWordBytes = device::kExactWords * sizeof(int64_t);
  const LambStep step = MakeLambStep({.learning_rate = 1e-2, .weight_decay = 0.05}, 4, 0.5);
  for (const weft_dtype_t gradients : kGradientTypes) {
    for (int round = 0; round < 4 * options_.rounds; ++round) {
      KernelCase one;
      one.check = "lamb";
      one.kernel = StrCat("weft_lamb_moments_", DtypeName(gradients));
      DrawLaunch(one);
      const size_t count = DrawCount(1);
      const uint64_t first_index = Draw(2) * Draw(1000);
      const bool wild = Draw(2) == 0;
      ArrayPieces pieces = {};
      pieces.count = count;
      pieces.gradient_dtype = gradients;
      const size_t off = Draw(2) * sizeof(float);
      pieces.weights = one.arena.Add(DrawFloats(count, wild, false), off);
      pieces.first = one.arena.Add(DrawFloats(count, wild, false), off);
      pieces.second = one.arena.Add(DrawFloats(count, wild, true), off);
      pieces.gradients =
          one.arena.Add(DrawElements(gradients, count), Draw(2) * DtypeSize(gradients));
      const size_t weight_words = one.arena.Add(std::vector<char>(kWordBytes), 0);
      const size_t update_words = one.arena.Add(std::vector<char>(kWordBytes), 0);
      one.what = StrCat(count, " elements from ", first_index, ", ", off, " bytes off");
      const Arena arena = one.arena;
      one.parameters = [=](char* base) {
        return ParameterBytes(device::LambMomentsParameters{
            pieces.At(arena, base), step, first_index,
            reinterpret_cast<int64_t*>(arena.At(base, weight_words)),
            reinterpret_cast<int64_t*>(arena.At(base, update_words))});
      };
      take(one);
    }
  }
}

}  // namespace weft::test
