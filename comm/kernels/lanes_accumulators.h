// The registers of float8, float16 and bfloat16 as they stand in memory between the stages of a reduction
// (reduce_stage.h): float32, one element after another.
//
//   using Lanes = BfloatLanes<16>;
//   StoreRegisters<Lanes>(to, ToMemory<Lanes>(sum));                     // 32 float32
//   const auto value = FromMemory<Lanes>(LoadRegisters<Lanes>(from));
//
// Lanes are free to hold elements in any order and at any scale: bfloat16's even elements are apart from its odd ones,
// sums of float8 are times a power of two. Memory has neither.
//
// Internal linkage, see lanes.h. Thread-safety: pure functions.
#pragma once

#include "comm/kernels/lanes.h"
#include "comm/kernels/lanes_float8.h"

namespace weft {
namespace {

// Elements of a register in the order of memory, and back.
template <typename Lanes>
struct MemoryOrder {
  using Value = typename Lanes::Value;

  WEFT_INLINE static Value To(Value value) { return value; }

  WEFT_INLINE static Value From(Value value) { return value; }
};

#if defined(__AVX512F__)
template <>
struct MemoryOrder<BfloatLanes<16>> {
  using Value = BfloatLanes<16>::Value;

  WEFT_INLINE static Value To(Value value) {
    const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i upper =
        _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    return {_mm512_permutex2var_ps(value.first, lower, value.second),
            _mm512_permutex2var_ps(value.first, upper, value.second)};
  }

  WEFT_INLINE static Value From(Value value) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_or_epi32(even, _mm512_set1_epi32(1));
    return {_mm512_permutex2var_ps(value.first, even, value.second),
            _mm512_permutex2var_ps(value.first, odd, value.second)};
  }
};
#elif defined(__AVX2__)
template <>
struct MemoryOrder<BfloatLanes<8>> {
  using Value = BfloatLanes<8>::Value;

  WEFT_INLINE static Value To(Value value) {
    const __m256 lower = _mm256_unpacklo_ps(value.first, value.second);
    const __m256 upper = _mm256_unpackhi_ps(value.first, value.second);
    return {_mm256_permute2f128_ps(lower, upper, 0x20), _mm256_permute2f128_ps(lower, upper, 0x31)};
  }

  WEFT_INLINE static Value From(Value value) {
    const __m256 lower = _mm256_permute2f128_ps(value.first, value.second, 0x20);
    const __m256 upper = _mm256_permute2f128_ps(value.first, value.second, 0x31);
    return {_mm256_shuffle_ps(lower, upper, 0x88), _mm256_shuffle_ps(lower, upper, 0xdd)};
  }
};
#endif

// What the lanes' numbers are multiplied by to be the true values, exactly.
template <typename Lanes>
struct Unscale {
  static constexpr float kFactor = 1;
};

template <typename Format, int kWords>
struct Unscale<Float8Lanes<Format, kWords, true>> {
  static constexpr float kFactor = kWords == 0 ? 1 : 1 / Format::kHalfScale;
};

template <typename Lanes, int kWords>
WEFT_INLINE Vector<float, kWords> TrueNumbers(Vector<float, kWords> numbers) {
  if constexpr (Unscale<Lanes>::kFactor != 1) numbers *= Unscale<Lanes>::kFactor;
  return __builtin_bit_cast(Vector<float, kWords>, FloatLanes<kWords>::OneNan(numbers));
}

// kWidth float32 as memory has them, every NaN the quiet one.
template <typename Lanes>
WEFT_INLINE typename Lanes::Value ToMemory(typename Lanes::Value value) {
  if constexpr (requires { value.first; }) {
    constexpr int kWords = Lanes::kWidth / 2;
    return MemoryOrder<Lanes>::To(
        {TrueNumbers<Lanes, kWords>(value.first), TrueNumbers<Lanes, kWords>(value.second)});
  } else {
    return TrueNumbers<Lanes, Lanes::kWidth>(value);
  }
}

// Not for lanes that scale.
template <typename Lanes>
WEFT_INLINE typename Lanes::Value FromMemory(typename Lanes::Value value) {
  static_assert(Unscale<Lanes>::kFactor == 1);
  return MemoryOrder<Lanes>::From(value);
}

// One register after another: as one value GCC 12 copies the two in quarters.
template <typename Lanes>
WEFT_INLINE typename Lanes::Value LoadRegisters(const char* from) {
  if constexpr (requires(typename Lanes::Value value) { value.first; }) {
    using Register = typename Lanes::Float;
    return {LoadAs<Register>(from), LoadAs<Register>(from + sizeof(Register))};
  } else {
    return LoadAs<typename Lanes::Value>(from);
  }
}

template <typename Lanes>
WEFT_INLINE void StoreRegisters(char* to, typename Lanes::Value value) {
  if constexpr (requires { value.first; }) {
    StoreAs(to, value.first);
    StoreAs(to + sizeof(value.first), value.second);
  } else {
    StoreAs(to, value);
  }
}

}  // namespace
}  // namespace weft
