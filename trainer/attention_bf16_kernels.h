// Causal attention whose products are those of bfloat16: queries, keys, values, probabilities and
// their gradients are rounded, sums are float32. The blocks are those of attention_kernels.h.
//
// A product of pairs adds up along pairs of numbers: where they stand in a row they are taken as
// they are, where they stand in a column two rows are interleaved.
//
// Compiled once per instruction set; the rules stand in vector_math.h.
#ifndef WEFT_TRAINER_ATTENTION_BF16_KERNELS_H_
#define WEFT_TRAINER_ATTENTION_BF16_KERNELS_H_

#include "trainer/attention_kernels.h"

namespace weft::trainer {
namespace {

using Bf16Head = Head<Bf16, float>;

// Of exp, for probabilities that are rounded.
constexpr int kDegree = kExpDegree<Bf16, float>;

constexpr size_t PairsOf(size_t count) {
  return (count + 1) / 2;
}

// Rows as pairs of columns: where they are, if all pairs are whole and begin at a word, else in
// `room`, [rows, pairs].
inline Strided<Pair> PairColumns(Tokens<const Bf16> from, Pair* room, size_t rows, size_t columns) {
  const bool whole = columns % 2 == 0 && from.ld % 2 == 0 && uintptr_t(from.at) % sizeof(Pair) == 0;
  if (whole) return {reinterpret_cast<const Pair*>(from.at), from.ld / 2, 1};
  const size_t pairs = PairsOf(columns);
  for (size_t i = 0; i < rows; i++) {
    room[i * pairs + pairs - 1] = {0};  // whose second half may stay so
    __builtin_memcpy(room + i * pairs, from.From(i), columns * sizeof(Bf16));
  }
  return {room, pairs, 1};
}

// to[pairs of columns, rows]
inline void TransposePairs(Tokens<const Bf16> from, Pair* room, Pair* to, size_t rows,
                           size_t columns) {
  const Strided<Pair> pairs = PairColumns(from, room, rows, columns);
  Transpose(pairs.at, pairs.row, to, rows, PairsOf(columns));
}

// to[pairs of rows, columns]
inline void PairRows(Tokens<const Bf16> from, Pair* to, size_t rows, size_t columns) {
  for (size_t i = 0; i < rows; i += 2) {
    const Bf16* const first = from.From(i);
    const Bf16* const second = first + from.ld;
    Pair* const row = to + i / 2 * columns;
    if (i + 1 < rows) {
      for (size_t j = 0; j < columns; j++)
        row[j] = {uint32_t(first[j].bits) | uint32_t(second[j].bits) << 16};
    } else {
      for (size_t j = 0; j < columns; j++)
        row[j] = {first[j].bits};
    }
  }
}

// Rounds a row of so many columns, and fills its last pair.
inline void NarrowRow(const float* from, Bf16* to, size_t columns) {
  ForVectors<float>(columns,
                    [&](size_t j, auto load, auto store) { store(to + j, load(from + j)); });
  if (columns % 2 == 1) to[columns] = Bf16{};
}

inline void NarrowScaledRow(const float* from, float factor, Bf16* to, size_t columns) {
  ForVectors<float>(
      columns, [&](size_t j, auto load, auto store) { store(to + j, load(from + j) * factor); });
}

inline float DotRows(const Bf16* a, const Bf16* b, size_t count) {
  Vec<float> sum = {};
  ForVectors<float>(count, [&](size_t j, auto load, auto) { sum += load(a + j) * load(b + j); });
  return SumLanes<float>(sum);
}

// Where a head's forward works.
struct Bf16ForwardRoom {
  Pair *keys, *keys_by_pair, *values, *queries, *p;
  float *scores, *sums;

  Bf16ForwardRoom(Room& room, size_t seq, size_t dim)
      : keys(room.Take<Pair>(seq * PairsOf(dim))),
        keys_by_pair(room.Take<Pair>(seq * PairsOf(dim))),
        values(room.Take<Pair>(PairsOf(seq) * dim)),
        queries(room.Take<Pair>(kBlock * PairsOf(dim))),
        p(room.Take<Pair>(kBlock * PairsOf(seq))),
        scores(room.Take<float>(kBlock * seq)),
        sums(room.Take<float>(kBlock * dim)) {}
};

// A block's probabilities, not yet divided by their sums, of which `inverse` are the inverses.
inline void SoftmaxBlock(const Bf16Head& h, size_t first, size_t rows, const DropoutMask& mask,
                         const Bf16ForwardRoom& r, float* lse, float* inverse) {
  const size_t seen = first + rows;
  for (size_t i = 0; i < rows; i++) {
    float* const row = r.scores + i * h.seq;
    inverse[i] = SoftmaxRow<float, kDegree>(row, h.scale, first + i + 1, seen, mask,
                                            h.first_row + first + i, lse + first + i);
    NarrowRow(row, reinterpret_cast<Bf16*>(r.p + i * PairsOf(h.seq)), seen);
  }
}

inline void HeadForward(const Bf16Head& h, Tokens<Bf16> out, float* lse, const DropoutMask& mask,
                        const Bf16ForwardRoom& r) {
  const size_t pairs = PairsOf(h.dim);
  TransposePairs(h.k, r.keys, r.keys_by_pair, h.seq, h.dim);
  PairRows(h.v, r.values, h.seq, h.dim);
  for (size_t first = 0; first < h.seq; first += kBlock) {
    const size_t rows = h.seq - first < kBlock ? h.seq - first : kBlock;
    const size_t seen = first + rows;
    const Strided<Pair> q = PairColumns({h.q.From(first), h.q.ld}, r.queries, rows, h.dim);
    Multiply<Pair>(rows, seen, pairs, q, r.keys_by_pair, h.seq, r.scores, h.seq, false);
    float inverse[kBlock];
    SoftmaxBlock(h, first, rows, mask, r, lse, inverse);
    Multiply<Pair>(rows, h.dim, PairsOf(seen), {r.p, PairsOf(h.seq), 1}, r.values, h.dim, r.sums,
                   h.dim, false);
    for (size_t i = 0; i < rows; i++)
      NarrowScaledRow(r.sums + i * h.dim, inverse[i], out.From(first + i), h.dim);
  }
}

// Where a head's backward works. by_pair: transposed, so that pairs of a row stand below each
// other.
struct Bf16BackwardRoom {
  Pair *rows, *keys_by_pair, *values_by_pair, *key_rows;
  Pair *queries, *query_rows, *douts, *dout_rows, *p_rows, *ds, *ds_rows;
  Bf16* narrow;
  float *p, *dp, *dq, *dk, *dv;

  Bf16BackwardRoom(Room& room, size_t seq, size_t dim)
      : rows(room.Take<Pair>(seq * PairsOf(dim))),
        keys_by_pair(room.Take<Pair>(seq * PairsOf(dim))),
        values_by_pair(room.Take<Pair>(seq * PairsOf(dim))),
        key_rows(room.Take<Pair>(PairsOf(seq) * dim)),
        queries(room.Take<Pair>(kBlock * PairsOf(dim))),
        query_rows(room.Take<Pair>(PairsOf(kBlock) * dim)),
        douts(room.Take<Pair>(kBlock * PairsOf(dim))),
        dout_rows(room.Take<Pair>(PairsOf(kBlock) * dim)),
        p_rows(room.Take<Pair>(PairsOf(kBlock) * seq)),
        ds(room.Take<Pair>(kBlock * PairsOf(seq))),
        ds_rows(room.Take<Pair>(PairsOf(kBlock) * seq)),
        narrow(room.Take<Bf16>(kBlock * 2 * PairsOf(seq))),
        p(room.Take<float>(kBlock * seq)),
        dp(room.Take<float>(kBlock * seq)),
        dq(room.Take<float>(kBlock * dim)),
        dk(room.Take<float>(seq * dim)),
        dv(room.Take<float>(seq * dim)) {}
};

using Bf16Gradient = HeadGradient<Bf16, float>;

// A block's probabilities and gradients of scores, as the products after it read them.
inline void SoftmaxBlockBackward(const Bf16Head& h, const Bf16Gradient& g, size_t first,
                                 size_t rows, const DropoutMask& mask, const Bf16BackwardRoom& r) {
  const size_t seen = first + rows, ld = 2 * PairsOf(h.seq);
  Bf16* const ds = reinterpret_cast<Bf16*>(r.ds);
  for (size_t i = 0; i < rows; i++) {
    const size_t row = first + i;
    const float dot = DotRows(g.out.From(row), g.dout.From(row), h.dim);
    SoftmaxBackward<float, kDegree>(r.p + i * h.seq, r.dp + i * h.seq, h.scale, g.lse[row], dot,
                                    row + 1, seen, mask, h.first_row + row);
    NarrowRow(r.p + i * h.seq, r.narrow + i * ld, seen);
    NarrowRow(r.dp + i * h.seq, ds + i * ld, seen);
  }
  PairRows({r.narrow, ld}, r.p_rows, rows, seen);
  PairRows({ds, ld}, r.ds_rows, rows, seen);
}

// Queries `first` to `first` + rows, and what they add to the gradients of keys and values.
inline void BlockBackward(const Bf16Head& h, const Bf16Gradient& g, size_t first, size_t rows,
                          const DropoutMask& mask, const Bf16BackwardRoom& r) {
  const size_t seen = first + rows, pairs = PairsOf(h.dim);
  const Tokens<const Bf16> q = {h.q.From(first), h.q.ld}, d = {g.dout.From(first), g.dout.ld};
  PairRows(q, r.query_rows, rows, h.dim);
  PairRows(d, r.dout_rows, rows, h.dim);
  Multiply<Pair>(rows, seen, pairs, PairColumns(q, r.queries, rows, h.dim), r.keys_by_pair, h.seq,
                 r.p, h.seq, false);
  Multiply<Pair>(rows, seen, pairs, PairColumns(d, r.douts, rows, h.dim), r.values_by_pair, h.seq,
                 r.dp, h.seq, false);
  SoftmaxBlockBackward(h, g, first, rows, mask, r);
  Multiply<Pair>(rows, h.dim, PairsOf(seen), {r.ds, PairsOf(h.seq), 1}, r.key_rows, h.dim, r.dq,
                 h.dim, false);
  for (size_t i = 0; i < rows; i++)
    NarrowScaledRow(r.dq + i * h.dim, 1, g.dq.From(first + i), h.dim);
  Multiply<Pair>(seen, h.dim, PairsOf(rows), {r.ds_rows, 1, seen}, r.query_rows, h.dim, r.dk, h.dim,
                 true);
  Multiply<Pair>(seen, h.dim, PairsOf(rows), {r.p_rows, 1, seen}, r.dout_rows, h.dim, r.dv, h.dim,
                 true);
}

inline void BeginKeys(const Bf16Head& h, const Bf16Gradient&, const Bf16BackwardRoom& r) {
  TransposePairs(h.k, r.rows, r.keys_by_pair, h.seq, h.dim);
  TransposePairs(h.v, r.rows, r.values_by_pair, h.seq, h.dim);
  PairRows(h.k, r.key_rows, h.seq, h.dim);
  __builtin_memset(r.dk, 0, h.seq * h.dim * sizeof(float));
  __builtin_memset(r.dv, 0, h.seq * h.dim * sizeof(float));
}

inline void EndKeys(const Bf16Head& h, const Bf16Gradient& g, const Bf16BackwardRoom& r) {
  for (size_t i = 0; i < h.seq; i++) {
    NarrowScaledRow(r.dk + i * h.dim, 1, g.dk.From(i), h.dim);
    NarrowScaledRow(r.dv + i * h.dim, 1, g.dv.From(i), h.dim);
  }
}

inline void HeadBackward(const Bf16Head& h, const Bf16Gradient& g, const DropoutMask& mask,
                         const Bf16BackwardRoom& r) {
  for (size_t first = 0; first < h.seq; first += kBlock)
    BlockBackward(h, g, first, h.seq - first < kBlock ? h.seq - first : kBlock, mask, r);
}

template <typename E>
struct RoomsOf {
  using Forward = ForwardRoom<E>;
  using Backward = BackwardRoom<E>;
};

template <>
struct RoomsOf<Bf16> {
  using Forward = Bf16ForwardRoom;
  using Backward = Bf16BackwardRoom;
};

template <typename T>
void Attention(Numbers qkv, MutableNumbers out, T* lse, const AttentionShape& shape,
               const DropoutMask& mask) {
  const size_t dim = shape.head_dim, width = shape.heads * dim;
  OfTheirType<T>(out, [&](auto* to) {
    using E = RemoveReference<decltype(*to)>;
    const Tokens<E> outs = {to, out.StrideOf(width)};
    const Tokens<const E> all = {OfSameType(to, qkv), qkv.StrideOf(QkvColumns(shape))};
#pragma omp parallel
    {
      const OwnRoom<typename RoomsOf<E>::Forward> own(shape.seq, dim);
#pragma omp for schedule(static)
      for (size_t i = 0; i < shape.batch * shape.heads; i++) {
        HeadForward(HeadAt<T>(all, shape, i), HeadOf(outs, shape.seq, shape.heads, i, dim),
                    lse + i * shape.seq, mask, own.parts());
      }
    }
  });
}

template <typename T>
void AttentionBackward(Numbers qkv, Numbers out, const T* lse, Numbers dout, MutableNumbers dqkv,
                       const AttentionShape& shape, const DropoutMask& mask) {
  const size_t seq = shape.seq, heads = shape.heads, dim = shape.head_dim, width = heads * dim;
  const size_t columns = QkvColumns(shape), group = GroupOf(shape);
  OfTheirType<T>(dqkv, [&](auto* to) {
    using E = RemoveReference<decltype(*to)>;
    const Tokens<E> gradients = {to, dqkv.StrideOf(columns)};
    const Tokens<const E> all = {OfSameType(to, qkv), qkv.StrideOf(columns)};
    const Tokens<const E> outs = {OfSameType(to, out), out.StrideOf(width)};
    const Tokens<const E> douts = {OfSameType(to, dout), dout.StrideOf(width)};
    const auto gradient_of = [&](size_t i) -> HeadGradient<E, T> {
      const QueryHead<E> head(gradients, shape, i);
      return {HeadOf(outs, seq, heads, i, dim),
              HeadOf(douts, seq, heads, i, dim),
              lse + i * seq,
              head.queries,
              head.keys,
              head.values};
    };
#pragma omp parallel
    {
      const OwnRoom<typename RoomsOf<E>::Backward> own(seq, dim);
      const auto& parts = own.parts();
#pragma omp for schedule(static)
      for (size_t keys = 0; keys < shape.batch * KeyHeadsOf(shape); keys++) {
        const size_t first = keys * group;
        BeginKeys(HeadAt<T>(all, shape, first), gradient_of(first), parts);
        for (size_t i = first; i < first + group; i++)
          HeadBackward(HeadAt<T>(all, shape, i), gradient_of(i), mask, parts);
        EndKeys(HeadAt<T>(all, shape, first), gradient_of(first), parts);
      }
    }
  });
}

}  // namespace
}  // namespace weft::trainer

#endif  // WEFT_TRAINER_ATTENTION_BF16_KERNELS_H_
