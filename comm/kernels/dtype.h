// Sizes and names of element types, names of reductions.
//
// Numbers that are not in weft/types.h are answered, not trusted: 0 and "unknown".
// Thread-safety: pure functions; the names are in static storage.
#pragma once

#include <cstddef>

#include "weft/types.h"

namespace weft {

constexpr int kDtypeCount = 12;  // of weft_dtype_t
constexpr int kOpCount = 5;      // of weft_op_t

// Bytes of one element; 0 for an unknown type.
size_t DtypeSize(weft_dtype_t dtype);
// "float32", "bfloat16"...; "unknown".
const char* DtypeName(weft_dtype_t dtype);
// "sum", "prod", "max", "min", "avg"; "unknown".
const char* OpName(weft_op_t op);

}  // namespace weft
