// The operations of ops.h as templates, compiled once per instruction set (ops_isa.cc).
//
// Rules of such a file (see vector_math.h): anonymous namespace, no standard library calls.
#ifndef WEFT_TRAINER_OPS_KERNELS_H_
#define WEFT_TRAINER_OPS_KERNELS_H_

#ifdef _OPENMP
#include <omp.h>
#endif

#include "trainer/vector_math.h"

namespace weft::trainer {
namespace {

// Numbers that a team of threads is worth waking for.
constexpr size_t kWorthATeam = 1 << 14;

// Calls body(row) for each of the rows of so many numbers.
template <typename Body>
inline void ForRows(size_t rows, size_t columns, const Body& body) {
#pragma omp parallel for schedule(static) if (rows * columns >= kWorthATeam)
  for (size_t row = 0; row < rows; row++)
    body(row);
}

// Calls body(first, count) for ranges of columns that are a thread's own: sums over rows come out
// the same for any number of threads.
template <typename T, typename Body>
inline void ForColumns(size_t rows, size_t columns, const Body& body) {
  const size_t vectors = (columns + kLanes<T> - 1) / kLanes<T>;
#pragma omp parallel if (rows * columns >= kWorthATeam)
  {
    size_t threads = 1, thread = 0;
#ifdef _OPENMP
    threads = size_t(omp_get_num_threads());
    thread = size_t(omp_get_thread_num());
#endif
    const size_t first = vectors * thread / threads * kLanes<T>;
    const size_t end = vectors * (thread + 1) / threads * kLanes<T>;
    const size_t last = end < columns ? end : columns;
    if (first < last) body(first, last - first);
  }
}

// Calls body(first, count) for parts of so many numbers.
template <typename Body>
inline void ForParts(size_t numbers, const Body& body) {
  constexpr size_t kPart = 4096;
  ForRows((numbers + kPart - 1) / kPart, kPart, [&](size_t part) {
    const size_t first = part * kPart;
    body(first, numbers - first < kPart ? numbers - first : kPart);
  });
}

// Calls body with a pointer to T's or to Bf16's.
template <typename T, typename Body>
inline __attribute__((always_inline)) void OfTheirType(Numbers x, const Body& body) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (x.type == NumberType::kBf16) return body(static_cast<const Bf16*>(x.data));
  }
  body(static_cast<const T*>(x.data));
}

template <typename T, typename Body>
inline __attribute__((always_inline)) void OfTheirType(MutableNumbers x, const Body& body) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (x.type == NumberType::kBf16) return body(static_cast<Bf16*>(x.data));
  }
  body(static_cast<T*>(x.data));
}

// The other numbers of a call whose type is that of the first.
template <typename E>
inline const E* OfSameType(const E*, Numbers x) {
  return static_cast<const E*>(x.data);
}

template <typename E>
inline E* OfSameType(const E*, MutableNumbers x) {
  return static_cast<E*>(x.data);
}

template <typename T>
void ExpAll(const T* x, T* y, size_t count) {
  ForVectors<T>(count, [&](size_t i, auto load, auto store) { store(y + i, Exp<T>(load(x + i))); });
}

template <typename T>
inline void AddRow(const T* a, const T* b, T* out, size_t count) {
  ForVectors<T>(
      count, [&](size_t i, auto load, auto store) { store(out + i, load(a + i) + load(b + i)); });
}

template <typename T>
void Add(const T* a, const T* b, T* out, size_t count) {
  ForParts(count,
           [&](size_t first, size_t part) { AddRow(a + first, b + first, out + first, part); });
}

inline float Wide(float x) {
  return x;
}

inline double Wide(double x) {
  return x;
}

inline float Wide(Bf16 x) {
  return FloatOfBits(uint32_t(x.bits) << 16);
}

// The exponents of the two types differ by 112, which a product makes up for, denormals included.
inline float Wide(Fp16 x) {
  const uint32_t magnitude = x.bits & 0x7fffu;
  const uint32_t finite = BitsOf(FloatOfBits(magnitude << 13) * 0x1p112f);
  const uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  return FloatOfBits(finite | special | (uint32_t(x.bits & 0x8000u) << 16));
}

template <typename T, typename From>
void WidenFrom(const void* x, T* y, size_t count) {
  const From* from = static_cast<const From*>(x);
  ForParts(count, [&](size_t first, size_t part) {
    for (size_t i = first; i < first + part; i++)
      y[i] = T(Wide(from[i]));
  });
}

template <typename T>
void Widen(Numbers x, T* y, size_t count) {
  switch (x.type) {
    case NumberType::kFloat32:
      return WidenFrom<T, float>(x.data, y, count);
    case NumberType::kFloat64:
      return WidenFrom<T, double>(x.data, y, count);
    case NumberType::kBf16:
      return WidenFrom<T, Bf16>(x.data, y, count);
    case NumberType::kFp16:
      return WidenFrom<T, Fp16>(x.data, y, count);
  }
}

template <typename T, typename From>
void EmbedFrom(const Token* tokens, const void* wte, const void* wpe, T* out, size_t batch,
               size_t seq, size_t width) {
  ForRows(batch * seq, width, [&](size_t row) {
    const From* token = static_cast<const From*>(wte) + size_t(tokens[row]) * width;
    T* to = out + row * width;
    if (wpe == nullptr) {
      for (size_t i = 0; i < width; i++)
        to[i] = T(Wide(token[i]));
      return;
    }
    const From* position = static_cast<const From*>(wpe) + (row % seq) * width;
    for (size_t i = 0; i < width; i++)
      to[i] = T(Wide(token[i])) + T(Wide(position[i]));
  });
}

template <typename T>
void Embed(const Token* tokens, Numbers wte, Numbers wpe, T* out, size_t batch, size_t seq,
           size_t width) {
  switch (wte.type) {
    case NumberType::kFloat32:
      return EmbedFrom<T, float>(tokens, wte.data, wpe.data, out, batch, seq, width);
    case NumberType::kFloat64:
      return EmbedFrom<T, double>(tokens, wte.data, wpe.data, out, batch, seq, width);
    case NumberType::kBf16:
      return EmbedFrom<T, Bf16>(tokens, wte.data, wpe.data, out, batch, seq, width);
    case NumberType::kFp16:
      return EmbedFrom<T, Fp16>(tokens, wte.data, wpe.data, out, batch, seq, width);
  }
}

template <typename T>
void EmbedBackward(const Token* tokens, const T* dout, T* dwte, T* dwpe, size_t batch, size_t seq,
                   size_t width) {
  ForColumns<T>(batch * seq, width, [&](size_t first, size_t count) {
    for (size_t row = 0; row < batch * seq; row++) {
      T* token = dwte + size_t(tokens[row]) * width + first;
      AddRow(token, dout + row * width + first, token, count);
      if (dwpe == nullptr) continue;
      T* position = dwpe + (row % seq) * width + first;
      AddRow(position, dout + row * width + first, position, count);
    }
  });
}

constexpr double kNormEpsilon = 1e-5;

template <typename T>
inline T SquareRoot(T x) {
  return sizeof(T) == 4 ? T(__builtin_sqrtf(float(x))) : T(__builtin_sqrt(double(x)));
}

template <typename T, typename Out>
inline void NormRow(const T* in, const T* gamma, const T* beta, Out* to, T* mean, T* rstd,
                    size_t width) {
  Vec<T> sum = {};
  ForVectors<T>(width, [&](size_t i, auto load, auto) { sum += load(in + i); });
  const T mu = SumLanes<T>(sum) / T(width);
  T square = 0;
  Vec<T> squares = {};
  size_t i = 0;
  for (; i + kLanes<T> <= width; i += kLanes<T>) {
    const Vec<T> d = Load(in + i) - mu;
    squares += d * d;
  }
  for (; i < width; i++)
    square += (in[i] - mu) * (in[i] - mu);
  const T variance = (SumLanes<T>(squares) + square) / T(width);
  const T inverse = T(1) / SquareRoot<T>(variance + T(kNormEpsilon));
  ForVectors<T>(width, [&](size_t j, auto load, auto store) {
    store(to + j, (load(in + j) - mu) * inverse * load(gamma + j) + load(beta + j));
  });
  *mean = mu;
  *rstd = inverse;
}

template <typename T>
void LayerNorm(const T* x, const T* gamma, const T* beta, MutableNumbers out, T* mean, T* rstd,
               size_t rows, size_t width) {
  const size_t stride = out.StrideOf(width);
  OfTheirType<T>(out, [&](auto* to) {
    ForRows(rows, width, [&](size_t row) {
      NormRow(x + row * width, gamma, beta, to + row * stride, mean + row, rstd + row, width);
    });
  });
}

// One row's dx.
template <typename T>
inline void NormRowBackward(const T* d, const T* in, const T* gamma, T mu, T inverse, T* to,
                            size_t width) {
  Vec<T> sum = {};      // of g = dout * gamma
  Vec<T> sum_hat = {};  // of g * xhat; lanes past the end have g = 0
  ForVectors<T>(width, [&](size_t i, auto load, auto) {
    const Vec<T> hat = (load(in + i) - mu) * inverse;
    const Vec<T> g = load(d + i) * load(gamma + i);
    sum += g;
    sum_hat += g * hat;
  });
  const T average = SumLanes<T>(sum) / T(width);
  const T average_hat = SumLanes<T>(sum_hat) / T(width);
  ForVectors<T>(width, [&](size_t i, auto load, auto store) {
    const Vec<T> hat = (load(in + i) - mu) * inverse;
    const Vec<T> g = load(d + i) * load(gamma + i);
    store(to + i, load(to + i) + (g - average - hat * average_hat) * inverse);
  });
}

// Rows whose numbers are added to a column's sum between reading and writing it.
constexpr size_t kRowsAtOnce = 4;

// Some columns' dgamma and dbeta, added in the order of the rows.
template <typename T>
// NOLINTNEXTLINE(readability-function-size): of Ops<T>::layer_norm_backward
inline void NormColumnsBackward(const T* dout, const T* x, const T* mean, const T* rstd, T* dgamma,
                                T* dbeta, size_t rows, size_t width, size_t count) {
  for (size_t first = 0; first < rows; first += kRowsAtOnce) {
    const size_t some = rows - first < kRowsAtOnce ? rows - first : kRowsAtOnce;
    ForVectors<T>(count, [&](size_t i, auto load, auto store) {
      Vec<T> gain = load(dgamma + i), bias = load(dbeta + i);
      for (size_t row = first; row < first + some; row++) {
        const Vec<T> dy = load(dout + row * width + i);
        gain += dy * ((load(x + row * width + i) - mean[row]) * rstd[row]);
        bias += dy;
      }
      store(dgamma + i, gain);
      store(dbeta + i, bias);
    });
  }
}

template <typename T>
// NOLINTNEXTLINE(readability-function-size): of Ops<T>
void LayerNormBackward(const T* dout, const T* x, const T* gamma, const T* mean, const T* rstd,
                       T* dx, T* dgamma, T* dbeta, size_t rows, size_t width) {
  ForColumns<T>(rows, width, [&](size_t first, size_t count) {
    NormColumnsBackward(dout + first, x + first, mean, rstd, dgamma + first, dbeta + first, rows,
                        width, count);
  });
  ForRows(rows, width, [&](size_t row) {
    NormRowBackward(dout + row * width, x + row * width, gamma, mean[row], rstd[row],
                    dx + row * width, width);
  });
}

// Of numbers that are rounded to bfloat16 a polynomial of exp with an error of 2e-6 is enough.
template <typename E, typename T>
constexpr int kExpDegree = sizeof(E) == sizeof(Bf16) ? 5 : Bits<T>::kDegree;

// gelu(x) = x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the tanh form without a tanh. E:
// what comes of it is rounded to.
template <typename E, typename T>
inline __attribute__((always_inline)) Vec<T> GeluSigmoid(Vec<T> x) {
  constexpr T kA = T(2 * 0.79788456080286535588);
  const Vec<T> u2 = x * (kA + T(kA * T(0.044715)) * x * x);
  return T(1) / (T(1) + Exp<T, kExpDegree<E, T>>(-u2));
}

template <typename T, typename X>
inline void GeluRow(const X* x, X* out, size_t count) {
  ForVectors<T>(count, [&](size_t i, auto load, auto store) {
    const Vec<T> v = load(x + i);
    store(out + i, v * GeluSigmoid<X, T>(v));
  });
}

template <typename T>
void Gelu(Numbers x, MutableNumbers out, size_t rows, size_t columns) {
  const size_t x_stride = x.StrideOf(columns), out_stride = out.StrideOf(columns);
  OfTheirType<T>(out, [&](auto* to) {
    const auto* from = OfSameType(to, x);
    ForRows(rows, columns,
            [&](size_t row) { GeluRow<T>(from + row * x_stride, to + row * out_stride, columns); });
  });
}

// One row's; adds it to the sums.
template <typename T, typename X>
inline void GeluRowBackward(const X* x, const X* dout, X* dx, T* sums, size_t count) {
  constexpr T kA = T(2 * 0.79788456080286535588);
  ForVectors<T>(count, [&](size_t i, auto load, auto store) {
    const Vec<T> v = load(x + i);
    const Vec<T> s = GeluSigmoid<X, T>(v);
    const Vec<T> du2 = kA + T(3 * 0.044715) * kA * v * v;
    const Vec<T> d = load(dout + i) * (s + v * s * (T(1) - s) * du2);
    store(dx + i, d);
    store(sums + i, load(sums + i) + d);
  });
}

template <typename T>
void GeluBackward(Numbers x, Numbers dout, MutableNumbers dx, T* sums, size_t rows,
                  size_t columns) {
  const size_t x_stride = x.StrideOf(columns), d_stride = dout.StrideOf(columns);
  const size_t stride = dx.StrideOf(columns);
  OfTheirType<T>(dx, [&](auto* to) {
    const auto* in = OfSameType(to, x);
    const auto* d = OfSameType(to, dout);
    ForColumns<T>(rows, columns, [&](size_t first, size_t count) {
      for (size_t row = 0; row < rows; row++) {
        GeluRowBackward(in + row * x_stride + first, d + row * d_stride + first,
                        to + row * stride + first, sums + first, count);
      }
    });
  });
}

template <typename T, typename X>
inline void ColumnSumOf(const X* x, T* sums, size_t rows, size_t stride, size_t count) {
  for (size_t first = 0; first < rows; first += kRowsAtOnce) {
    const size_t some = rows - first < kRowsAtOnce ? rows - first : kRowsAtOnce;
    ForVectors<T>(count, [&](size_t i, auto load, auto store) {
      Vec<T> sum = load(sums + i);
      for (size_t row = first; row < first + some; row++)
        sum += load(x + row * stride + i);
      store(sums + i, sum);
    });
  }
}

template <typename T>
void ColumnSum(Numbers x, T* sums, size_t rows, size_t columns) {
  OfTheirType<T>(x, [&](const auto* from) {
    ForColumns<T>(rows, columns, [&](size_t first, size_t count) {
      ColumnSumOf(from + first, sums + first, rows, x.StrideOf(columns), count);
    });
  });
}

template <typename T>
void Narrow(const T* x, MutableNumbers out, T* sums, size_t rows, size_t columns) {
  const size_t stride = out.StrideOf(columns);
  OfTheirType<T>(out, [&](auto* to) {
    ForColumns<T>(rows, columns, [&](size_t first, size_t count) {
      for (size_t row = 0; row < rows; row++) {
        const T* const from = x + row * columns + first;
        ForVectors<T>(count, [&](size_t i, auto load, auto store) {
          const Vec<T> v = load(from + i);
          store(to + row * stride + first + i, v);
          if (sums != nullptr) store(sums + first + i, load(sums + first + i) + v);
        });
      }
    });
  });
}

template <typename T>
inline T RowMax(const T* x, size_t count) {
  T best = x[0];
  size_t i = 0;
  if (count >= kLanes<T>) {
    Vec<T> top = Load(x);
    for (i = kLanes<T>; i + kLanes<T> <= count; i += kLanes<T>) {
      const Vec<T> v = Load(x + i);
      top = v > top ? v : top;
    }
    for (size_t lane = 0; lane < kLanes<T>; lane++)
      best = top[lane] > best ? top[lane] : best;
  }
  for (; i < count; i++)
    best = x[i] > best ? x[i] : best;
  return best;
}

// y = exp(x * scale - shift) and returns the sum of y; y may be x.
template <typename T, int kDegree = Bits<T>::kDegree>
inline T ExpSum(const T* x, T* y, T scale, T shift, size_t count) {
  Vec<T> sum = {};
  T rest = 0;
  size_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) {
    const Vec<T> e = Exp<T, kDegree>(Load(x + i) * scale - shift);
    Store(y + i, e);
    sum += e;
  }
  if (i < count) {
    const Vec<T> e = Exp<T, kDegree>(LoadPart(x + i, count - i) * scale - shift);
    StorePart(y + i, e, count - i);
    for (size_t lane = 0; lane < count - i; lane++)
      rest += e[lane];
  }
  return SumLanes<T>(sum) + rest;
}

// Scaled probabilities of a row become its gradient, which may have fewer bits: it goes to the
// row's beginning.
template <typename T, typename Out>
inline void GradientRow(const T* p, Out* out, Token target, T factor, T grad_scale, size_t columns,
                        size_t stride) {
  Vec<T> at_target = Fill<T>(p[target] * factor);
  ForVectors<T>(columns,
                [&](size_t i, auto load, auto store) { store(out + i, load(p + i) * factor); });
  at_target -= grad_scale;
  StorePart(out + target, at_target, 1);
  for (size_t i = columns; i < stride; i++)
    out[i] = Out{};
}

template <typename T>
inline double CrossEntropyRow(T* x, Token target, double grad_scale, NumberType gradient,
                              size_t columns, size_t stride) {
  const T top = RowMax(x, columns);
  const double at_target = double(x[target]) - double(top);
  const T sum = ExpSum(x, x, T(1), top, columns);
  if (grad_scale != 0) {
    const T factor = T(grad_scale / double(sum));
    OfTheirType<T>(MutableNumbers(x, gradient), [&](auto* out) {
      GradientRow(x, out, target, factor, T(grad_scale), columns, stride);
    });
  }
  return __builtin_log(double(sum)) - at_target;
}

template <typename T>
double CrossEntropy(T* logits, const Token* targets, double grad_scale, NumberType gradient,
                    size_t rows, size_t columns, size_t stride) {
  double* losses = new double[rows];
  ForRows(rows, columns, [&](size_t row) {
    losses[row] =
        CrossEntropyRow(logits + row * stride, targets[row], grad_scale, gradient, columns, stride);
  });
  double loss = 0;
  for (size_t row = 0; row < rows; row++)
    loss += losses[row];
  delete[] losses;
  return loss;
}

template <typename T>
void ToBf16(const T* x, uint16_t* y, size_t count) {
  ForParts(count, [&](size_t first, size_t part) {
    if constexpr (sizeof(T) == sizeof(float)) {
      Bf16* const to = reinterpret_cast<Bf16*>(y + first);
      ForVectors<T>(part,
                    [&](size_t i, auto load, auto store) { store(to + i, load(x + first + i)); });
    } else {
      for (size_t i = first; i < first + part; i++)
        y[i] = RoundToBf16(Fill<float>(float(x[i])))[0];
    }
  });
}

template <typename T>
void ToFp16(const T* x, uint16_t* y, size_t count) {
  ForParts(count, [&](size_t first, size_t part) {
    for (size_t i = first; i < first + part; i++) {
      const uint32_t bits = BitsOf(float(x[i]));
      const uint32_t magnitude = bits & 0x7fffffffu;
      const uint32_t sign = (bits >> 16) & 0x8000u;
      // Normal: the exponent is moved by 112, and what is dropped rounds to even. It may carry into
      // infinity.
      const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
      // Denormal: adding 0.5 leaves the multiples of 2^-24 in the lowest bits, rounded by the
      // addition.
      const uint32_t denormal = BitsOf(FloatOfBits(magnitude) + 0.5f) - 0x3f000000u;
      uint32_t half = magnitude < 0x38800000u ? denormal : normal;
      if (magnitude >= 0x47800000u) half = 0x7c00u;
      if (magnitude > 0x7f800000u) half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
      y[i] = uint16_t(half | sign);
    }
  });
}

}  // namespace
}  // namespace weft::trainer

#endif  // WEFT_TRAINER_OPS_KERNELS_H_
