// Sizes and names of element types, names of reductions.
//
//   const size_t bytes = count * ElementBytes(WEFT_FLOAT32, WEFT_MIN_LOC);  // 16 each: value and index
//   for (const weft_dtype_t dtype : kDtypes) ...
//
// Numbers that are not in weft/types.h are answered, not trusted: 0, false and "unknown".
// Thread-safety: pure functions; the names are in static storage.
#pragma once

#include <cstddef>
#include <cstdint>

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

// Tables by type and by reduction have a row for each known number and a last one for all others.
inline constexpr unsigned kDtypeRows = 14;
inline constexpr unsigned kOpRows = 13;

// The row of a type: its place in kDtypes, or the last row.
constexpr unsigned DtypeRow(weft_dtype_t dtype) {
  const auto number = static_cast<unsigned>(dtype);
  if (number <= WEFT_FLOAT8_E5M2) return number;
  return number == WEFT_BOOL ? kDtypeRows - 2 : kDtypeRows - 1;
}

// The row of a reduction: its place in kReductionOps, then premul_sum and user, or the last row.
constexpr unsigned OpRow(weft_op_t op) {
  const auto number = static_cast<unsigned>(op);
  if (number <= WEFT_AVG) return number;
  if (number - WEFT_BIT_AND <= WEFT_MAX_LOC - WEFT_BIT_AND) return number - WEFT_BIT_AND + 5;
  return number - kOpPremulSum <= 1 ? number - kOpPremulSum + kOpRows - 3 : kOpRows - 1;
}

// Bytes of one element by DtypeRow; 0 for an unknown type.
inline constexpr uint8_t kDtypeSizes[kDtypeRows] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 1, 0};
inline constexpr size_t kLocBytes = 16;  // value at 0, index at 8

// float16, bfloat16, float32, float64 and both float8, a bit each by DtypeRow.
inline constexpr unsigned kFloatingDtypes = 1u << WEFT_FLOAT16 | 1u << WEFT_FLOAT32 |
                                            1u << WEFT_FLOAT64 | 1u << WEFT_BFLOAT16 |
                                            1u << WEFT_FLOAT8_E4M3 | 1u << WEFT_FLOAT8_E5M2;

// Whether the number is one of kDtypes.
constexpr bool IsDtype(weft_dtype_t dtype) {
  return DtypeRow(dtype) != kDtypeRows - 1;
}

// Whether the number is one of kReductionOps, kOpPremulSum or kOpUser.
constexpr bool IsReductionOp(weft_op_t op) {
  return OpRow(op) != kOpRows - 1;
}

// float16, bfloat16, float32, float64 and both float8.
constexpr bool IsFloatingDtype(weft_dtype_t dtype) {
  return (kFloatingDtypes >> DtypeRow(dtype) & 1u) != 0;
}

// WEFT_MIN_LOC and WEFT_MAX_LOC, whose elements are pairs {value, int64_t index}.
constexpr bool IsLocOp(weft_op_t op) {
  return op == WEFT_MIN_LOC || op == WEFT_MAX_LOC;
}

// Bytes of one element; 0 for an unknown type.
constexpr size_t DtypeSize(weft_dtype_t dtype) {
  return kDtypeSizes[DtypeRow(dtype)];
}

// Bytes of one element of a reduction: 16 for min_loc and max_loc, else DtypeSize(dtype); 0 for an
// unknown type.
constexpr size_t ElementBytes(weft_dtype_t dtype, weft_op_t op) {
  const size_t bytes = DtypeSize(dtype);
  return bytes != 0 && IsLocOp(op) ? kLocBytes : bytes;
}

// The reductions that a type has, a bit each by OpRow: all have sum, prod, max, min and user.
inline constexpr unsigned kCommonReductions = 1u << OpRow(WEFT_SUM) | 1u << OpRow(WEFT_PROD) |
                                              1u << OpRow(WEFT_MAX) | 1u << OpRow(WEFT_MIN) |
                                              1u << OpRow(kOpUser);
inline constexpr unsigned kBitReductions =
    1u << OpRow(WEFT_BIT_AND) | 1u << OpRow(WEFT_BIT_OR) | 1u << OpRow(WEFT_BIT_XOR);
inline constexpr unsigned kNumberReductions = 1u << OpRow(WEFT_AVG) | 1u << OpRow(WEFT_MIN_LOC) |
                                              1u << OpRow(WEFT_MAX_LOC) | 1u << OpRow(kOpPremulSum);

// Whether the type has the reduction, kOpPremulSum and kOpUser included; false for unknown numbers.
constexpr bool HasReduction(weft_dtype_t dtype, weft_op_t op) {
  if (!IsDtype(dtype)) return false;
  unsigned reductions = kCommonReductions;
  if (dtype != WEFT_BOOL) reductions |= kNumberReductions;
  if (!IsFloatingDtype(dtype)) reductions |= kBitReductions;
  return (reductions >> OpRow(op) & 1u) != 0;
}

// "float32", "bfloat16"...; "unknown".
const char* DtypeName(weft_dtype_t dtype);
// "sum", "bit_and", "min_loc"..., "premul_sum", "user"; "unknown".
const char* OpName(weft_op_t op);

}  // namespace weft
