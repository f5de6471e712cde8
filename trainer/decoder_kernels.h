// The product of one row with a matrix, and attention over kept keys and values.
//
// A matrix is read once, from its beginning to its end, in as many streams as a block has rows:
// that is all the time a product of one row takes. Where its rows are outputs, each is a sum along
// a row; where they are inputs, a block of rows is added to the outputs at a time, which stay in
// the first cache.
//
// Compiled once per instruction set; the rules stand in vector_math.h.
#ifndef WEFT_TRAINER_DECODER_KERNELS_H_
#define WEFT_TRAINER_DECODER_KERNELS_H_

#include <utility>

#include "trainer/decoder_ops.h"
#include "trainer/vector_math.h"

namespace weft::trainer {
namespace {

using Floats = Vec<float>;
using Words = typename VectorOf<float>::Int;

constexpr size_t kWidth = kLanes<float>;
constexpr size_t kPair = 2 * kWidth;  // numbers that are taken at a time
// Multiplications that a team of threads is worth waking for, which happens for every token and
// layer.
constexpr size_t kProductsWorthATeam = 1 << 14;

struct Pair {
  Floats first, second;
};

inline __attribute__((always_inline)) Pair LoadPair(const float* p) {
  return {Load(p), Load(p + kWidth)};
}

inline __attribute__((always_inline)) void StorePair(float* p, Pair pair) {
  Store(p, pair.first);
  Store(p + kWidth, pair.second);
}

// Weights of one type. Pairs of those of 16 bits are in an order of their own, which costs no
// shuffling of each: of every two numbers that follow each other one is in either vector. What they
// are multiplied with is put in that order, too.
struct Float32Weights {
  using Number = float;
  const float* at;

  static Pair Ordered(Pair natural) { return natural; }

  static Pair Natural(Pair ordered) { return ordered; }

  Pair Take(size_t i) const { return LoadPair(at + i); }
};

inline __attribute__((always_inline)) Words LoadWords(const uint16_t* p) {
  Words words;
  __builtin_memcpy(&words, p, sizeof words);
  return words;
}

// The even numbers of a pair, and the odd ones.
template <size_t... kI>
inline __attribute__((always_inline)) Pair EvenAndOdd(Pair p, std::index_sequence<kI...>) {
  return {__builtin_shufflevector(p.first, p.second, int(2 * kI)...),
          __builtin_shufflevector(p.first, p.second, int(2 * kI + 1)...)};
}

// The way back.
template <size_t... kI>
inline __attribute__((always_inline)) Pair OneOfEach(Pair p, std::index_sequence<kI...>) {
  return {__builtin_shufflevector(p.first, p.second, int(kI / 2 + kI % 2 * kWidth)...),
          __builtin_shufflevector(p.first, p.second, int((kI + kWidth) / 2 + kI % 2 * kWidth)...)};
}

struct Weights16 {
  using Number = uint16_t;
  const uint16_t* at;

  static Pair Ordered(Pair natural) {
    return EvenAndOdd(natural, std::make_index_sequence<kWidth>());
  }

  static Pair Natural(Pair ordered) {
    return OneOfEach(ordered, std::make_index_sequence<kWidth>());
  }
};

struct Bf16Weights : Weights16 {
  Pair Take(size_t i) const {
    const Words words = LoadWords(at + i);
    return {(Floats)(words << 16), (Floats)(words & 0xffff0000u)};
  }
};

// The exponents of the two types differ by 112, which a product makes up for, denormals included.
inline __attribute__((always_inline)) Floats FloatsOfFp16(Words x) {
  const Words magnitude = x & 0x7fffu;
  const Words finite = (Words)((Floats)(magnitude << 13) * 0x1p112f);
  const Words special = magnitude >= 0x7c00u ? (Words{} + 0x7f800000u) : Words{};
  return (Floats)(finite | special | ((x & 0x8000u) << 16));
}

struct Fp16Weights : Weights16 {
  Pair Take(size_t i) const {
    const Words words = LoadWords(at + i);
    return {FloatsOfFp16(words & 0xffffu), FloatsOfFp16(words >> 16)};
  }
};

// The first `count` < kPair numbers; the others are zero.
inline Pair LoadPartOfPair(const float* p, size_t count) {
  float part[kPair] = {};
  __builtin_memcpy(part, p, count * sizeof *p);
  return LoadPair(part);
}

template <typename Weights>
inline Weights Of(const typename Weights::Number* at) {
  Weights weights;
  weights.at = at;
  return weights;
}

template <typename Weights>
inline Pair TakePart(Weights w, size_t i, size_t count) {
  typename Weights::Number part[kPair] = {};
  __builtin_memcpy(part, w.at + i, count * sizeof part[0]);
  return Of<Weights>(part).Take(0);
}

// Begins to fetch what a later Take will read. A row of 16 bits ends before the hardware has
// learned to fetch ahead: with the next rows on their way while these are summed the product reads
// 31 GB/s instead of 20 (AMD EPYC, one core).
template <typename Number>
inline __attribute__((always_inline)) void FetchPair(const Number* at) {
  constexpr size_t kLine = 64 / sizeof(Number);
  for (size_t i = 0; i < kPair; i += kLine)
    __builtin_prefetch(at + i);
}

// Outputs `first` to `first` + kRows - 1, each the sum along a row of k weights.
template <size_t kRows, typename Weights>
inline void SumAlongRows(const float* x, Weights w, const float* bias, float* y, size_t k,
                         size_t first) {
  Pair sums[kRows] = {};
  const auto add = [&](Pair in, auto take) __attribute__((always_inline)) {
    in = Weights::Ordered(in);
    for (size_t r = 0; r < kRows; r++) {
      const Pair row = take((first + r) * k);
      sums[r].first += in.first * row.first;
      sums[r].second += in.second * row.second;
    }
  };
  size_t i = 0;
  for (; i + kPair <= k; i += kPair)
    add(
        LoadPair(x + i), [&](size_t at) __attribute__((always_inline)) {
          FetchPair(w.at + at + kRows * k + i);
          return w.Take(at + i);
        });
  if (i < k)
    add(LoadPartOfPair(x + i, k - i), [&](size_t at) { return TakePart(w, at + i, k - i); });
  for (size_t r = 0; r < kRows; r++) {
    const float sum = SumLanes<float>(sums[r].first + sums[r].second);
    y[first + r] = bias == nullptr ? sum : sum + bias[first + r];
  }
}

template <typename Weights>
void SumAlong(const float* x, Weights w, const float* bias, float* y, size_t k, size_t begin,
              size_t end) {
  constexpr size_t kRows = 4;
  size_t j = begin;
  for (; j + kRows <= end; j += kRows)
    SumAlongRows<kRows>(x, w, bias, y, k, j);
  for (; j < end; j++)
    SumAlongRows<1>(x, w, bias, y, k, j);
}

// Adds x[first + r] times row `first` + r of n weights to the outputs from `begin` to `end`.
template <size_t kRows, typename Weights>
inline void AddRows(const float* x, Weights w, float* y, size_t n, size_t first, size_t begin,
                    size_t end) {
  const auto sum = [&](Pair out, auto take) __attribute__((always_inline)) {
    out = Weights::Ordered(out);
    for (size_t r = 0; r < kRows; r++) {
      const Pair row = take((first + r) * n);
      out.first += x[first + r] * row.first;
      out.second += x[first + r] * row.second;
    }
    return Weights::Natural(out);
  };
  size_t j = begin;
  for (; j + kPair <= end; j += kPair) {
    StorePair(y + j, sum(
                         LoadPair(y + j), [&](size_t at) __attribute__((always_inline)) {
                           return w.Take(at + j);
                         }));
  }
  if (j == end) return;
  float part[kPair];
  StorePair(part, sum(LoadPartOfPair(y + j, end - j),
                      [&](size_t at) { return TakePart(w, at + j, end - j); }));
  __builtin_memcpy(y + j, part, (end - j) * sizeof *y);
}

template <typename Weights>
void AddUp(const float* x, Weights w, const float* bias, float* y, size_t k, size_t n, size_t begin,
           size_t end) {
  constexpr size_t kRows = 8;
  for (size_t j = begin; j < end; j++)
    y[j] = bias == nullptr ? 0 : bias[j];
  size_t i = 0;
  for (; i + kRows <= k; i += kRows)
    AddRows<kRows>(x, w, y, n, i, begin, end);
  for (; i < k; i++)
    AddRows<1>(x, w, y, n, i, begin, end);
}

// Parts end at whole pairs, so that each output is summed in the same way wherever its part ends.
template <typename Weights>
void ProductOf(const float* x, Weights w, const float* bias, float* y, const RowProductShape& shape,
               size_t parts) {
  const size_t of_a_part = ((shape.n + parts - 1) / parts + kPair - 1) / kPair * kPair;
#pragma omp parallel for schedule(static, \
                                  1) if (parts > 1 && shape.k * shape.n >= kProductsWorthATeam)
  for (size_t part = 0; part < parts; part++) {
    const size_t begin = part * of_a_part < shape.n ? part * of_a_part : shape.n;
    const size_t end = shape.n - begin < of_a_part ? shape.n : begin + of_a_part;
    if (shape.transposed) {
      SumAlong(x, w, bias, y, shape.k, begin, end);
    } else {
      AddUp(x, w, bias, y, shape.k, shape.n, begin, end);
    }
  }
}

void RowProduct(const float* x, Numbers w, const float* bias, float* y,
                const RowProductShape& shape, size_t parts) {
  const auto* const halves = static_cast<const uint16_t*>(w.data);
  switch (w.type) {
    case NumberType::kBf16:
      return ProductOf(x, Of<Bf16Weights>(halves), bias, y, shape, parts);
    case NumberType::kFp16:
      return ProductOf(x, Of<Fp16Weights>(halves), bias, y, shape, parts);
    default:  // weights are never of 64 bits where activations have 32
      return ProductOf(x, Of<Float32Weights>(static_cast<const float*>(w.data)), bias, y, shape,
                       parts);
  }
}

inline float Dot(const float* a, const float* b, size_t count) {
  Floats sum = {};
  ForVectors<float>(count, [&](size_t i, auto load, auto) { sum += load(a + i) * load(b + i); });
  return SumLanes<float>(sum);
}

// Replaces scores by exp(score - the largest), and returns their sum.
inline float Softmax(float* scores, size_t count) {
  float top = scores[0];
  for (size_t i = 1; i < count; i++)
    top = scores[i] > top ? scores[i] : top;
  Floats sums = {};
  size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    const Floats p = Exp<float>(Load(scores + i) - top);
    sums += p;
    Store(scores + i, p);
  }
  float sum = SumLanes<float>(sums);
  if (i < count) {
    const Floats p = Exp<float>(LoadPart(scores + i, count - i) - top);
    StorePart(scores + i, p, count - i);
    for (; i < count; i++)
      sum += scores[i];
  }
  return sum;
}

// out = the sum of p[j] times row j of the values, over `scale`.
inline void Mix(const float* p, const float* values, float scale, float* out, size_t count,
                size_t dim) {
  ForVectors<float>(dim, [&](size_t i, auto load, auto store) {
    Floats sum = {};
    for (size_t j = 0; j < count; j++)
      sum += p[j] * load(values + j * dim + i);
    store(out + i, sum * scale);
  });
}

void AttendHead(const float* q, size_t first, size_t rows, const KeyValueCache& cache, size_t head,
                float* out, float* scores) {
  const size_t dim = cache.head_dim;
  const size_t ld = (cache.group + 2) * cache.heads * dim;  // between rows of q
  float* const keys = cache.keys + head * cache.capacity * dim;
  float* const values = cache.values + head * cache.capacity * dim;
  for (size_t row = 0; row < rows; row++) {
    const float* const k = q + row * ld + cache.group * dim;
    __builtin_memcpy(keys + (first + row) * dim, k, dim * sizeof *k);
    __builtin_memcpy(values + (first + row) * dim, k + dim, dim * sizeof *k);
  }
  const float scale = 1 / __builtin_sqrtf(float(dim));
  for (size_t row = 0; row < rows; row++) {
    const size_t seen = first + row + 1;
    for (size_t i = 0; i < cache.group; i++) {
      for (size_t j = 0; j < seen; j++)
        scores[j] = Dot(q + row * ld + i * dim, keys + j * dim, dim) * scale;
      const float sum = Softmax(scores, seen);
      Mix(scores, values, 1 / sum, out + (row * cache.heads * cache.group + i) * dim, seen, dim);
    }
  }
}

void Attend(const float* qkv, size_t first, size_t rows, const KeyValueCache& cache, float* out,
            float* scores) {
  const size_t products = rows * (first + rows) * cache.heads * cache.head_dim;
#pragma omp parallel for schedule(static) if (products >= kProductsWorthATeam)
  for (size_t head = 0; head < cache.heads; head++) {
    AttendHead(qkv + head * (cache.group + 2) * cache.head_dim, first, rows, cache, head,
               out + head * cache.group * cache.head_dim, scores + head * cache.capacity);
  }
}

}  // namespace
}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DECODER_KERNELS_H_
