// Causal attention, forward and backward, and the small matrix product it is made of.
//
// Queries go in blocks of kBlock rows. The scores of one block, [kBlock, seq], live in scratch; only
// the logarithm of each softmax sum is kept, and the way back computes the scores again. Blocks of
// keys that the causal mask hides entirely are never touched.
//
// Compiled once per instruction set; the rules stand in vector_math.h.
#ifndef WEFT_TRAINER_ATTENTION_KERNELS_H_
#define WEFT_TRAINER_ATTENTION_KERNELS_H_

#include "trainer/dropout_kernels.h"
#include "trainer/ops_kernels.h"

namespace weft::trainer {
namespace {

// 8 x 2 accumulators of AVX-512's 32 registers, 4 x 2 of 16.
constexpr size_t kTileRows = kVectorBytes == 64 ? 8 : 4;
constexpr size_t kTileVectors = 2;
constexpr size_t kBlock = 32;

// One operand addressed by two strides.
template <typename T>
struct Strided {
  const T* at;
  size_t row;
  size_t column;
};

template <typename T, size_t kRows, size_t kVectors>
inline __attribute__((always_inline)) void Tile(size_t k, Strided<T> a, const T* b, size_t ldb,
                                                T* c, size_t ldc, bool accumulate) {
  Vec<T> sums[kRows][kVectors];
  for (size_t i = 0; i < kRows; i++) {
    for (size_t j = 0; j < kVectors; j++) {
      sums[i][j] = accumulate ? Load(c + i * ldc + j * kLanes<T>) : Vec<T>{};
    }
  }
  for (size_t p = 0; p < k; p++) {
    Vec<T> row[kVectors];
    for (size_t j = 0; j < kVectors; j++)
      row[j] = Load(b + p * ldb + j * kLanes<T>);
    for (size_t i = 0; i < kRows; i++) {
      const T x = a.at[i * a.row + p * a.column];
      for (size_t j = 0; j < kVectors; j++)
        sums[i][j] += x * row[j];
    }
  }
  for (size_t i = 0; i < kRows; i++) {
    for (size_t j = 0; j < kVectors; j++)
      Store(c + i * ldc + j * kLanes<T>, sums[i][j]);
  }
}

template <typename T, size_t kRows>
inline void Stripe(size_t n, size_t k, Strided<T> a, const T* b, size_t ldb, T* c, size_t ldc,
                   bool accumulate) {
  size_t j = 0;
  for (; j + kTileVectors * kLanes<T> <= n; j += kTileVectors * kLanes<T>) {
    Tile<T, kRows, kTileVectors>(k, a, b + j, ldb, c + j, ldc, accumulate);
  }
  for (; j + kLanes<T> <= n; j += kLanes<T>) {
    Tile<T, kRows, 1>(k, a, b + j, ldb, c + j, ldc, accumulate);
  }
  for (; j < n; j++) {
    for (size_t i = 0; i < kRows; i++) {
      T sum = accumulate ? c[i * ldc + j] : T(0);
      for (size_t p = 0; p < k; p++)
        sum += a.at[i * a.row + p * a.column] * b[p * ldb + j];
      c[i * ldc + j] = sum;
    }
  }
}

template <typename T>
void SmallMatmul(size_t m, size_t n, size_t k, const T* a, size_t a_row, size_t a_column,
                 const T* b, size_t ldb, T* c, size_t ldc, bool accumulate) {
  size_t i = 0;
  for (; i + kTileRows <= m; i += kTileRows) {
    Stripe<T, kTileRows>(n, k, {a + i * a_row, a_row, a_column}, b, ldb, c + i * ldc, ldc,
                         accumulate);
  }
  for (; i < m; i++) {
    Stripe<T, 1>(n, k, {a + i * a_row, a_row, a_column}, b, ldb, c + i * ldc, ldc, accumulate);
  }
}

// What one head of one sample reads and writes.
template <typename T>
struct Head {
  const T* q;
  const T* k;
  const T* v;
  size_t ld;      // between tokens in qkv
  size_t out_ld;  // between tokens in out
  size_t seq;
  size_t dim;
  T scale;
  size_t first_row;  // of its probabilities in the mask's matrix
};

template <typename T>
Head<T> HeadAt(const T* qkv, const AttentionShape& shape, size_t index) {
  const size_t width = shape.heads * shape.head_dim;
  const size_t sample = index / shape.heads;
  const size_t head = index % shape.heads;
  const T* q = qkv + sample * shape.seq * 3 * width + head * 3 * shape.head_dim;
  return {.q = q,
          .k = q + shape.head_dim,
          .v = q + 2 * shape.head_dim,
          .ld = 3 * width,
          .out_ld = width,
          .seq = shape.seq,
          .dim = shape.head_dim,
          .scale = T(1) / SquareRoot<T>(T(shape.head_dim)),
          .first_row = index * shape.seq};
}

template <typename T>
void Transpose(const T* from, size_t ld, T* to, size_t rows, size_t columns) {
  for (size_t i = 0; i < rows; i++) {
    for (size_t j = 0; j < columns; j++)
      to[j * rows + i] = from[i * ld + j];
  }
}

// scratch: kt [dim, seq], scores [kBlock, seq]
template <typename T>
void HeadForward(const Head<T>& h, T* out, T* lse, const DropoutMask& mask, T* scratch) {
  T* kt = scratch;
  T* scores = kt + h.dim * h.seq;
  Transpose(h.k, h.ld, kt, h.seq, h.dim);
  for (size_t first = 0; first < h.seq; first += kBlock) {
    const size_t rows = h.seq - first < kBlock ? h.seq - first : kBlock;
    const size_t seen = first + rows;
    SmallMatmul(rows, seen, h.dim, h.q + first * h.ld, h.ld, 1, kt, h.seq, scores, h.seq, false);
    T inverse[kBlock];
    for (size_t i = 0; i < rows; i++) {
      T* row = scores + i * h.seq;
      const size_t visible = first + i + 1;
      const T top = RowMax(row, visible) * h.scale;
      const T sum = ExpSum(row, row, h.scale, top, visible);
      if (mask.threshold > 0) DropRow(row, row, visible, mask, h.first_row + first + i);
      for (size_t j = visible; j < seen; j++)
        row[j] = 0;
      inverse[i] = T(1) / sum;
      lse[first + i] = top + T(__builtin_log(double(sum)));
    }
    T* to = out + first * h.out_ld;
    SmallMatmul(rows, h.dim, seen, scores, h.seq, 1, h.v, h.ld, to, h.out_ld, false);
    for (size_t i = 0; i < rows; i++) {
      for (size_t j = 0; j < h.dim; j++)
        to[i * h.out_ld + j] *= inverse[i];
    }
  }
}

// Turns scores (in p) and dout . v (in ds) of a query, row `row` of the mask's matrix, into probabilities and score gradients.
template <typename T>
inline void SoftmaxBackward(T* p, T* ds, T scale, T lse, T dot, size_t visible, size_t seen,
                            const DropoutMask& mask, uint64_t row) {
  ExpSum(p, p, scale, lse, visible);
  if (mask.threshold > 0) DropRow(ds, ds, visible, mask, row);
  ForVectors<T>(visible, [&](size_t j, auto load, auto store) {
    store(ds + j, load(p + j) * (load(ds + j) - dot) * scale);
  });
  if (mask.threshold > 0) DropRow(p, p, visible, mask, row);
  for (size_t j = visible; j < seen; j++)
    p[j] = ds[j] = 0;
}

// scratch: kt, vt [dim, seq], p, ds [kBlock, seq]. dq, dk, dv are strided like q, k, v and zeroed.
template <typename T>
void HeadBackward(const Head<T>& h, const T* out, const T* lse, const T* dout,
                  const DropoutMask& mask, T* dq, T* dk, T* dv, T* scratch) {
  T* kt = scratch;
  T* vt = kt + h.dim * h.seq;
  T* p = vt + h.dim * h.seq;
  T* ds = p + kBlock * h.seq;
  Transpose(h.k, h.ld, kt, h.seq, h.dim);
  Transpose(h.v, h.ld, vt, h.seq, h.dim);
  for (size_t first = 0; first < h.seq; first += kBlock) {
    const size_t rows = h.seq - first < kBlock ? h.seq - first : kBlock;
    const size_t seen = first + rows;
    const T* q = h.q + first * h.ld;
    const T* d = dout + first * h.out_ld;
    SmallMatmul(rows, seen, h.dim, q, h.ld, 1, kt, h.seq, p, h.seq, false);
    SmallMatmul(rows, seen, h.dim, d, h.out_ld, 1, vt, h.seq, ds, h.seq, false);
    for (size_t i = 0; i < rows; i++) {
      const T* o = out + (first + i) * h.out_ld;
      T dot = 0;
      for (size_t j = 0; j < h.dim; j++)
        dot += o[j] * d[i * h.out_ld + j];
      SoftmaxBackward(p + i * h.seq, ds + i * h.seq, h.scale, lse[first + i], dot, first + i + 1,
                      seen, mask, h.first_row + first + i);
    }
    SmallMatmul(rows, h.dim, seen, ds, h.seq, 1, h.k, h.ld, dq + first * h.ld, h.ld, false);
    SmallMatmul(seen, h.dim, rows, ds, 1, h.seq, q, h.ld, dk, h.ld, true);
    SmallMatmul(seen, h.dim, rows, p, 1, h.seq, d, h.out_ld, dv, h.ld, true);
  }
}

template <typename T>
void Attention(const T* qkv, T* out, T* lse, const AttentionShape& shape, const DropoutMask& mask) {
  const size_t width = shape.heads * shape.head_dim;
#pragma omp parallel
  {
    T* scratch = new T[(shape.head_dim + kBlock) * shape.seq];
#pragma omp for schedule(static)
    for (size_t i = 0; i < shape.batch * shape.heads; i++) {
      T* to = out + (i / shape.heads) * shape.seq * width + (i % shape.heads) * shape.head_dim;
      HeadForward(HeadAt(qkv, shape, i), to, lse + i * shape.seq, mask, scratch);
    }
    delete[] scratch;
  }
}

template <typename T>
void AttentionBackward(const T* qkv, const T* out, const T* lse, const T* dout, T* dqkv,
                       const AttentionShape& shape, const DropoutMask& mask) {
  const size_t width = shape.heads * shape.head_dim;
  __builtin_memset(dqkv, 0, shape.batch * shape.seq * 3 * width * sizeof(T));
#pragma omp parallel
  {
    T* scratch = new T[2 * (shape.head_dim + kBlock) * shape.seq];
#pragma omp for schedule(static)
    for (size_t i = 0; i < shape.batch * shape.heads; i++) {
      const size_t at = (i / shape.heads) * shape.seq * width + (i % shape.heads) * shape.head_dim;
      const Head<T> head = HeadAt(qkv, shape, i);
      T* dq = dqkv + (head.q - qkv);
      HeadBackward(head, out + at, lse + i * shape.seq, dout + at, mask, dq, dq + shape.head_dim,
                   dq + 2 * shape.head_dim, scratch);
    }
    delete[] scratch;
  }
}

template <typename T>
constexpr Ops<T> MakeOps() {
  return {ExpAll<T>,
          Embed<T>,
          EmbedBackward<T>,
          LayerNorm<T>,
          LayerNormBackward<T>,
          Attention<T>,
          AttentionBackward<T>,
          Gelu<T>,
          GeluBackward<T>,
          Add<T>,
          DropMatrix<T>,
          ColumnSum<T>,
          CrossEntropy<T>,
          SmallMatmul<T>,
          ToBf16<T>,
          ToFp16<T>,
          Widen<T>};
}

}  // namespace
}  // namespace weft::trainer

#endif  // WEFT_TRAINER_ATTENTION_KERNELS_H_
