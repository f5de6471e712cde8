#include "comm/kernels/dtype.h"

namespace weft {
namespace {

constexpr const char* kDtypeNames[kDtypeRows] = {
    "int8",    "uint8",   "int32",    "uint32",      "int64",       "uint64", "float16",
    "float32", "float64", "bfloat16", "float8_e4m3", "float8_e5m2", "bool",   "unknown"};
constexpr const char* kOpNames[kOpRows] = {"sum",        "prod",   "max",     "min",     "avg",
                                           "bit_and",    "bit_or", "bit_xor", "min_loc", "max_loc",
                                           "premul_sum", "user",   "unknown"};

constexpr bool RowsFollowTheLists() {
  for (unsigned row = 0; row < kDtypeRows - 1; ++row) {
    if (DtypeRow(kDtypes[row]) != row) return false;
  }
  for (unsigned row = 0; row < kOpRows - 3; ++row) {
    if (OpRow(kReductionOps[row]) != row) return false;
  }
  return OpRow(kOpPremulSum) == kOpRows - 3 && OpRow(kOpUser) == kOpRows - 2;
}

static_assert(RowsFollowTheLists());

}  // namespace

const char* DtypeName(weft_dtype_t dtype) {
  return kDtypeNames[DtypeRow(dtype)];
}

const char* OpName(weft_op_t op) {
  return kOpNames[OpRow(op)];
}

}  // namespace weft
