#include "bindings/xla/frame.h"

#include <climits>
#include <cstring>

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "comm/kernels/dtype.h"

namespace weft::xla {
namespace {

// Its place, or -1.
int64_t Find(const Attributes& attributes, std::string_view name) {
  if (attributes.names == nullptr) return -1;
  for (int64_t i = 0; i < attributes.size; ++i) {
    const Span* const span = attributes.names[i];
    if (span != nullptr && span->data != nullptr &&
        std::string_view(span->data, span->size) == name) {
      return i;
    }
  }
  return -1;
}

std::optional<weft_dtype_t> DtypeOf(ElementType type) {
  switch (type) {
    case ElementType::kPred:
      return WEFT_BOOL;
    case ElementType::kS8:
      return WEFT_INT8;
    case ElementType::kS32:
      return WEFT_INT32;
    case ElementType::kS64:
      return WEFT_INT64;
    case ElementType::kU8:
      return WEFT_UINT8;
    case ElementType::kU32:
      return WEFT_UINT32;
    case ElementType::kU64:
      return WEFT_UINT64;
    case ElementType::kF16:
      return WEFT_FLOAT16;
    case ElementType::kF32:
      return WEFT_FLOAT32;
    case ElementType::kF64:
      return WEFT_FLOAT64;
    case ElementType::kBF16:
      return WEFT_BFLOAT16;
    case ElementType::kF8E5M2:
      return WEFT_FLOAT8_E5M2;
    case ElementType::kF8E4M3FN:
      return WEFT_FLOAT8_E4M3;
    default:
      return std::nullopt;
  }
}

// As pairs.
std::optional<Elements> Complex(ElementType type) {
  if (type == ElementType::kC64) return Elements{.dtype = WEFT_FLOAT32, .per_element = 2};
  if (type == ElementType::kC128) return Elements{.dtype = WEFT_FLOAT64, .per_element = 2};
  return std::nullopt;
}

}  // namespace

std::optional<Elements> MovedAs(ElementType type) {
  if (const auto dtype = DtypeOf(type)) return Elements{.dtype = *dtype};
  switch (type) {
    case ElementType::kS16:
    case ElementType::kU16:
      return Elements{.dtype = WEFT_UINT8, .per_element = 2};
    case ElementType::kF8E4M3B11FNUZ:
    case ElementType::kF8E5M2FNUZ:
    case ElementType::kF8E4M3FNUZ:
    case ElementType::kF8E4M3:
    case ElementType::kF8E3M4:
    case ElementType::kF8E8M0FNU:
      return Elements{.dtype = WEFT_UINT8};
    default:
      return Complex(type);
  }
}

std::optional<Elements> CombinedAs(ElementType type, weft_op_t op) {
  if (const auto dtype = DtypeOf(type)) return Elements{.dtype = *dtype};
  return op == WEFT_SUM || op == WEFT_AVG ? Complex(type) : std::nullopt;
}

absl::Status Frame::Bad(std::string_view what) const {
  return InvalidArgument(name_, what);
}

absl::StatusOr<size_t> Frame::CountElements(const Buffer& buffer, std::string_view what) const {
  if (buffer.rank < 0 || (buffer.rank > 0 && buffer.dims == nullptr)) {
    return Bad(StrCat(what, " has ", buffer.rank, " dimensions"));
  }
  size_t elements = 1;
  for (int64_t i = 0; i < buffer.rank; ++i) {
    if (buffer.dims[i] < 0 ||
        __builtin_mul_overflow(elements, static_cast<size_t>(buffer.dims[i]), &elements)) {
      return Bad(StrCat(what, " has ", buffer.dims[i], " elements in dimension ", i));
    }
  }
  if (elements > 0 && buffer.data == nullptr) return Bad(StrCat(what, " is NULL"));
  return elements;
}

absl::StatusOr<Array> Frame::ReadArray(const Buffers& buffers, int64_t i,
                                       std::string_view what) const {
  if (buffers.kinds == nullptr || buffers.items == nullptr || buffers.kinds[i] != kBufferKind ||
      buffers.items[i] == nullptr) {
    return Bad(StrCat(what, " ", i, " is no buffer"));
  }
  const auto& buffer = *static_cast<const Buffer*>(buffers.items[i]);
  if (buffer.struct_size < sizeof(Buffer)) {
    return Bad(StrCat(what, " ", i, " is described by ", buffer.struct_size, " bytes"));
  }
  Array array{.type = buffer.type, .data = buffer.data};
  if (buffer.type != ElementType::kToken) {
    WEFT_ASSIGN_OR_RETURN(array.elements, CountElements(buffer, StrCat(what, " ", i)));
  }
  return array;
}

// What a token holds means nothing; but the result is a buffer that others may read.
absl::Status Frame::HandThrough(const Array& from, const Array& to) const {
  if (from.type != to.type || from.elements != to.elements) {
    return Bad("the token among the results is not like that among the operands");
  }
  if (from.type == ElementType::kToken || from.data == to.data) return absl::OkStatus();
  const std::optional<Elements> elements = MovedAs(from.type);
  size_t bytes = 0;
  if (!elements || __builtin_mul_overflow(
                       from.elements, DtypeSize(elements->dtype) * elements->per_element, &bytes)) {
    return Bad(StrCat("the token has elements of XLA's type ", static_cast<int>(from.type)));
  }
  if (bytes > 0) std::memmove(to.data, from.data, bytes);
  return absl::OkStatus();
}

absl::StatusOr<Arrays> Frame::ReadArrays(const Sides& sides) const {
  const int64_t ins = sides.in ? 1 : 0;
  const int64_t outs = sides.out ? 1 : 0;
  const int64_t tokens = call_.operands.size - ins;
  if ((tokens != 0 && tokens != 1) || call_.results.size != outs + tokens) {
    return Bad(StrCat("there are ", call_.operands.size, " operands and ", call_.results.size,
                      " results; there must be ", ins, " and ", outs, ", or a token more of each"));
  }
  Arrays arrays;
  if (sides.in) {
    WEFT_ASSIGN_OR_RETURN(arrays.in, ReadArray(call_.operands, 0, "operand"));
  }
  if (sides.out) {
    WEFT_ASSIGN_OR_RETURN(arrays.out, ReadArray(call_.results, 0, "result"));
  }
  if (tokens == 1) {
    WEFT_ASSIGN_OR_RETURN(const Array from, ReadArray(call_.operands, ins, "operand"));
    WEFT_ASSIGN_OR_RETURN(const Array to, ReadArray(call_.results, outs, "result"));
    WEFT_RETURN_IF_ERROR(HandThrough(from, to));
  }
  return arrays;
}

absl::StatusOr<int64_t> Frame::NumberAt(int64_t i, std::string_view attribute) const {
  const Attributes& attributes = call_.attributes;
  const bool scalar = attributes.kinds != nullptr && attributes.items != nullptr &&
                      attributes.kinds[i] == kScalarKind && attributes.items[i] != nullptr;
  if (scalar) {
    const auto& given = *static_cast<const Scalar*>(attributes.items[i]);
    if (given.value != nullptr && given.type == ElementType::kS64) {
      int64_t number = 0;
      std::memcpy(&number, given.value, sizeof(number));
      return number;
    }
    if (given.value != nullptr && given.type == ElementType::kS32) {
      int32_t number = 0;
      std::memcpy(&number, given.value, sizeof(number));
      return number;
    }
  }
  return Bad(StrCat("attribute ", attribute, " is no 64-bit integer"));
}

absl::StatusOr<int64_t> Frame::Number(std::string_view attribute) const {
  const int64_t i = Find(call_.attributes, attribute);
  if (i < 0) return Bad(StrCat("attribute ", attribute, " is missing"));
  return NumberAt(i, attribute);
}

absl::StatusOr<int64_t> Frame::NumberOr(std::string_view attribute, int64_t if_absent) const {
  const int64_t i = Find(call_.attributes, attribute);
  if (i < 0) return if_absent;
  return NumberAt(i, attribute);
}

absl::StatusOr<int> Frame::SmallNumber(std::string_view attribute) const {
  WEFT_ASSIGN_OR_RETURN(const int64_t number, Number(attribute));
  if (number < INT_MIN || number > INT_MAX) {
    return Bad(StrCat("attribute ", attribute, " is ", number));
  }
  return static_cast<int>(number);
}

}  // namespace weft::xla
