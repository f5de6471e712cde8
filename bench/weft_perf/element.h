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
  bool supported;
};

struct Reduction {
  const char* name;
  weft_op_t op;
  bool supported;
};

// In the order of `-d all` and `-o all`; unsupported ones are known by name only.
std::span<const ElementType> ElementTypes();
std::span<const Reduction> Reductions();

// nullptr when there is none of that name.
const ElementType* FindElementType(std::string_view name);
const Reduction* FindReduction(std::string_view name);

// The nearest value of a floating format, ties to even, as bits; infinity when it is too large.
uint64_t EncodeFloat(double value, const ElementType& type);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_ELEMENT_H_
