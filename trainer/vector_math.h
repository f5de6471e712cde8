// Short vectors and exp on them, for the files that are compiled once per instruction set.
//
// Include it only from ops_isa.cc and decoder_isa.cc, for which WEFT_KERNEL_ISA is set
// (cmake/kernels.cmake). Everything is in an anonymous namespace and nothing from the standard
// library is called: an inline function compiled for AVX-512 must never be the copy that the linker
// keeps for all.
#ifndef WEFT_TRAINER_VECTOR_MATH_H_
#define WEFT_TRAINER_VECTOR_MATH_H_

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "trainer/ops.h"

namespace weft::trainer {
namespace {

constexpr size_t kVectorBytes = Isa::WEFT_KERNEL_ISA == Isa::kScalar ? 16
                                : Isa::WEFT_KERNEL_ISA == Isa::kAvx2 ? 32
                                                                     : 64;

template <typename T>
struct WithoutReference {
  using Type = T;
};

template <typename T>
struct WithoutReference<T&> {
  using Type = T;
};

template <typename T>
using RemoveReference = typename WithoutReference<T>::Type;

// Numbers of 16 bits in memory, which may take the place of float's.
struct __attribute__((may_alias)) Bf16 {
  uint16_t bits;
};

struct Fp16 {
  uint16_t bits;
};

inline float FloatOfBits(uint32_t bits) {
  float f;
  __builtin_memcpy(&f, &bits, sizeof f);
  return f;
}

inline uint32_t BitsOf(float f) {
  uint32_t bits;
  __builtin_memcpy(&bits, &f, sizeof bits);
  return bits;
}

template <typename T>
struct Bits;

template <>
struct Bits<float> {
  using Int = uint32_t;  // unsigned: shifting out and wrapping is meant
  static constexpr int kMantissa = 23;
  static constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float kExpLow = -87.0f;      // results stay normal numbers
  static constexpr float kExpHigh = 88.0f;
  static constexpr float kLn2High = 0.693359375f;  // few bits, so that n * kLn2High is exact
  static constexpr float kLn2Low = -2.12194440e-4f;
  static constexpr int kDegree = 7;
};

template <>
struct Bits<double> {
  using Int = uint64_t;
  static constexpr int kMantissa = 52;
  static constexpr double kMagic = 6755399441055744.0;
  static constexpr double kExpLow = -708.0;
  static constexpr double kExpHigh = 709.0;
  static constexpr double kLn2High = 6.93145751953125e-1;
  static constexpr double kLn2Low = 1.42860682030941723212e-6;
  static constexpr int kDegree = 13;
};

template <typename T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
  typedef typename Bits<T>::Int Int __attribute__((vector_size(kVectorBytes)));
};

// They are computed with in float.
template <>
struct VectorOf<Bf16> : VectorOf<float> {};

template <typename T>
using Vec = typename VectorOf<T>::Type;

template <typename T>
constexpr size_t kLanes = kVectorBytes / sizeof(T);

// Load and Store convert numbers of 16 bits: Store rounds to nearest even and leaves NaN a NaN.
template <typename T>
inline __attribute__((always_inline)) Vec<T> Load(const T* p) {
  Vec<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <typename T>
inline __attribute__((always_inline)) void Store(T* p, Vec<T> v) {
  __builtin_memcpy(p, &v, sizeof v);
}

using Words = VectorOf<float>::Int;
typedef uint16_t Halves __attribute__((vector_size(kVectorBytes / 2)));

inline __attribute__((always_inline)) Vec<float> Load(const Bf16* p) {
  Halves halves;
  __builtin_memcpy(&halves, p, sizeof halves);
  return (Vec<float>)(__builtin_convertvector(halves, Words) << 16);
}

inline __attribute__((always_inline)) Words RoundToBf16(Vec<float> v) {
  const Words bits = (Words)v;
  const Words rounded = (bits + (0x7fffu + ((bits >> 16) & 1u))) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded;
}

// The instruction takes denormal numbers for zero.
inline __attribute__((always_inline)) void Store(Bf16* p, Vec<float> v) {
#ifdef __AVX512BF16__
  const Halves halves = (Halves)_mm512_cvtneps_pbh((__m512)v);
#else
  const Halves halves = __builtin_convertvector(RoundToBf16(v), Halves);
#endif
  __builtin_memcpy(p, &halves, sizeof halves);
}

// The first `count` < kLanes elements; the other lanes are zero.
template <typename T>
inline Vec<T> LoadPart(const T* p, size_t count) {
  Vec<T> v = {};
  for (size_t i = 0; i < count; i++)
    v[i] = p[i];
  return v;
}

template <typename T>
inline void StorePart(T* p, Vec<T> v, size_t count) {
  for (size_t i = 0; i < count; i++)
    p[i] = v[i];
}

#ifdef __AVX512F__
inline Vec<float> LoadPart(const float* p, size_t count) {
  return (Vec<float>)_mm512_maskz_loadu_ps(__mmask16((1u << count) - 1), p);
}

inline void StorePart(float* p, Vec<float> v, size_t count) {
  _mm512_mask_storeu_ps(p, __mmask16((1u << count) - 1), (__m512)v);
}
#endif

inline Vec<float> LoadPart(const Bf16* p, size_t count) {
  Bf16 whole[kLanes<float>] = {};
  __builtin_memcpy(whole, p, count * sizeof(Bf16));
  return Load(whole);
}

inline void StorePart(Bf16* p, Vec<float> v, size_t count) {
  Bf16 whole[kLanes<float>];
  Store(whole, v);
  __builtin_memcpy(p, whole, count * sizeof(Bf16));
}

template <typename T>
inline __attribute__((always_inline)) Vec<T> Fill(T x) {
  return x - Vec<T>{};
}

template <typename T>
inline T SumLanes(Vec<T> v) {
  T lanes[kLanes<T>];
  __builtin_memcpy(lanes, &v, sizeof v);
  for (size_t half = kLanes<T> / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; i++)
      lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// exp(x) = 2^n * exp(r), |r| <= ln2 / 2, the latter by its Taylor polynomial (error 5e-9 for float,
// 4e-18 for double). Arguments outside the normal range are clamped.
template <typename T, int kDegree = Bits<T>::kDegree>
inline __attribute__((always_inline)) Vec<T> Exp(Vec<T> x) {
  using B = Bits<T>;
  using IntVec = typename VectorOf<T>::Int;
  x = x < B::kExpLow ? Fill<T>(B::kExpLow) : x;
  x = x > B::kExpHigh ? Fill<T>(B::kExpHigh) : x;
  const Vec<T> shifted = x * T(1.44269504088896340736) + B::kMagic;
  const Vec<T> n = shifted - B::kMagic;
  Vec<T> r = x - n * B::kLn2High;
  r = r - n * B::kLn2Low;
  constexpr double kInverse[] = {1.,
                                 1.,
                                 1. / 2,
                                 1. / 6,
                                 1. / 24,
                                 1. / 120,
                                 1. / 720,
                                 1. / 5040,
                                 1. / 40320,
                                 1. / 362880,
                                 1. / 3628800,
                                 1. / 39916800,
                                 1. / 479001600,
                                 1. / 6227020800.};
  Vec<T> p = Fill<T>(T(kInverse[kDegree]));
#pragma GCC unroll 16
  for (int i = kDegree - 1; i >= 0; i--)
    p = p * r + T(kInverse[i]);
  return (Vec<T>)((IntVec)p + ((IntVec)shifted << B::kMantissa));
}

// Calls body(offset, load, store) for whole vectors and once for the rest.
template <typename T, typename Body>
inline __attribute__((always_inline)) void ForVectors(size_t count, const Body& body) {
  size_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) {
    body(
        i, [](const auto* p) __attribute__((always_inline)) { return Load(p); },
        [](auto* p, Vec<T> v) __attribute__((always_inline)) { Store(p, v); });
  }
  if (i < count) {
    const size_t rest = count - i;
    body(
        i, [rest](const auto* p) { return LoadPart(p, rest); },
        [rest](auto* p, Vec<T> v) { StorePart(p, v, rest); });
  }
}

}  // namespace
}  // namespace weft::trainer

#endif  // WEFT_TRAINER_VECTOR_MATH_H_
