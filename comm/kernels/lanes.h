// A few elements side by side, as one value: how they are unpacked, combined and packed.
//
//   using Lanes = HalfLanes<8>;        // 8 float16 in memory, 8 float32 in a register
//   using Raw = Lanes::Raw;            // the bytes of 8 elements as memory has them
//   const auto sum = Lanes::Combine<Sum>(Lanes::Unpack(LoadAs<Raw>(a)), Lanes::Unpack(LoadAs<Raw>(b)));
//   StoreAs(to, Lanes::Pack(sum));     // rounded here, once
//
// Included by what is compiled once for each instruction set (reduce_*.cc). Everything here
// has internal linkage and calls nothing of std::, so that no function compiled for AVX can be
// picked by the linker for a caller on a CPU without it. Width 1 is plain C++ on plain types; the
// same expressions on vector types (GCC's and clang's vector extension) are the SIMD forms.
//
// Stored NaNs are one quiet NaN per type: which operand's payload survives an addition depends on
// how the compiler ordered the operands, and results must not.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "comm/kernels/conversions.h"

namespace weft {
namespace {

template <typename T, int kWidth>
struct VectorOf {
  typedef T type __attribute__((vector_size(kWidth * sizeof(T))));  // NOLINT: attributes need it
};

template <typename T>
struct VectorOf<T, 1> {
  using type = T;
};

template <typename T, int kWidth>
using Vector = typename VectorOf<T, kWidth>::type;

template <typename V>
WEFT_INLINE V LoadAs(const char* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof(V));
  return value;
}

template <typename V>
WEFT_INLINE void StoreAs(char* to, V value) {
  __builtin_memcpy(to, &value, sizeof(V));
}

template <typename T, int kWidthOf>
struct IntegerLanes {
  using Value = Vector<T, kWidthOf>;
  using Raw = Value;
  static constexpr int kWidth = kWidthOf;
  static constexpr int kElementBytes = sizeof(T);
  static constexpr bool kFloating = false;

  WEFT_INLINE static Value Unpack(Raw raw) { return raw; }

  WEFT_INLINE static Raw Pack(Value value) { return value; }

  template <typename Op>
  WEFT_INLINE static Value Combine(Value left, Value right) {
    return Op::template Combine<IntegerLanes>(left, right);
  }

  // Wraps; for unsigned T.
  WEFT_INLINE static Value Scale(Value value, uint64_t factor) {
    return static_cast<Value>(value * static_cast<T>(factor));
  }
};

// Booleans: anything but 0 in memory is 1 in registers.
template <int kWidthOf>
struct BoolLanes : IntegerLanes<uint8_t, kWidthOf> {
  using Value = Vector<uint8_t, kWidthOf>;

  WEFT_INLINE static Value Unpack(Value bytes) {
    return bytes != 0 ? Value{} + uint8_t{1} : Value{};
  }
};

// float32 and float64: kNan is the bit pattern that stands for every NaN.
template <typename T, typename BitsOf, BitsOf kNan, int kWidthOf>
struct FloatingLanes {
  using Scalar = T;
  using Value = Vector<T, kWidthOf>;
  using Bits = Vector<BitsOf, kWidthOf>;
  using Raw = Bits;
  static constexpr int kWidth = kWidthOf;
  static constexpr int kElementBytes = sizeof(T);
  static constexpr bool kFloating = true;
  static constexpr BitsOf kQuietNan = kNan;

  WEFT_INLINE static Value Unpack(Raw raw) { return __builtin_bit_cast(Value, raw); }

  WEFT_INLINE static Bits OneNan(Value value) {
    const Bits bits = __builtin_bit_cast(Bits, value);
    return value != value ? Bits{} + kNan : bits;
  }

  WEFT_INLINE static Raw Pack(Value value) { return OneNan(value); }

  template <typename Op>
  WEFT_INLINE static Value Combine(Value left, Value right) {
    return Op::template Combine<FloatingLanes>(left, right);
  }

  WEFT_INLINE static Value Divide(Value value, Scalar divisor) { return value / divisor; }

  WEFT_INLINE static Value Scale(Value value, uint64_t factor) {
    return value * __builtin_bit_cast(Scalar, static_cast<BitsOf>(factor));
  }
};

template <int kWidth>
using FloatLanes = FloatingLanes<float, uint32_t, 0x7fc00000u, kWidth>;
template <int kWidth>
using DoubleLanes = FloatingLanes<double, uint64_t, 0x7ff8000000000000u, kWidth>;

// What the types have in common that fill two registers of float32 with one register of memory.
template <int kWords>
struct FloatPairLanes {
  using Scalar = float;
  using Float = Vector<float, kWords>;
  using Bits = Vector<uint32_t, kWords>;

  struct Value {
    Float first;
    Float second;
  };

  static constexpr bool kFloating = true;
  static constexpr uint32_t kQuietNan = FloatLanes<kWords>::kQuietNan;

  template <typename Op>
  WEFT_INLINE static Value Combine(Value left, Value right) {
    return {Op::template Combine<FloatPairLanes>(left.first, right.first),
            Op::template Combine<FloatPairLanes>(left.second, right.second)};
  }

  WEFT_INLINE static Value Divide(Value value, Scalar divisor) {
    return {value.first / divisor, value.second / divisor};
  }

  WEFT_INLINE static Value Scale(Value value, uint64_t factor) {
    const Scalar scalar = FloatOfBits(factor);
    return {value.first * scalar, value.second * scalar};
  }
};

// bfloat16 in memory, float32 in registers. A register holds two elements per 32-bit word: the even
// ones, the first of a pair, are the lower halves, the odd ones the upper halves, which are float32 with
// the rest masked off. No lane is ever moved, so packing costs a shift and a mask.
template <int kWords>
struct BfloatLanes;

#if defined(__AVX2__)
template <int kWords>
struct BfloatLanes : FloatPairLanes<kWords> {
  using typename FloatPairLanes<kWords>::Float;
  using typename FloatPairLanes<kWords>::Bits;
  using typename FloatPairLanes<kWords>::Value;
  using Raw = Bits;
  static constexpr int kWidth = 2 * kWords;
  static constexpr int kElementBytes = 2;

  WEFT_INLINE static Value Unpack(Raw words) {
    return {__builtin_bit_cast(Float, words << 16), __builtin_bit_cast(Float, words & 0xffff0000u)};
  }

  WEFT_INLINE static Raw Pack(Value value) {
    // One comparison for both, as a NaN in either makes it true. They are rare enough for a branch.
    if (__builtin_expect(AnyUnordered(value.first, value.second), 0)) {
      value.first = __builtin_bit_cast(Float, FloatLanes<kWords>::OneNan(value.first));
      value.second = __builtin_bit_cast(Float, FloatLanes<kWords>::OneNan(value.second));
    }
    return RoundPair(__builtin_bit_cast(Bits, value.first), __builtin_bit_cast(Bits, value.second));
  }

 private:
  // To nearest, ties to even, all elements in one register: a kept half goes up if the dropped one is
  // more than a half of its last place, or just that and it is odd.
#if defined(__AVX512BW__)
  WEFT_INLINE static bool AnyUnordered(Float left, Float right) {
    return _mm512_cmp_ps_mask(left, right, _CMP_UNORD_Q) != 0;
  }

  WEFT_INLINE static Raw RoundPair(Bits even, Bits odd) {
    const __m512i one = _mm512_set1_epi16(1);
    constexpr __mmask64 kLowerBytes = 0x3333333333333333;
    const __m512i swap = SwapHalves();
    const __m512i kept =
        _mm512_mask_shuffle_epi8(AsIntegers(odd), kLowerBytes, AsIntegers(even), swap);
    const __m512i dropped =
        _mm512_mask_shuffle_epi8(AsIntegers(even), ~kLowerBytes, AsIntegers(odd), swap);
    // 0x8000 | (~kept & 1): the least that goes up.
    const __m512i up = _mm512_ternarylogic_epi32(kept, one, _mm512_set1_epi16(INT16_MIN), 0xae);
    const __mmask32 goes_up = _mm512_cmpge_epu16_mask(dropped, up);
    return __builtin_bit_cast(Raw, _mm512_mask_add_epi16(kept, goes_up, kept, one));
  }

  // For shuffles of bytes, which are one step each on every CPU; permutations of words are three on some.
  WEFT_INLINE static __m512i SwapHalves() {
    return _mm512_set4_epi32(0x0d0c0f0e, 0x09080b0a, 0x05040706, 0x01000302);
  }

  WEFT_INLINE static __m512i AsIntegers(Bits bits) {
    return __builtin_bit_cast(__m512i, bits);
  }
#elif defined(__AVX2__)
  WEFT_INLINE static bool AnyUnordered(Float left, Float right) {
    return _mm256_movemask_ps(_mm256_cmp_ps(left, right, _CMP_UNORD_Q)) != 0;
  }

  WEFT_INLINE static Raw RoundPair(Bits even, Bits odd) {
    constexpr int kOdd = 0xaa;
    const __m256i kept = _mm256_blend_epi16(AsIntegers(even >> 16), AsIntegers(odd), kOdd);
    const __m256i dropped = _mm256_blend_epi16(AsIntegers(even), AsIntegers(odd << 16), kOdd);
    // The rounded mean with 0x7ffe, or 0x7fff if `kept` is odd, has 1 in its first bit to go up.
    const __m256i last = _mm256_and_si256(kept, _mm256_set1_epi16(1));
    const __m256i mean =
        _mm256_avg_epu16(dropped, _mm256_or_si256(last, _mm256_set1_epi16(0x7ffe)));
    return __builtin_bit_cast(Raw, _mm256_add_epi16(kept, _mm256_srli_epi16(mean, 15)));
  }

  WEFT_INLINE static __m256i AsIntegers(Bits bits) {
    return __builtin_bit_cast(__m256i, bits);
  }
#endif
};

#endif

// The plain form.
template <>
struct BfloatLanes<0> : FloatLanes<1> {
  using Raw = uint16_t;
  static constexpr int kElementBytes = 2;

  WEFT_INLINE static Value Unpack(Raw raw) { return FloatOfBfloat(raw); }

  WEFT_INLINE static Raw Pack(Value value) { return BfloatOfFloat(value); }
};

// float16 in memory, float32 in registers.
template <int kWidth>
struct HalfLanes;

template <>
struct HalfLanes<1> : FloatLanes<1> {
  using Raw = uint16_t;
  static constexpr int kElementBytes = 2;

  WEFT_INLINE static Value Unpack(Raw raw) { return FloatOfHalf(raw); }

  WEFT_INLINE static Raw Pack(Value value) { return HalfOfFloat(value); }
};

#if defined(__F16C__)
template <>
struct HalfLanes<8> : FloatLanes<8> {
  using Raw = __m128i;
  static constexpr int kElementBytes = 2;

  WEFT_INLINE static Value Unpack(Raw raw) { return static_cast<Value>(_mm256_cvtph_ps(raw)); }

  WEFT_INLINE static Raw Pack(Value value) {
    return _mm256_cvtps_ph(__builtin_bit_cast(__m256, OneNan(value)), _MM_FROUND_TO_NEAREST_INT);
  }
};
#endif

#if defined(__AVX512F__)
template <>
struct HalfLanes<16> : FloatLanes<16> {
  using Raw = __m256i;
  static constexpr int kElementBytes = 2;

  WEFT_INLINE static Value Unpack(Raw raw) { return static_cast<Value>(_mm512_cvtph_ps(raw)); }

  WEFT_INLINE static Raw Pack(Value value) {
    return _mm512_cvtps_ph(__builtin_bit_cast(__m512, OneNan(value)), _MM_FROUND_TO_NEAREST_INT);
  }
};
#endif

// kEveryCount: worth an unrolled tree for every small count of sources. kScaled: each source is
// multiplied by its factor first. See reduce_tree.h for both.
struct Operation {
  static constexpr bool kEveryCount = false;
  static constexpr bool kScaled = false;
};

struct Sum : Operation {
  static constexpr bool kEveryCount = true;

  template <typename Lanes, typename V>
  WEFT_INLINE static V Combine(V left, V right) {
    return static_cast<V>(left + right);
  }
};

struct RareSum : Sum {
  static constexpr bool kEveryCount = false;
};

struct ScaledSum : RareSum {
  static constexpr bool kScaled = true;
};

struct Product : Operation {
  template <typename Lanes, typename V>
  WEFT_INLINE static V Combine(V left, V right) {
    return static_cast<V>(left * right);
  }
};

// For floats, `a < b ? a : b` is b when the two are equal or one is NaN. The two operand orders
// together therefore hold both zeros, or the NaN and the number, and the union of their bits is -0
// and a NaN.
struct Minimum : Operation {
  template <typename Lanes, typename V>
  WEFT_INLINE static V Combine(V left, V right) {
    if constexpr (Lanes::kFloating) {
      using Bits = typename Lanes::Bits;
      const V one = left < right ? left : right;
      const V other = right < left ? right : left;
      return __builtin_bit_cast(V, __builtin_bit_cast(Bits, one) | __builtin_bit_cast(Bits, other));
    } else {
      return left < right ? left : right;
    }
  }
};

// As Minimum, but the zeros need the intersection; NaNs are put back by all ones.
struct Maximum : Operation {
  template <typename Lanes, typename V>
  WEFT_INLINE static V Combine(V left, V right) {
    if constexpr (Lanes::kFloating) {
      using Bits = typename Lanes::Bits;
      const V one = left > right ? left : right;
      const V other = right > left ? right : left;
      const Bits both = __builtin_bit_cast(Bits, one) & __builtin_bit_cast(Bits, other);
      const auto unordered = (left != left) | (right != right);
      return __builtin_bit_cast(V, unordered ? ~Bits{} : both);
    } else {
      return left > right ? left : right;
    }
  }
};

// Integers only.
struct BitAnd : Operation {
  template <typename Lanes, typename V>
  WEFT_INLINE static V Combine(V left, V right) {
    return static_cast<V>(left & right);
  }
};

struct BitOr : Operation {
  template <typename Lanes, typename V>
  WEFT_INLINE static V Combine(V left, V right) {
    return static_cast<V>(left | right);
  }
};

struct BitXor : Operation {
  template <typename Lanes, typename V>
  WEFT_INLINE static V Combine(V left, V right) {
    return static_cast<V>(left ^ right);
  }
};

}  // namespace
}  // namespace weft
