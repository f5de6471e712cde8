// The small matrix product that attention is made of: of T's, or of pairs of bfloat16, whose
// products are added in float32.
//
// Compiled once per instruction set; the rules stand in vector_math.h.
#ifndef WEFT_TRAINER_PRODUCT_KERNELS_H_
#define WEFT_TRAINER_PRODUCT_KERNELS_H_

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#include "trainer/vector_math.h"

namespace weft::trainer {
namespace {

// Two bfloat16 that are multiplied with two others and added up; the first is the lower half.
// Numbers that stand side by side may be read as pairs where they are.
struct __attribute__((may_alias)) Pair {
  uint32_t bits;
};

// They are multiplied and added in float.
template <>
struct VectorOf<Pair> : VectorOf<float> {};

template <typename E>
struct SumOf {
  using Type = E;
  using Row = Vec<E>;
};

template <>
struct SumOf<Pair> {
  using Type = float;
  using Row = Words;
};

template <typename E>
using Sum = typename SumOf<E>::Type;

inline float Low(Pair x) {
  return FloatOfBits(x.bits << 16);
}

inline float High(Pair x) {
  return FloatOfBits(x.bits & 0xffff0000u);
}

template <typename T>
inline T MultiplyAdd(T sum, T a, T b) {
  return sum + a * b;
}

inline float MultiplyAdd(float sum, Pair a, Pair b) {
  return sum + Low(a) * Low(b) + High(a) * High(b);
}

template <typename T>
inline __attribute__((always_inline)) Vec<T> MultiplyAddRow(Vec<T> sum, T x, Vec<T> row) {
  return sum + x * row;
}

inline __attribute__((always_inline)) Vec<float> MultiplyAddRow(Vec<float> sum, Pair x, Words row) {
#ifdef __AVX512BF16__
  return (Vec<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)(x.bits - Words{}), (__m512bh)row);
#else
  sum += Low(x) * (Vec<float>)(row << 16);
  return sum + High(x) * (Vec<float>)(row & 0xffff0000u);
#endif
}

// 8 x 2 accumulators of AVX-512's 32 registers, 4 x 2 of 16.
constexpr size_t kTileRows = kVectorBytes == 64 ? 8 : 4;
constexpr size_t kTileVectors = 2;

// One operand addressed by two strides.
template <typename E>
struct Strided {
  const E* at;
  size_t row;
  size_t column;
};

template <typename E, size_t kRows, size_t kVectors>
inline __attribute__((always_inline)) void Tile(size_t k, Strided<E> a, const E* b, size_t ldb,
                                                Sum<E>* c, size_t ldc, bool accumulate) {
  using Row = typename SumOf<E>::Row;
  constexpr size_t kWidth = kVectorBytes / sizeof(E);
  Vec<Sum<E>> sums[kRows][kVectors];
  for (size_t i = 0; i < kRows; i++) {
    for (size_t j = 0; j < kVectors; j++) {
      sums[i][j] = accumulate ? Load(c + i * ldc + j * kWidth) : Vec<Sum<E>>{};
    }
  }
  for (size_t p = 0; p < k; p++) {
    Row row[kVectors];
    for (size_t j = 0; j < kVectors; j++)
      __builtin_memcpy(&row[j], b + p * ldb + j * kWidth, sizeof(Row));
    for (size_t i = 0; i < kRows; i++) {
      const E x = a.at[i * a.row + p * a.column];
      for (size_t j = 0; j < kVectors; j++)
        sums[i][j] = MultiplyAddRow(sums[i][j], x, row[j]);
    }
  }
  for (size_t i = 0; i < kRows; i++) {
    for (size_t j = 0; j < kVectors; j++)
      Store(c + i * ldc + j * kWidth, sums[i][j]);
  }
}

template <typename E, size_t kRows>
inline void Stripe(size_t n, size_t k, Strided<E> a, const E* b, size_t ldb, Sum<E>* c, size_t ldc,
                   bool accumulate) {
  constexpr size_t kWidth = kVectorBytes / sizeof(E);
  size_t j = 0;
  for (; j + kTileVectors * kWidth <= n; j += kTileVectors * kWidth) {
    Tile<E, kRows, kTileVectors>(k, a, b + j, ldb, c + j, ldc, accumulate);
  }
  for (; j + kWidth <= n; j += kWidth) {
    Tile<E, kRows, 1>(k, a, b + j, ldb, c + j, ldc, accumulate);
  }
  for (; j < n; j++) {
    for (size_t i = 0; i < kRows; i++) {
      Sum<E> sum = accumulate ? c[i * ldc + j] : Sum<E>(0);
      for (size_t p = 0; p < k; p++)
        sum = MultiplyAdd(sum, a.at[i * a.row + p * a.column], b[p * ldb + j]);
      c[i * ldc + j] = sum;
    }
  }
}

// c[m, n] (+)= a[m, k] b[k, n]
template <typename E>
// NOLINTNEXTLINE(readability-function-size): as GEMM is called
inline void Multiply(size_t m, size_t n, size_t k, Strided<E> a, const E* b, size_t ldb, Sum<E>* c,
                     size_t ldc, bool accumulate) {
  size_t i = 0;
  for (; i + kTileRows <= m; i += kTileRows) {
    Stripe<E, kTileRows>(n, k, {a.at + i * a.row, a.row, a.column}, b, ldb, c + i * ldc, ldc,
                         accumulate);
  }
  for (; i < m; i++) {
    Stripe<E, 1>(n, k, {a.at + i * a.row, a.row, a.column}, b, ldb, c + i * ldc, ldc, accumulate);
  }
}

template <typename T>
// NOLINTNEXTLINE(readability-function-size): as GEMM is called
void SmallMatmul(size_t m, size_t n, size_t k, const T* a, size_t a_row, size_t a_column,
                 const T* b, size_t ldb, T* c, size_t ldc, bool accumulate) {
  Multiply<T>(m, n, k, {a, a_row, a_column}, b, ldb, c, ldc, accumulate);
}

// to[columns, rows], by blocks whose lines stay in the cache.
template <typename E>
inline void Transpose(const E* from, size_t ld, E* to, size_t rows, size_t columns) {
  constexpr size_t kLine = 64 / sizeof(E);
  for (size_t first = 0; first < rows; first += kLine) {
    const size_t last = first + kLine < rows ? first + kLine : rows;
    for (size_t j = 0; j < columns; j++) {
      for (size_t i = first; i < last; i++)
        to[j * rows + i] = from[i * ld + j];
    }
  }
}

}  // namespace
}  // namespace weft::trainer

#endif  // WEFT_TRAINER_PRODUCT_KERNELS_H_
