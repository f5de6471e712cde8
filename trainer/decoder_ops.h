// The operations of decoding that ops.h has not, as one table of functions per instruction set: the
// product of one row with a matrix, and attention of new positions over the keys and values of
// those before.
//
//   const DecoderOps& ops = GetDecoderOps();
//   ops.product(x, weight, bias, y, {.k = width, .n = 3 * width, .transposed = true}, threads);
//
// A product of one row is a read of the matrix, so weights of 16 bits are widened in registers, and
// nothing is copied. Sums are float32. Deterministic, and the number of parts changes no bit.
//
// Thread-safety: all functions are pure apart from their outputs.
#ifndef WEFT_TRAINER_DECODER_OPS_H_
#define WEFT_TRAINER_DECODER_OPS_H_

#include <cstddef>

#include "trainer/number_type.h"
#include "trainer/ops.h"

namespace weft::trainer {

// The matrix of a product: [k, n], or with `transposed` [n, k].
struct RowProductShape {
  size_t k = 0;
  size_t n = 0;
  bool transposed = false;
};

// Keys and values of one block, each [heads, capacity, head_dim]; `group` heads of queries share
// one of them.
struct KeyValueCache {
  float* keys = nullptr;
  float* values = nullptr;
  size_t heads = 0;
  size_t head_dim = 0;
  size_t capacity = 0;  // positions
  size_t group = 1;
};

struct DecoderOps {
  // y[n] = x[k] w, plus the bias unless that is null. OpenMP threads take `parts` parts of the
  // outputs, if these are worth it.
  void (*product)(const float* x, Numbers w, const float* bias, float* y,
                  const RowProductShape& shape, size_t parts);
  // qkv is [rows, heads, group queries, key, value; head_dim], of the positions from `first` on:
  // their keys and values go into the cache, and out, [rows, heads, group, head_dim], is the causal
  // attention over it. scores: [heads, capacity], for the call.
  void (*attend)(const float* qkv, size_t first, size_t rows, const KeyValueCache& cache,
                 float* out, float* scores);
};

// The table of one instruction set; the machine must support it.
template <Isa kIsa>
const DecoderOps& DecoderOpsOf();
const DecoderOps& DecoderOpsFor(Isa isa);
// The fastest table this machine can run.
const DecoderOps& GetDecoderOps();

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DECODER_OPS_H_
