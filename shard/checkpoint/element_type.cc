#include "shard/checkpoint/element_type.h"

namespace weft {
namespace {

// Numbers of types that weft has not.
enum ForeignType {
  kInt16 = 1000,
  kUint16,
  kFloat8E4m3Fnuz,
  kFloat8E5m2Fnuz,
  kFloat8E8m0,
  kComplex64
};

struct Row {
  int number;
  const char* name;
  size_t bytes;
};

constexpr Row kRows[] = {
    {WEFT_BOOL, "BOOL", 1},
    {WEFT_UINT8, "U8", 1},
    {WEFT_INT8, "I8", 1},
    {WEFT_FLOAT8_E5M2, "F8_E5M2", 1},
    {WEFT_FLOAT8_E4M3, "F8_E4M3", 1},
    {kFloat8E8m0, "F8_E8M0", 1},
    {kFloat8E4m3Fnuz, "F8_E4M3FNUZ", 1},
    {kFloat8E5m2Fnuz, "F8_E5M2FNUZ", 1},
    {kInt16, "I16", 2},
    {kUint16, "U16", 2},
    {WEFT_FLOAT16, "F16", 2},
    {WEFT_BFLOAT16, "BF16", 2},
    {WEFT_INT32, "I32", 4},
    {WEFT_UINT32, "U32", 4},
    {WEFT_FLOAT32, "F32", 4},
    {kComplex64, "C64", 8},
    {WEFT_FLOAT64, "F64", 8},
    {WEFT_INT64, "I64", 8},
    {WEFT_UINT64, "U64", 8},
};

const Row* RowOf(int number) {
  for (const Row& row : kRows) {
    if (row.number == number) return &row;
  }
  return nullptr;
}

}  // namespace

std::optional<ElementType> ElementType::OfName(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return ElementType(row.number);
  }
  return std::nullopt;
}

const char* ElementType::name() const {
  const Row* const row = RowOf(number_);
  return row == nullptr ? "" : row->name;
}

size_t ElementType::bytes() const {
  const Row* const row = RowOf(number_);
  return row == nullptr ? 0 : row->bytes;
}

std::optional<weft_dtype_t> ElementType::dtype() const {
  if (number_ >= kInt16 || RowOf(number_) == nullptr) return std::nullopt;
  return static_cast<weft_dtype_t>(number_);
}

}  // namespace weft
