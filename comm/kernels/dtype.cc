#include "comm/kernels/dtype.h"

namespace weft {
namespace {

constexpr size_t kLocBytes = 16;  // value at 0, index at 8

struct DtypeRow {
  weft_dtype_t dtype;
  size_t bytes;
  bool floating;
  const char* name;
};

constexpr DtypeRow kDtypeRows[] = {
    {WEFT_INT8, 1, false, "int8"},
    {WEFT_UINT8, 1, false, "uint8"},
    {WEFT_INT32, 4, false, "int32"},
    {WEFT_UINT32, 4, false, "uint32"},
    {WEFT_INT64, 8, false, "int64"},
    {WEFT_UINT64, 8, false, "uint64"},
    {WEFT_FLOAT16, 2, true, "float16"},
    {WEFT_FLOAT32, 4, true, "float32"},
    {WEFT_FLOAT64, 8, true, "float64"},
    {WEFT_BFLOAT16, 2, true, "bfloat16"},
    {WEFT_FLOAT8_E4M3, 1, true, "float8_e4m3"},
    {WEFT_FLOAT8_E5M2, 1, true, "float8_e5m2"},
    {WEFT_BOOL, 1, false, "bool"},
};
static_assert(sizeof(kDtypeRows) / sizeof(kDtypeRows[0]) == sizeof(kDtypes) / sizeof(kDtypes[0]));

// nullptr for an unknown number. The first twelve types stand at their own numbers.
const DtypeRow* FindRow(weft_dtype_t dtype) {
  static_assert(kDtypeRows[WEFT_FLOAT8_E5M2].dtype == WEFT_FLOAT8_E5M2);
  const auto number = static_cast<unsigned>(dtype);
  if (number <= WEFT_FLOAT8_E5M2) return &kDtypeRows[number];
  return dtype == WEFT_BOOL ? &kDtypeRows[WEFT_FLOAT8_E5M2 + 1] : nullptr;
}

}  // namespace

bool IsDtype(weft_dtype_t dtype) {
  return FindRow(dtype) != nullptr;
}

bool IsReductionOp(weft_op_t op) {
  for (const weft_op_t known : kReductionOps) {
    if (op == known) return true;
  }
  return op == kOpPremulSum || op == kOpUser;
}

bool IsFloatingDtype(weft_dtype_t dtype) {
  const DtypeRow* row = FindRow(dtype);
  return row != nullptr && row->floating;
}

bool IsLocOp(weft_op_t op) {
  return op == WEFT_MIN_LOC || op == WEFT_MAX_LOC;
}

size_t DtypeSize(weft_dtype_t dtype) {
  const DtypeRow* row = FindRow(dtype);
  return row == nullptr ? 0 : row->bytes;
}

size_t ElementBytes(weft_dtype_t dtype, weft_op_t op) {
  const size_t bytes = DtypeSize(dtype);
  return bytes != 0 && IsLocOp(op) ? kLocBytes : bytes;
}

const char* DtypeName(weft_dtype_t dtype) {
  const DtypeRow* row = FindRow(dtype);
  return row == nullptr ? "unknown" : row->name;
}

const char* OpName(weft_op_t op) {
  switch (static_cast<int>(op)) {
    case WEFT_SUM:
      return "sum";
    case WEFT_PROD:
      return "prod";
    case WEFT_MAX:
      return "max";
    case WEFT_MIN:
      return "min";
    case WEFT_AVG:
      return "avg";
    case WEFT_BIT_AND:
      return "bit_and";
    case WEFT_BIT_OR:
      return "bit_or";
    case WEFT_BIT_XOR:
      return "bit_xor";
    case WEFT_MIN_LOC:
      return "min_loc";
    case WEFT_MAX_LOC:
      return "max_loc";
    case kOpPremulSum:
      return "premul_sum";
    case kOpUser:
      return "user";
    default:
      return "unknown";
  }
}

}  // namespace weft
