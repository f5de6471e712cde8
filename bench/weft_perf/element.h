// Element types and reductions under the names that nccl-tests gives them on its command line and
// in its table.
#ifndef WEFT_BENCH_WEFT_PERF_ELEMENT_H_
#define WEFT_BENCH_WEFT_PERF_ELEMENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "weft/types.h"

namespace weft::perf {

enum class Format { kSigned, kUnsigned, kFloat };

struct ElementType {
  const char* name;
  weft_dtype_t dtype;
  size_t size;
  Format format;
  int exponent_bits;  // of floating formats
  int mantissa_bits;  // stored ones; the leading one is not counted
};

struct Reduction {
  const char* name;
  weft_op_t op;  // of mulsum WEFT_OP_CUSTOM_FIRST: the number that is used is made at run time
};

// In the order of `-d all` and `-o all`.
std::span<const ElementType> ElementTypes();
std::span<const Reduction> Reductions();

// nullptr when there is none of that name.
const ElementType* FindElementType(std::string_view name);
const Reduction* FindReduction(std::string_view name);

// Sum of factor x input; the factor is PremulFactor(rank).
inline bool IsPremulSum(const Reduction& reduction) {
  return reduction.op == WEFT_OP_CUSTOM_FIRST;
}

// What nccl-tests multiplies a rank's input by: 1 on even ranks, 2 on odd ones.
inline int PremulFactor(int rank) {
  return 1 + rank % 2;
}

// The nearest value of a floating format, ties to even, as bits. Too large becomes infinity, in
// f8e4m3, which has none, the largest number.
uint64_t EncodeFloat(double value, const ElementType& type);
// `value` as an element of any type; an integer type must be able to hold it.
uint64_t EncodeElement(int value, const ElementType& type);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_ELEMENT_H_
