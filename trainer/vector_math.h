// Short vectors and exp on them, for the files that are compiled once per instruction set.
//
// Include it only from ops_isa.cc, for which WEFT_KERNEL_ISA is set (cmake/kernels.cmake).
// Everything is in an anonymous namespace and nothing from the standard library is called: an inline
// function compiled for AVX-512 must never be the copy that the linker keeps for all.
#ifndef WEFT_TRAINER_VECTOR_MATH_H_
#define WEFT_TRAINER_VECTOR_MATH_H_

#include <cstddef>
#include <cstdint>

#include "trainer/ops.h"

namespace weft::trainer {
namespace {

constexpr size_t kVectorBytes = Isa::WEFT_KERNEL_ISA == Isa::kAvx512 ? 64
                                : Isa::WEFT_KERNEL_ISA == Isa::kAvx2 ? 32
                                                                     : 16;

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

template <typename T>
using Vec = typename VectorOf<T>::Type;

template <typename T>
constexpr size_t kLanes = kVectorBytes / sizeof(T);

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
template <typename T>
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
  Vec<T> p = Fill<T>(T(kInverse[B::kDegree]));
#pragma GCC unroll 16
  for (int i = B::kDegree - 1; i >= 0; i--)
    p = p * r + T(kInverse[i]);
  return (Vec<T>)((IntVec)p + ((IntVec)shifted << B::kMantissa));
}

// Calls body(offset, load, store) for whole vectors and once for the rest.
template <typename T, typename Body>
inline __attribute__((always_inline)) void ForVectors(size_t count, const Body& body) {
  size_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) {
    body(
        i, [](const T* p) __attribute__((always_inline)) { return Load(p); },
        [](T * p, Vec<T> v) __attribute__((always_inline)) { Store(p, v); });
  }
  if (i < count) {
    const size_t rest = count - i;
    body(
        i, [rest](const T* p) { return LoadPart(p, rest); },
        [rest](T* p, Vec<T> v) { StorePart(p, v, rest); });
  }
}

}  // namespace
}  // namespace weft::trainer

#endif  // WEFT_TRAINER_VECTOR_MATH_H_
