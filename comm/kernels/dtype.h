// Sizes and names of element types, names of reductions.
//
//   const size_t bytes = count * ElementBytes(WEFT_FLOAT32, WEFT_MIN_LOC);  // 16 each: value and index
//   for (const weft_dtype_t dtype : kDtypes) ...
//
// Numbers that are not in weft/types.h are answered, not trusted: 0, false and "unknown".
// Thread-safety: pure functions; the names are in static storage.
#pragma once

#include <cstddef>

#include "weft/types.h"

namespace weft {

// Inside weft the reductions that weft/op.h makes at run time have one number per kind; what makes
// them differ stands in a CustomOp (custom_op.h). Below WEFT_OP_CUSTOM_FIRST, so that no caller's
// number can be mistaken for one.
constexpr weft_op_t kOpPremulSum = static_cast<weft_op_t>(1022);
constexpr weft_op_t kOpUser = static_cast<weft_op_t>(1023);

// Every element type, and every reduction that weft/types.h numbers.
inline constexpr weft_dtype_t kDtypes[] = {
    WEFT_INT8,        WEFT_UINT8,       WEFT_INT32,   WEFT_UINT32,  WEFT_INT64,
    WEFT_UINT64,      WEFT_FLOAT16,     WEFT_FLOAT32, WEFT_FLOAT64, WEFT_BFLOAT16,
    WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2, WEFT_BOOL};
inline constexpr weft_op_t kReductionOps[] = {WEFT_SUM,     WEFT_PROD,    WEFT_MAX,    WEFT_MIN,
                                              WEFT_AVG,     WEFT_BIT_AND, WEFT_BIT_OR, WEFT_BIT_XOR,
                                              WEFT_MIN_LOC, WEFT_MAX_LOC};

// Whether the number is one of kDtypes.
bool IsDtype(weft_dtype_t dtype);
// Whether the number is one of kReductionOps, kOpPremulSum or kOpUser.
bool IsReductionOp(weft_op_t op);
// float16, bfloat16, float32, float64 and both float8.
bool IsFloatingDtype(weft_dtype_t dtype);
// WEFT_MIN_LOC and WEFT_MAX_LOC, whose elements are pairs {value, int64_t index}.
bool IsLocOp(weft_op_t op);

// Bytes of one element; 0 for an unknown type.
size_t DtypeSize(weft_dtype_t dtype);
// Bytes of one element of a reduction: 16 for min_loc and max_loc, else DtypeSize(dtype); 0 for an
// unknown type.
size_t ElementBytes(weft_dtype_t dtype, weft_op_t op);

// "float32", "bfloat16"...; "unknown".
const char* DtypeName(weft_dtype_t dtype);
// "sum", "bit_and", "min_loc"..., "premul_sum", "user"; "unknown".
const char* OpName(weft_op_t op);

}  // namespace weft
