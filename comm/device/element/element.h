// The element types of a reduction as device kernels see them, one element at a time: what memory has, what sums are formed in, and
// how one becomes the other.
//
//   const float sum = Bfloat16::Widen(a) + Bfloat16::Widen(b);
//   const uint16_t bits = Bfloat16::Narrow(sum);            // rounded here, once
//
// nvcc compiles this for devices; the host's compiler does for the twins of the kernels (tests/device), which run the same expressions on
// a CPU. So it uses neither CUDA's headers nor std::. The numbers contract is comm/kernels/reduce.h's, and shares with it no code but the
// conversions of a single element.
//
// Thread-safety: pure functions.
#pragma once

#include "comm/kernels/conversions.h"

namespace weft::device {

// Of integers, which wrap: T is how they are compared and divided.
template <typename T, typename UnsignedT, typename WideT>
struct Integer {
  using Raw = T;
  using Accumulator = T;
  using Unsigned = UnsignedT;
  using Wide = WideT;  // int64_t or uint64_t
  static constexpr bool kFloating = false;
  static constexpr bool kBool = false;

  WEFT_INLINE static T Widen(T raw) { return raw; }

  WEFT_INLINE static T Narrow(T value) { return value; }

  WEFT_INLINE static T Scale(T value, uint64_t factor) {
    return static_cast<T>(
        static_cast<Unsigned>(static_cast<Unsigned>(value) * static_cast<Unsigned>(factor)));
  }

  // Toward zero.
  WEFT_INLINE static T Divide(T value, int64_t divisor) {
    return static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(divisor));
  }
};

using Int8 = Integer<int8_t, uint8_t, int64_t>;
using Uint8 = Integer<uint8_t, uint8_t, uint64_t>;
using Int32 = Integer<int32_t, uint32_t, int64_t>;
using Uint32 = Integer<uint32_t, uint32_t, uint64_t>;
using Int64 = Integer<int64_t, uint64_t, int64_t>;
using Uint64 = Integer<uint64_t, uint64_t, uint64_t>;

// Anything but 0 in memory is 1.
struct Bool : Uint8 {
  static constexpr bool kBool = true;

  WEFT_INLINE static uint8_t Widen(uint8_t raw) { return raw != 0 ? 1 : 0; }
};

// What the types have in common whose sums are formed in float32.
struct NarrowFloat {
  using Accumulator = float;
  static constexpr bool kFloating = true;
  static constexpr bool kBool = false;

  WEFT_INLINE static float Scale(float value, uint64_t factor) {
    return value * FloatOfBits(factor);
  }

  WEFT_INLINE static float Divide(float value, int64_t divisor) {
    return value / static_cast<float>(divisor);
  }
};

struct Float32 : NarrowFloat {
  using Raw = uint32_t;

  WEFT_INLINE static float Widen(uint32_t raw) { return FloatOfBits(raw); }

  WEFT_INLINE static uint32_t Narrow(float value) {
    return value != value ? 0x7fc00000u : __builtin_bit_cast(uint32_t, value);
  }
};

struct Float16 : NarrowFloat {
  using Raw = uint16_t;

#if defined(__CUDA_ARCH__)
  // As FloatOfHalf and HalfOfFloat, denormals included, by one instruction each.
  __device__ __forceinline__ static float Widen(uint16_t raw) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(raw));
    return value;
  }

  __device__ __forceinline__ static uint16_t Narrow(float value) {
    uint16_t raw;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(raw) : "f"(value));
    return value != value ? uint16_t{0x7e00} : raw;
  }
#else
  WEFT_INLINE static float Widen(uint16_t raw) {
    return FloatOfHalf(raw);
  }

  WEFT_INLINE static uint16_t Narrow(float value) {
    return HalfOfFloat(value);
  }
#endif
};

struct Bfloat16 : NarrowFloat {
  using Raw = uint16_t;

  WEFT_INLINE static float Widen(uint16_t raw) { return FloatOfBfloat(raw); }

  WEFT_INLINE static uint16_t Narrow(float value) { return BfloatOfFloat(value); }
};

template <typename Format>
struct Float8Element : NarrowFloat {
  using Raw = uint8_t;

  WEFT_INLINE static float Widen(uint8_t raw) { return Float8<Format>::Widen(raw); }

  WEFT_INLINE static uint8_t Narrow(float value) { return Float8<Format>::Narrow(value); }
};

using Float8E4m3 = Float8Element<E4m3>;
using Float8E5m2 = Float8Element<E5m2>;

struct Float64 {
  using Raw = uint64_t;
  using Accumulator = double;
  static constexpr bool kFloating = true;
  static constexpr bool kBool = false;

  WEFT_INLINE static double Widen(uint64_t raw) { return __builtin_bit_cast(double, raw); }

  WEFT_INLINE static uint64_t Narrow(double value) {
    return value != value ? 0x7ff8000000000000u : __builtin_bit_cast(uint64_t, value);
  }

  WEFT_INLINE static double Scale(double value, uint64_t factor) {
    return value * __builtin_bit_cast(double, factor);
  }

  WEFT_INLINE static double Divide(double value, int64_t divisor) {
    return value / static_cast<double>(divisor);
  }
};

}  // namespace weft::device
