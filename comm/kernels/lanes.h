// A few elements side by side, as one value: how they are loaded, combined and stored.
//
//   using Lanes = HalfLanes<8>;        // 8 float16 in memory, 8 float32 in a register
//   Lanes::Value sum = Lanes::Combine<Sum>(Lanes::Load(a), Lanes::Load(b));
//   Lanes::Store(to, sum);             // rounded here, once
//
// Included only by the translation units of one instruction set each (reduce_*.cc). Everything here
// has internal linkage and calls nothing of std::, so that no function compiled for AVX can be
// picked by the linker for a caller on a CPU without it. Width 1 is plain C++ on plain types; the
// same expressions on vector types (GCC's and clang's vector extension) are the SIMD forms.
//
// Stored NaNs are one quiet NaN per type: which operand's payload survives an addition depends on
// how the compiler ordered the operands, and results must not.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#define WEFT_INLINE [[gnu::always_inline]] inline

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
  static constexpr int kWidth = kWidthOf;
  static constexpr int kElementBytes = sizeof(T);
  static constexpr bool kFloating = false;

  WEFT_INLINE static Value Load(const char* from) { return LoadAs<Value>(from); }

  WEFT_INLINE static void Store(char* to, Value value) { StoreAs(to, value); }

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

  WEFT_INLINE static Value Load(const char* from) {
    const Value bytes = LoadAs<Value>(from);
    return bytes != 0 ? Value{} + uint8_t{1} : Value{};
  }
};

// The factors of premul_sum, see reduce_arguments.h.
WEFT_INLINE float FloatOfBits(uint64_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits));
}

// float32 and float64: kNan is the bit pattern that stands for every NaN.
template <typename T, typename BitsOf, BitsOf kNan, int kWidthOf>
struct FloatingLanes {
  using Scalar = T;
  using Value = Vector<T, kWidthOf>;
  using Bits = Vector<BitsOf, kWidthOf>;
  static constexpr int kWidth = kWidthOf;
  static constexpr int kElementBytes = sizeof(T);
  static constexpr bool kFloating = true;

  WEFT_INLINE static Value Load(const char* from) { return LoadAs<Value>(from); }

  WEFT_INLINE static Bits OneNan(Value value) {
    const Bits bits = __builtin_bit_cast(Bits, value);
    return value != value ? Bits{} + kNan : bits;
  }

  WEFT_INLINE static void Store(char* to, Value value) { StoreAs<Bits>(to, OneNan(value)); }

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

// float32 bits -> bfloat16 in their upper half, to nearest, ties to even, by integers on every ISA:
// vcvtneps2bf16 would flush denormals. A carry out of the mantissa is what overflow to infinity is;
// NaN must not be rounded into it. The lower half is left as rubbish.
template <typename Bits, typename Value>
WEFT_INLINE Bits RoundToUpperHalf(Value value) {
  const Bits bits = __builtin_bit_cast(Bits, value);
  const Bits rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return value != value ? Bits{} + 0x7fc00000u : rounded;
}

// bfloat16 in memory, float32 in registers. A register holds two elements per 32-bit word: the even
// ones are the lower halves, the odd ones the upper halves, which are float32 with the rest masked
// off. No lane is ever moved, so packing costs a shift and a mask.
template <int kWords>
struct BfloatLanes {
  using Scalar = float;
  using Float = Vector<float, kWords>;
  using Bits = Vector<uint32_t, kWords>;

  struct Value {
    Float even;
    Float odd;
  };

  static constexpr int kWidth = 2 * kWords;
  static constexpr int kElementBytes = 2;
  static constexpr bool kFloating = true;

  WEFT_INLINE static Value Load(const char* from) {
    const Bits words = LoadAs<Bits>(from);
    return {__builtin_bit_cast(Float, words << 16), __builtin_bit_cast(Float, words & 0xffff0000u)};
  }

  WEFT_INLINE static void Store(char* to, Value value) {
    const Bits even = RoundToUpperHalf<Bits>(value.even) >> 16;
    const Bits odd = RoundToUpperHalf<Bits>(value.odd) & 0xffff0000u;
    StoreAs<Bits>(to, even | odd);
  }

  template <typename Op>
  WEFT_INLINE static Value Combine(Value left, Value right) {
    return {Op::template Combine<BfloatLanes>(left.even, right.even),
            Op::template Combine<BfloatLanes>(left.odd, right.odd)};
  }

  WEFT_INLINE static Value Divide(Value value, Scalar divisor) {
    return {value.even / divisor, value.odd / divisor};
  }

  WEFT_INLINE static Value Scale(Value value, uint64_t factor) {
    const Scalar scalar = FloatOfBits(factor);
    return {value.even * scalar, value.odd * scalar};
  }
};

// The plain form.
template <>
struct BfloatLanes<0> : FloatLanes<1> {
  static constexpr int kElementBytes = 2;

  WEFT_INLINE static Value Load(const char* from) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(LoadAs<uint16_t>(from)) << 16);
  }

  WEFT_INLINE static void Store(char* to, Value value) {
    StoreAs(to, static_cast<uint16_t>(RoundToUpperHalf<Bits>(value) >> 16));
  }
};

// float16 bits -> float32, exact.
WEFT_INLINE float FloatOfHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity or NaN
    return __builtin_bit_cast(float, sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  }
  if (magnitude < 0x0400u) {  // zero or denormal: a count of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, value));
  }
  return __builtin_bit_cast(float, sign | ((magnitude << 13) + (112u << 23)));
}

// float32 -> float16 bits, to nearest, ties to even.
WEFT_INLINE uint16_t HalfOfFloat(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7e00u;
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 2^16 and above
  if (magnitude >= 0x38800000u) {  // normal; a carry may make it infinity
    const uint32_t rebased = magnitude - (112u << 23);
    return static_cast<uint16_t>(sign | (rebased + 0x0fffu + (rebased >> 13 & 1u)) >> 13);
  }
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);  // below half of 2^-24
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t shift = 126u - (magnitude >> 23);  // 14..24: to a count of 2^-24
  const uint32_t count = mantissa >> shift;
  const uint32_t below_tie = (1u << (shift - 1)) - 1u;
  return static_cast<uint16_t>(sign | (mantissa + below_tie + (count & 1u)) >> shift);
}

// float16 in memory, float32 in registers.
template <int kWidth>
struct HalfLanes;

template <>
struct HalfLanes<1> : FloatLanes<1> {
  static constexpr int kElementBytes = 2;

  WEFT_INLINE static Value Load(const char* from) { return FloatOfHalf(LoadAs<uint16_t>(from)); }

  WEFT_INLINE static void Store(char* to, Value value) { StoreAs(to, HalfOfFloat(value)); }
};

#if defined(__F16C__)
template <>
struct HalfLanes<8> : FloatLanes<8> {
  static constexpr int kElementBytes = 2;

  WEFT_INLINE static Value Load(const char* from) {
    return static_cast<Value>(_mm256_cvtph_ps(LoadAs<__m128i>(from)));
  }

  WEFT_INLINE static void Store(char* to, Value value) {
    StoreAs(to,
            _mm256_cvtps_ph(__builtin_bit_cast(__m256, OneNan(value)), _MM_FROUND_TO_NEAREST_INT));
  }
};
#endif

#if defined(__AVX512F__)
template <>
struct HalfLanes<16> : FloatLanes<16> {
  static constexpr int kElementBytes = 2;

  WEFT_INLINE static Value Load(const char* from) {
    return static_cast<Value>(_mm512_cvtph_ps(LoadAs<__m256i>(from)));
  }

  WEFT_INLINE static void Store(char* to, Value value) {
    StoreAs(to,
            _mm512_cvtps_ph(__builtin_bit_cast(__m512, OneNan(value)), _MM_FROUND_TO_NEAREST_INT));
  }
};
#endif

// kEveryCount: worth an unrolled tree for every small count of sources. kScaled: each source is
// multiplied by its factor first. See reduce_tree.h for both.
struct Sum {
  static constexpr bool kEveryCount = true;
  static constexpr bool kScaled = false;

  template <typename Lanes, typename V>
  WEFT_INLINE static V Combine(V left, V right) {
    return static_cast<V>(left + right);
  }
};

struct ScaledSum : Sum {
  static constexpr bool kEveryCount = false;
  static constexpr bool kScaled = true;
};

struct Product {
  static constexpr bool kEveryCount = false;
  static constexpr bool kScaled = false;

  template <typename Lanes, typename V>
  WEFT_INLINE static V Combine(V left, V right) {
    return static_cast<V>(left * right);
  }
};

// For floats, `a < b ? a : b` is b when the two are equal or one is NaN. The two operand orders
// together therefore hold both zeros, or the NaN and the number, and the union of their bits is -0
// and a NaN.
struct Minimum {
  static constexpr bool kEveryCount = false;
  static constexpr bool kScaled = false;

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
struct Maximum {
  static constexpr bool kEveryCount = false;
  static constexpr bool kScaled = false;

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
struct BitAnd {
  static constexpr bool kEveryCount = false;
  static constexpr bool kScaled = false;

  template <typename Lanes, typename V>
  WEFT_INLINE static V Combine(V left, V right) {
    return static_cast<V>(left & right);
  }
};

struct BitOr {
  static constexpr bool kEveryCount = false;
  static constexpr bool kScaled = false;

  template <typename Lanes, typename V>
  WEFT_INLINE static V Combine(V left, V right) {
    return static_cast<V>(left | right);
  }
};

struct BitXor {
  static constexpr bool kEveryCount = false;
  static constexpr bool kScaled = false;

  template <typename Lanes, typename V>
  WEFT_INLINE static V Combine(V left, V right) {
    return static_cast<V>(left ^ right);
  }
};

}  // namespace
}  // namespace weft
