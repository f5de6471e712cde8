// The numbers behind a pattern, element by element: the inputs of all ranks, and what must come out.
//
// Exact ones: sums and products are values of the element type in any order. For sums each element gets a random scale,
// and every rank an integer such that their magnitudes together stay below the type's precision. Products: one rank's
// small integer times powers of two. Integers wrap, so any bits will do. Least and greatest are exact by nature.
//
// Real ones, for --repro: the reduction shows in which order it was done. Mantissas are random in all bits, and at half
// of the elements one rank adds a number so large that the others' low bits are lost, which another rank takes away
// again. What is left depends on who was added in between. A few elements are subnormal, which an instruction set may
// flush. Factors of products are close to 1. Integers have all bits; their results depend on no order. An element
// depends on key.seed, key.type, key.reduction, key.ranks, its rank and its index, and not on how many elements there
// are, so the result of a small size is the beginning of a large one's.
//
// Thread-safety: pure.
#ifndef WEFT_BENCH_WEFT_PERF_VALUES_H_
#define WEFT_BENCH_WEFT_PERF_VALUES_H_

#include <cstddef>
#include <cstdint>

#include "bench/weft_perf/operation.h"

namespace weft::perf {

// What decides the values. Two different seeds agree nowhere but by chance.
struct DataKey {
  const ElementType* type = nullptr;
  const Reduction* reduction = nullptr;  // nullptr: values are only moved, any bits may occur
  size_t ranks = 1;
  uint64_t seed = 0;
  size_t length = SIZE_MAX;  // only elements below this are asked for; small ones cost less
  size_t reduced_ranks = 0;  // whose values are reduced, from rank 0 on; 0: all
};

// The bits of what `rank` contributes at `index`, in the low bytes.
uint64_t ExactBits(const DataKey& key, size_t rank, size_t index);
// Of the reduction of the ranks' exact values; key.reduction must be set.
uint64_t ReducedBits(const DataKey& key, size_t index);
uint64_t RealBits(const DataKey& key, size_t rank, size_t index);

// The nearest value of a floating format, ties to even, as bits. Too large becomes infinity, in
// f8e4m3, which has none, the largest number.
uint64_t EncodeFloat(double value, const ElementType& type);
// `value` as an element of any type; an integer type must be able to hold it.
uint64_t EncodeElement(int value, const ElementType& type);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_VALUES_H_
