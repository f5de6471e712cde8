// The operations of ops.h as templates, compiled once per instruction set (ops_isa.cc).
//
// Rules of such a file (see vector_math.h): anonymous namespace, no standard library calls.
#ifndef WEFT_TRAINER_OPS_KERNELS_H_
#define WEFT_TRAINER_OPS_KERNELS_H_

#include "trainer/vector_math.h"

namespace weft::trainer {
namespace {

template <typename T>
void ExpAll(const T* x, T* y, size_t count) {
  ForVectors<T>(count, [&](size_t i, auto load, auto store) { store(y + i, Exp<T>(load(x + i))); });
}

template <typename T>
void Add(const T* a, const T* b, T* out, size_t count) {
  ForVectors<T>(
      count, [&](size_t i, auto load, auto store) { store(out + i, load(a + i) + load(b + i)); });
}

struct Bf16 {
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
  for (size_t i = 0; i < count; i++)
    y[i] = T(Wide(from[i]));
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
  for (size_t row = 0; row < batch * seq; row++) {
    const From* token = static_cast<const From*>(wte) + size_t(tokens[row]) * width;
    const From* position = static_cast<const From*>(wpe) + (row % seq) * width;
    T* to = out + row * width;
    for (size_t i = 0; i < width; i++)
      to[i] = T(Wide(token[i])) + T(Wide(position[i]));
  }
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
  for (size_t row = 0; row < batch * seq; row++) {
    T* token = dwte + size_t(tokens[row]) * width;
    T* position = dwpe + (row % seq) * width;
    Add(token, dout + row * width, token, width);
    Add(position, dout + row * width, position, width);
  }
}

constexpr double kNormEpsilon = 1e-5;

template <typename T>
inline T SquareRoot(T x) {
  return sizeof(T) == 4 ? T(__builtin_sqrtf(float(x))) : T(__builtin_sqrt(double(x)));
}

template <typename T>
void LayerNorm(const T* x, const T* gamma, const T* beta, T* out, T* mean, T* rstd, size_t rows,
               size_t width) {
  for (size_t row = 0; row < rows; row++) {
    const T* in = x + row * width;
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
    T* to = out + row * width;
    ForVectors<T>(width, [&](size_t j, auto load, auto store) {
      store(to + j, (load(in + j) - mu) * inverse * load(gamma + j) + load(beta + j));
    });
    mean[row] = mu;
    rstd[row] = inverse;
  }
}

template <typename T>
void LayerNormBackward(const T* dout, const T* x, const T* gamma, const T* mean, const T* rstd,
                       T* dx, T* dgamma, T* dbeta, size_t rows, size_t width) {
  for (size_t row = 0; row < rows; row++) {
    const T* in = x + row * width;
    const T* d = dout + row * width;
    const T mu = mean[row];
    const T inverse = rstd[row];
    Vec<T> sum = {};      // of g = dout * gamma
    Vec<T> sum_hat = {};  // of g * xhat; lanes past the end have g = 0
    ForVectors<T>(width, [&](size_t i, auto load, auto store) {
      const Vec<T> hat = (load(in + i) - mu) * inverse;
      const Vec<T> dy = load(d + i);
      const Vec<T> g = dy * load(gamma + i);
      sum += g;
      sum_hat += g * hat;
      store(dgamma + i, load(dgamma + i) + dy * hat);
      store(dbeta + i, load(dbeta + i) + dy);
    });
    const T average = SumLanes<T>(sum) / T(width);
    const T average_hat = SumLanes<T>(sum_hat) / T(width);
    T* to = dx + row * width;
    ForVectors<T>(width, [&](size_t i, auto load, auto store) {
      const Vec<T> hat = (load(in + i) - mu) * inverse;
      const Vec<T> g = load(d + i) * load(gamma + i);
      store(to + i, load(to + i) + (g - average - hat * average_hat) * inverse);
    });
  }
}

// gelu(x) = x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the tanh form without a tanh.
template <typename T>
inline __attribute__((always_inline)) Vec<T> GeluSigmoid(Vec<T> x) {
  constexpr T kA = T(2 * 0.79788456080286535588);
  const Vec<T> u2 = x * (kA + T(kA * T(0.044715)) * x * x);
  return T(1) / (T(1) + Exp<T>(-u2));
}

template <typename T>
void Gelu(const T* x, T* out, size_t count) {
  ForVectors<T>(count, [&](size_t i, auto load, auto store) {
    const Vec<T> v = load(x + i);
    store(out + i, v * GeluSigmoid<T>(v));
  });
}

template <typename T>
void GeluBackward(const T* x, const T* dout, T* dx, size_t count) {
  constexpr T kA = T(2 * 0.79788456080286535588);
  ForVectors<T>(count, [&](size_t i, auto load, auto store) {
    const Vec<T> v = load(x + i);
    const Vec<T> s = GeluSigmoid<T>(v);
    const Vec<T> du2 = kA + T(3 * 0.044715) * kA * v * v;
    store(dx + i, load(dout + i) * (s + v * s * (T(1) - s) * du2));
  });
}

template <typename T>
void ColumnSum(const T* x, T* sums, size_t rows, size_t columns) {
  for (size_t row = 0; row < rows; row++)
    Add(sums, x + row * columns, sums, columns);
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
template <typename T>
inline T ExpSum(const T* x, T* y, T scale, T shift, size_t count) {
  Vec<T> sum = {};
  T rest = 0;
  size_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) {
    const Vec<T> e = Exp<T>(Load(x + i) * scale - shift);
    Store(y + i, e);
    sum += e;
  }
  if (i < count) {
    const Vec<T> e = Exp<T>(LoadPart(x + i, count - i) * scale - shift);
    StorePart(y + i, e, count - i);
    for (size_t lane = 0; lane < count - i; lane++)
      rest += e[lane];
  }
  return SumLanes<T>(sum) + rest;
}

template <typename T>
double CrossEntropy(T* logits, const Token* targets, double grad_scale, size_t rows, size_t columns,
                    size_t stride) {
  double loss = 0;
  for (size_t row = 0; row < rows; row++) {
    T* x = logits + row * stride;
    const T top = RowMax(x, columns);
    const double target = double(x[targets[row]]) - double(top);
    const T sum = ExpSum(x, x, T(1), top, columns);
    loss += __builtin_log(double(sum)) - target;
    if (grad_scale == 0) continue;
    const T factor = T(grad_scale / double(sum));
    ForVectors<T>(columns,
                  [&](size_t i, auto load, auto store) { store(x + i, load(x + i) * factor); });
    x[targets[row]] -= T(grad_scale);
    for (size_t i = columns; i < stride; i++)
      x[i] = 0;
  }
  return loss;
}

template <typename T>
void ToBf16(const T* x, uint16_t* y, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const uint32_t bits = BitsOf(float(x[i]));
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x40u;
    y[i] = uint16_t((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

template <typename T>
void ToFp16(const T* x, uint16_t* y, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const uint32_t bits = BitsOf(float(x[i]));
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t sign = (bits >> 16) & 0x8000u;
    // Normal: the exponent is moved by 112, and what is dropped rounds to even. It may carry into infinity.
    const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Denormal: adding 0.5 leaves the multiples of 2^-24 in the lowest bits, rounded by the addition.
    const uint32_t denormal = BitsOf(FloatOfBits(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t half = magnitude < 0x38800000u ? denormal : normal;
    if (magnitude >= 0x47800000u) half = 0x7c00u;
    if (magnitude > 0x7f800000u) half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    y[i] = uint16_t(half | sign);
  }
}

}  // namespace
}  // namespace weft::trainer

#endif  // WEFT_TRAINER_OPS_KERNELS_H_
