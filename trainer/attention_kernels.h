// Causal attention, forward and backward.
//
// Queries go in blocks of kBlock rows. The scores of one block, [kBlock, seq], live in scratch;
// only the logarithm of each softmax sum is kept, and the way back computes the scores again.
// Blocks of keys that the causal mask hides entirely are never touched.
//
// Compiled once per instruction set; the rules stand in vector_math.h.
#ifndef WEFT_TRAINER_ATTENTION_KERNELS_H_
#define WEFT_TRAINER_ATTENTION_KERNELS_H_

#include "trainer/dropout_kernels.h"
#include "trainer/ops_kernels.h"
#include "trainer/product_kernels.h"

namespace weft::trainer {
namespace {

constexpr size_t kBlock = 32;

// Memory from which parts are taken in turn; each begins at a cache line. Without memory, what they
// come to.
class Room {
 public:
  static constexpr size_t kLine = 64;

  explicit Room(char* memory = nullptr) : begin_(memory) {}

  template <typename E>
  E* Take(size_t count) {
    E* const part = begin_ == nullptr ? nullptr : reinterpret_cast<E*>(begin_ + used_);
    used_ += (count * sizeof(E) + kLine - 1) / kLine * kLine;
    return part;
  }

  size_t used() const { return used_; }

 private:
  char* const begin_;
  size_t used_ = 0;
};

// A thread's parts, as Parts(room, seq, dim) takes them, and their memory.
template <typename Parts>
class OwnRoom {
 public:
  OwnRoom(size_t seq, size_t dim)
      : memory_(new char[Bytes(seq, dim)]), room_(AtLine(memory_)), parts_(room_, seq, dim) {}

  ~OwnRoom() { delete[] memory_; }

  OwnRoom(const OwnRoom&) = delete;
  OwnRoom& operator=(const OwnRoom&) = delete;

  const Parts& parts() const { return parts_; }

 private:
  static size_t Bytes(size_t seq, size_t dim) {
    Room room;
    const Parts parts(room, seq, dim);
    return room.used() + Room::kLine;
  }

  static char* AtLine(char* memory) {
    return memory + (Room::kLine - uintptr_t(memory) % Room::kLine);
  }

  char* const memory_;
  Room room_;
  const Parts parts_;
};

// Tokens of a sequence, or of a batch of them: numbers that begin `ld` apart.
template <typename E>
struct Tokens {
  E* at;
  size_t ld;

  E* From(size_t token) const { return at + token * ld; }
};

inline size_t KeyHeadsOf(const AttentionShape& shape) {
  return shape.kv_heads == 0 ? shape.heads : shape.kv_heads;
}

// Heads of queries that share one of keys and values.
inline size_t GroupOf(const AttentionShape& shape) {
  return shape.heads / KeyHeadsOf(shape);
}

// Numbers of a token's queries, keys and values.
inline size_t QkvColumns(const AttentionShape& shape) {
  return (shape.heads + 2 * KeyHeadsOf(shape)) * shape.head_dim;
}

// Those of head `index` of all sequences' heads, of which each token has `heads`, with `size`
// numbers each.
template <typename E>
Tokens<E> HeadOf(Tokens<E> all, size_t seq, size_t heads, size_t index, size_t size) {
  return {all.From(index / heads * seq) + index % heads * size, all.ld};
}

// The queries of head `index` of all sequences' heads of queries; `keys` and `values`: those that
// it shares.
template <typename E>
struct QueryHead {
  Tokens<E> queries, keys, values;

  QueryHead(Tokens<E> qkv, const AttentionShape& shape, size_t index) {
    const size_t group = GroupOf(shape), dim = shape.head_dim;
    const Tokens<E> all =
        HeadOf(qkv, shape.seq, KeyHeadsOf(shape), index / group, (group + 2) * dim);
    queries = {all.at + index % group * dim, all.ld};
    keys = {all.at + group * dim, all.ld};
    values = {keys.at + dim, all.ld};
  }
};

// What one head of one sample reads. E: the type in memory, T: that of sums.
template <typename E, typename T = E>
struct Head {
  Tokens<const E> q, k, v;
  size_t seq;
  size_t dim;
  T scale;
  size_t first_row;  // of its probabilities in the mask's matrix
};

template <typename T, typename E>
Head<E, T> HeadAt(Tokens<const E> qkv, const AttentionShape& shape, size_t index) {
  const QueryHead<const E> head(qkv, shape, index);
  return {.q = head.queries,
          .k = head.keys,
          .v = head.values,
          .seq = shape.seq,
          .dim = shape.head_dim,
          .scale = T(1) / SquareRoot<T>(T(shape.head_dim)),
          .first_row = index * shape.seq};
}

// Where forward works: kt [dim, seq], scores [kBlock, seq].
template <typename T>
struct ForwardRoom {
  T *kt, *scores;

  ForwardRoom(Room& room, size_t seq, size_t dim)
      : kt(room.Take<T>(dim * seq)), scores(room.Take<T>(kBlock * seq)) {}
};

// A query's scores become probabilities, not yet divided by their sum, of which it returns the
// inverse; what it does not see becomes 0. `row`: of the mask's matrix.
template <typename T, int kDegree = Bits<T>::kDegree>
inline T SoftmaxRow(T* scores, T scale, size_t visible, size_t seen, const DropoutMask& mask,
                    uint64_t row, T* lse) {
  const T top = RowMax(scores, visible) * scale;
  const T sum = ExpSum<T, kDegree>(scores, scores, scale, top, visible);
  if (mask.threshold > 0) DropRow(scores, scores, visible, mask, row);
  for (size_t j = visible; j < seen; j++)
    scores[j] = 0;
  *lse = top + T(__builtin_log(double(sum)));
  return T(1) / sum;
}

template <typename T>
void HeadForward(const Head<T>& h, Tokens<T> out, T* lse, const DropoutMask& mask,
                 const ForwardRoom<T>& r) {
  Transpose(h.k.at, h.k.ld, r.kt, h.seq, h.dim);
  for (size_t first = 0; first < h.seq; first += kBlock) {
    const size_t rows = h.seq - first < kBlock ? h.seq - first : kBlock;
    const size_t seen = first + rows;
    Multiply<T>(rows, seen, h.dim, {h.q.From(first), h.q.ld, 1}, r.kt, h.seq, r.scores, h.seq,
                false);
    T inverse[kBlock];
    for (size_t i = 0; i < rows; i++) {
      inverse[i] = SoftmaxRow(r.scores + i * h.seq, h.scale, first + i + 1, seen, mask,
                              h.first_row + first + i, lse + first + i);
    }
    T* to = out.From(first);
    Multiply<T>(rows, h.dim, seen, {r.scores, h.seq, 1}, h.v.at, h.v.ld, to, out.ld, false);
    for (size_t i = 0; i < rows; i++) {
      for (size_t j = 0; j < h.dim; j++)
        to[i * out.ld + j] *= inverse[i];
    }
  }
}

// Turns scores (in p) and dout . v (in ds) of a query, row `row` of the mask's matrix, into
// probabilities and score gradients.
template <typename T, int kDegree = Bits<T>::kDegree>
// NOLINTNEXTLINE(readability-function-size): a row's numbers
inline void SoftmaxBackward(T* p, T* ds, T scale, T lse, T dot, size_t visible, size_t seen,
                            const DropoutMask& mask, uint64_t row) {
  ExpSum<T, kDegree>(p, p, scale, lse, visible);
  if (mask.threshold > 0) DropRow(ds, ds, visible, mask, row);
  ForVectors<T>(visible, [&](size_t j, auto load, auto store) {
    store(ds + j, load(p + j) * (load(ds + j) - dot) * scale);
  });
  if (mask.threshold > 0) DropRow(p, p, visible, mask, row);
  for (size_t j = visible; j < seen; j++)
    p[j] = ds[j] = 0;
}

// Where backward works: kt, vt [dim, seq], p, ds [kBlock, seq].
template <typename T>
struct BackwardRoom {
  T *kt, *vt, *p, *ds;

  BackwardRoom(Room& room, size_t seq, size_t dim)
      : kt(room.Take<T>(dim * seq)),
        vt(room.Take<T>(dim * seq)),
        p(room.Take<T>(kBlock * seq)),
        ds(room.Take<T>(kBlock * seq)) {}
};

// What a head's backward reads beside its Head, and writes.
template <typename E, typename T = E>
struct HeadGradient {
  Tokens<const E> out, dout;
  const T* lse;
  Tokens<E> dq, dk, dv;
};

// Before the backward of heads that share keys and values, which add to the gradients of these one
// after the other, ...
template <typename T>
void BeginKeys(const Head<T>& h, const HeadGradient<T>& g, const BackwardRoom<T>& r) {
  for (size_t i = 0; i < h.seq; i++) {
    __builtin_memset(g.dk.From(i), 0, h.dim * sizeof(T));
    __builtin_memset(g.dv.From(i), 0, h.dim * sizeof(T));
  }
  Transpose(h.k.at, h.k.ld, r.kt, h.seq, h.dim);
  Transpose(h.v.at, h.v.ld, r.vt, h.seq, h.dim);
}

// ... and after it.
template <typename T>
void EndKeys(const Head<T>&, const HeadGradient<T>&, const BackwardRoom<T>&) {}

template <typename T>
void HeadBackward(const Head<T>& h, const HeadGradient<T>& g, const DropoutMask& mask,
                  const BackwardRoom<T>& r) {
  T *const dq = g.dq.at, *const dk = g.dk.at, *const dv = g.dv.at;
  const size_t ld = g.dq.ld;
  for (size_t first = 0; first < h.seq; first += kBlock) {
    const size_t rows = h.seq - first < kBlock ? h.seq - first : kBlock;
    const size_t seen = first + rows;
    const Strided<T> q = {h.q.From(first), h.q.ld, 1};
    const Strided<T> d = {g.dout.From(first), g.dout.ld, 1};
    Multiply<T>(rows, seen, h.dim, q, r.kt, h.seq, r.p, h.seq, false);
    Multiply<T>(rows, seen, h.dim, d, r.vt, h.seq, r.ds, h.seq, false);
    for (size_t i = 0; i < rows; i++) {
      const T* o = g.out.From(first + i);
      T dot = 0;
      for (size_t j = 0; j < h.dim; j++)
        dot += o[j] * d.at[i * d.row + j];
      SoftmaxBackward(r.p + i * h.seq, r.ds + i * h.seq, h.scale, g.lse[first + i], dot,
                      first + i + 1, seen, mask, h.first_row + first + i);
    }
    Multiply<T>(rows, h.dim, seen, {r.ds, h.seq, 1}, h.k.at, h.k.ld, dq + first * ld, ld, false);
    Multiply<T>(seen, h.dim, rows, {r.ds, 1, h.seq}, q.at, q.row, dk, ld, true);
    Multiply<T>(seen, h.dim, rows, {r.p, 1, h.seq}, d.at, d.row, dv, ld, true);
  }
}

}  // namespace
}  // namespace weft::trainer

#endif  // WEFT_TRAINER_ATTENTION_KERNELS_H_
