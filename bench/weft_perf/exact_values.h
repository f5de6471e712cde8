// The numbers behind a pattern: inputs of all ranks whose sums and products are values of the
// element type in any order, and the reduction of them.
//
// Sums: each element gets a random scale, and every rank an integer such that their magnitudes together
// stay below the type's precision. Products: one rank's small integer times powers of two. Integers
// wrap, so any bits will do. Least and greatest are exact by nature.
//
// Thread-safety: immutable after construction. Borrows the key.
#ifndef WEFT_BENCH_WEFT_PERF_EXACT_VALUES_H_
#define WEFT_BENCH_WEFT_PERF_EXACT_VALUES_H_

#include <cstddef>
#include <cstdint>

#include "bench/weft_perf/element.h"

namespace weft::perf {

// What decides the values. Two different seeds agree nowhere but by chance.
struct DataKey {
  const ElementType* type = nullptr;
  const Reduction* reduction = nullptr;  // nullptr: values are only moved, any bits may occur
  int ranks = 1;
  uint64_t seed = 0;
  size_t length = SIZE_MAX;  // only elements below this are asked for; small ones cost less
};

// A 64-bit number that looks random, the same for the same x.
uint64_t Mix(uint64_t x);

class ExactValues {
 public:
  explicit ExactValues(const DataKey& key) : key_(key), type_(*key.type) {}

  // What `rank` contributes at `index`, in the low bytes.
  uint64_t InputBits(int rank, size_t index) const;
  // What must come out; key.reduction must be set.
  uint64_t ReducedBits(size_t index) const;

 private:
  weft_op_t op() const { return key_.reduction->op; }

  bool is_sum() const { return op() != WEFT_PROD && op() != WEFT_MAX && op() != WEFT_MIN; }

  uint64_t Random(int rank, size_t index) const;
  int Turn(int rank, size_t index) const;
  uint64_t SmallIntegerLimit(uint64_t wanted) const;
  double Float(int rank, size_t index) const;
  double FloatSummand(int rank, size_t index) const;
  double FloatFactor(int rank, size_t index) const;
  int64_t Bounded(int rank, size_t index, int64_t limit) const;
  uint64_t Integer(int rank, size_t index) const;
  uint64_t Extend(uint64_t bits) const;
  template <typename Value, typename Contribution, typename Less>
  Value Reduce(const Contribution& contribution, const Less& less) const;

  const DataKey& key_;
  const ElementType& type_;
};

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_EXACT_VALUES_H_
