#include "bench/weft_perf/element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace weft::perf {
namespace {

constexpr std::array kElementTypes = {
    ElementType{"int8", WEFT_INT8, 1, Format::kSigned, 0, 0},
    ElementType{"uint8", WEFT_UINT8, 1, Format::kUnsigned, 0, 0},
    ElementType{"int32", WEFT_INT32, 4, Format::kSigned, 0, 0},
    ElementType{"uint32", WEFT_UINT32, 4, Format::kUnsigned, 0, 0},
    ElementType{"int64", WEFT_INT64, 8, Format::kSigned, 0, 0},
    ElementType{"uint64", WEFT_UINT64, 8, Format::kUnsigned, 0, 0},
    ElementType{"half", WEFT_FLOAT16, 2, Format::kFloat, 5, 10},
    ElementType{"float", WEFT_FLOAT32, 4, Format::kFloat, 8, 23},
    ElementType{"double", WEFT_FLOAT64, 8, Format::kFloat, 11, 52},
    ElementType{"bfloat16", WEFT_BFLOAT16, 2, Format::kFloat, 8, 7},
    ElementType{"f8e4m3", WEFT_FLOAT8_E4M3, 1, Format::kFloat, 4, 3},
    ElementType{"f8e5m2", WEFT_FLOAT8_E5M2, 1, Format::kFloat, 5, 2},
};

constexpr std::array kReductions = {
    Reduction{"sum", WEFT_SUM}, Reduction{"prod", WEFT_PROD},
    Reduction{"max", WEFT_MAX}, Reduction{"min", WEFT_MIN},
    Reduction{"avg", WEFT_AVG}, Reduction{"mulsum", WEFT_OP_CUSTOM_FIRST},
};

template <typename Entry>
const Entry* FindByName(std::span<const Entry> entries, std::string_view name) {
  for (const Entry& entry : entries) {
    if (name == entry.name) return &entry;
  }
  return nullptr;
}

// The OCP format without infinities: the largest exponent has numbers, and only one NaN.
bool HasInfinity(const ElementType& type) {
  return type.dtype != WEFT_FLOAT8_E4M3;
}

}  // namespace

std::span<const ElementType> ElementTypes() {
  return kElementTypes;
}

std::span<const Reduction> Reductions() {
  return kReductions;
}

const ElementType* FindElementType(std::string_view name) {
  return FindByName(ElementTypes(), name);
}

const Reduction* FindReduction(std::string_view name) {
  return FindByName(Reductions(), name);
}

uint64_t EncodeElement(int value, const ElementType& type) {
  if (type.format == Format::kFloat) return EncodeFloat(value, type);
  return static_cast<uint64_t>(static_cast<int64_t>(value));
}

uint64_t EncodeFloat(double value, const ElementType& type) {
  const int mantissa = type.mantissa_bits;
  if (mantissa == 52) return std::bit_cast<uint64_t>(value);
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (mantissa + type.exponent_bits) : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  // Scaled so that one unit is one unit in the last place; subnormals share the smallest exponent.
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  auto scaled = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, mantissa - exponent)));
  const uint64_t one = uint64_t{1} << mantissa;
  if (scaled == 2 * one) {
    scaled = one;
    ++exponent;
  }
  const uint64_t top = ((uint64_t{1} << type.exponent_bits) - 1) << mantissa;
  if (!HasInfinity(type)) {
    const uint64_t largest = top | (one - 2);
    if (exponent > bias + 1 || (exponent == bias + 1 && scaled == 2 * one - 1)) {
      return sign | largest;
    }
  } else if (exponent > bias) {
    return sign | top;
  }
  if (scaled < one) return sign | scaled;
  return sign | (static_cast<uint64_t>(exponent + bias) << mantissa) | (scaled - one);
}

}  // namespace weft::perf
