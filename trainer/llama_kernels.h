// What Llama has beside GPT-2: the norm by the root of the mean square, the rotation of queries and
// keys, and the gated unit.
//
// Compiled once per instruction set; the rules stand in vector_math.h.
#ifndef WEFT_TRAINER_LLAMA_KERNELS_H_
#define WEFT_TRAINER_LLAMA_KERNELS_H_

#include "trainer/attention_kernels.h"
#include "trainer/ops_kernels.h"

namespace weft::trainer {
namespace {

template <typename T, typename Out>
inline void RmsNormRow(const T* in, const T* gamma, T epsilon, Out* to, T* rstd, size_t width) {
  Vec<T> squares = {};
  ForVectors<T>(width, [&](size_t i, auto load, auto) {
    const Vec<T> v = load(in + i);
    squares += v * v;
  });
  const T inverse = T(1) / SquareRoot<T>(SumLanes<T>(squares) / T(width) + epsilon);
  ForVectors<T>(width, [&](size_t i, auto load, auto store) {
    store(to + i, load(in + i) * inverse * load(gamma + i));
  });
  *rstd = inverse;
}

template <typename T>
void RmsNorm(const T* x, const T* gamma, double epsilon, MutableNumbers out, T* rstd, size_t rows,
             size_t width) {
  const size_t stride = out.StrideOf(width);
  OfTheirType<T>(out, [&](auto* to) {
    ForRows(rows, width, [&](size_t row) {
      RmsNormRow(x + row * width, gamma, T(epsilon), to + row * stride, rstd + row, width);
    });
  });
}

// One row's dx.
template <typename T>
inline void RmsNormRowBackward(const T* d, const T* in, const T* gamma, T inverse, T* to,
                               size_t width) {
  Vec<T> sum = {};  // of dout * gamma * xhat
  ForVectors<T>(width, [&](size_t i, auto load, auto) {
    sum += load(d + i) * load(gamma + i) * (load(in + i) * inverse);
  });
  const T average = SumLanes<T>(sum) / T(width);
  ForVectors<T>(width, [&](size_t i, auto load, auto store) {
    const Vec<T> hat = load(in + i) * inverse;
    const Vec<T> g = load(d + i) * load(gamma + i);
    store(to + i, load(to + i) + (g - hat * average) * inverse);
  });
}

// Some columns' dgamma, added in the order of the rows.
template <typename T>
inline void RmsNormColumnsBackward(const T* dout, const T* x, const T* rstd, T* dgamma, size_t rows,
                                   size_t width, size_t count) {
  for (size_t first = 0; first < rows; first += kRowsAtOnce) {
    const size_t some = rows - first < kRowsAtOnce ? rows - first : kRowsAtOnce;
    ForVectors<T>(count, [&](size_t i, auto load, auto store) {
      Vec<T> gain = load(dgamma + i);
      for (size_t row = first; row < first + some; row++)
        gain += load(dout + row * width + i) * (load(x + row * width + i) * rstd[row]);
      store(dgamma + i, gain);
    });
  }
}

template <typename T>
void RmsNormBackward(const T* dout, const T* x, const T* gamma, const T* rstd, T* dx, T* dgamma,
                     size_t rows, size_t width) {
  ForColumns<T>(rows, width, [&](size_t first, size_t count) {
    RmsNormColumnsBackward(dout + first, x + first, rstd, dgamma + first, rows, width, count);
  });
  ForRows(rows, width, [&](size_t row) {
    RmsNormRowBackward(dout + row * width, x + row * width, gamma, rstd[row], dx + row * width,
                       width);
  });
}

// One head of a token. sign: 1, or -1 for the way back.
template <typename T, typename E>
inline void RotateHead(E* x, const T* cosines, const T* sines, T sign, size_t half) {
  ForVectors<T>(half, [&](size_t i, auto load, auto store) {
    const Vec<T> first = load(x + i), second = load(x + half + i);
    const Vec<T> c = load(cosines + i), s = load(sines + i) * sign;
    store(x + i, first * c - second * s);
    store(x + half + i, second * c + first * s);
  });
}

template <typename T>
void Rotate(MutableNumbers qkv, const T* table, const AttentionShape& shape, bool back) {
  const size_t dim = shape.head_dim, half = dim / 2, group = GroupOf(shape);
  const size_t columns = QkvColumns(shape), stride = qkv.StrideOf(columns);
  const T sign = back ? T(-1) : T(1);
  OfTheirType<T>(qkv, [&](auto* all) {
    ForRows(shape.batch * shape.seq, columns, [&](size_t row) {
      const T* const cosines = table + row % shape.seq * dim;
      auto* at = all + row * stride;
      for (size_t keys = 0; keys < KeyHeadsOf(shape); keys++) {
        for (size_t i = 0; i < group + 1; i++, at += dim)
          RotateHead(at, cosines, cosines + half, sign, half);
        at += dim;  // the values
      }
    });
  });
}

template <typename T, int kDegree>
inline __attribute__((always_inline)) Vec<T> Sigmoid(Vec<T> x) {
  return T(1) / (T(1) + Exp<T, kDegree>(-x));
}

template <typename T>
void SwiGlu(Numbers gate, Numbers up, MutableNumbers out, size_t rows, size_t columns) {
  OfTheirType<T>(out, [&](auto* to) {
    using E = RemoveReference<decltype(*to)>;
    const E *const gates = OfSameType(to, gate), *const ups = OfSameType(to, up);
    ForRows(rows, columns, [&](size_t row) {
      const E* const g = gates + row * gate.StrideOf(columns);
      const E* const u = ups + row * up.StrideOf(columns);
      E* const result = to + row * out.StrideOf(columns);
      ForVectors<T>(columns, [&](size_t i, auto load, auto store) {
        const Vec<T> v = load(g + i);
        store(result + i, v * Sigmoid<T, kExpDegree<E, T>>(v) * load(u + i));
      });
    });
  });
}

template <typename T>
void SwiGluBackward(Numbers gate, Numbers up, Numbers dout, MutableNumbers dgate,
                    MutableNumbers dup, size_t rows, size_t columns) {
  OfTheirType<T>(dgate, [&](auto* to_gate) {
    using E = RemoveReference<decltype(*to_gate)>;
    const E *const gates = OfSameType(to_gate, gate), *const ups = OfSameType(to_gate, up);
    const E* const douts = OfSameType(to_gate, dout);
    E* const to_up = OfSameType(to_gate, dup);
    ForRows(rows, columns, [&](size_t row) {
      const E* const g = gates + row * gate.StrideOf(columns);
      const E* const u = ups + row * up.StrideOf(columns);
      const E* const d = douts + row * dout.StrideOf(columns);
      E* const dg = to_gate + row * dgate.StrideOf(columns);
      E* const du = to_up + row * dup.StrideOf(columns);
      ForVectors<T>(columns, [&](size_t i, auto load, auto store) {
        const Vec<T> v = load(g + i), dy = load(d + i);
        const Vec<T> s = Sigmoid<T, kExpDegree<E, T>>(v);
        store(dg + i, dy * load(u + i) * s * (T(1) + v * (T(1) - s)));
        store(du + i, dy * v * s);
      });
    });
  });
}

}  // namespace
}  // namespace weft::trainer

#endif  // WEFT_TRAINER_LLAMA_KERNELS_H_
