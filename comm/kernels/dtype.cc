#include "comm/kernels/dtype.h"

namespace weft {
namespace {

struct DtypeRow {
  size_t bytes;
  const char* name;
};

// By weft_dtype_t.
constexpr DtypeRow kDtypes[kDtypeCount] = {
    {1, "int8"},    {1, "uint8"},    {4, "int32"},       {4, "uint32"},
    {8, "int64"},   {8, "uint64"},   {2, "float16"},     {4, "float32"},
    {8, "float64"}, {2, "bfloat16"}, {1, "float8_e4m3"}, {1, "float8_e5m2"},
};

// By weft_op_t.
constexpr const char* kOps[kOpCount] = {"sum", "prod", "max", "min", "avg"};

static_assert(WEFT_FLOAT8_E5M2 == kDtypeCount - 1 && WEFT_BFLOAT16 == 9 && WEFT_FLOAT16 == 6);
static_assert(WEFT_AVG == kOpCount - 1 && WEFT_MAX == 2 && WEFT_MIN == 3);

const DtypeRow* FindRow(weft_dtype_t dtype) {
  const auto number = static_cast<unsigned>(dtype);
  return number < kDtypeCount ? &kDtypes[number] : nullptr;
}

}  // namespace

size_t DtypeSize(weft_dtype_t dtype) {
  const DtypeRow* row = FindRow(dtype);
  return row == nullptr ? 0 : row->bytes;
}

const char* DtypeName(weft_dtype_t dtype) {
  const DtypeRow* row = FindRow(dtype);
  return row == nullptr ? "unknown" : row->name;
}

const char* OpName(weft_op_t op) {
  const auto number = static_cast<unsigned>(op);
  return number < kOpCount ? kOps[number] : "unknown";
}

}  // namespace weft
