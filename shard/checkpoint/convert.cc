// By way of float32, which has all values of the narrower types. A float64 that goes to one of them is first rounded to odd: that keeps what the
// second rounding has to know of the bits that are dropped.
#include "shard/checkpoint/convert.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "comm/kernels/default_rounding.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/lanes.h"
#include "comm/kernels/lanes_float8.h"

namespace weft {
namespace {

// The float32 next to it towards zero, with its last bit set if anything was dropped.
float RoundToOdd(double value) {
  const auto nearest = static_cast<float>(value);
  if (!std::isfinite(nearest) && !std::isfinite(value)) return nearest;
  if (static_cast<double>(nearest) == value) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

uint16_t BfloatOf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
T ValueAt(const char* from, size_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void PutAt(T value, char* to, size_t i) {
  std::memcpy(to + i * sizeof(T), &value, sizeof(T));
}

float Widened(weft_dtype_t type, const char* from, size_t i) {
  switch (type) {
    case WEFT_FLOAT32:
      return ValueAt<float>(from, i);
    case WEFT_BFLOAT16:
      return std::bit_cast<float>(static_cast<uint32_t>(ValueAt<uint16_t>(from, i)) << 16);
    case WEFT_FLOAT16:
      return FloatOfHalf(ValueAt<uint16_t>(from, i));
    case WEFT_FLOAT8_E4M3:
      return Float8<E4m3>::Widen(ValueAt<uint8_t>(from, i));
    default:
      return Float8<E5m2>::Widen(ValueAt<uint8_t>(from, i));
  }
}

void Narrow(float value, weft_dtype_t type, char* to, size_t i) {
  switch (type) {
    case WEFT_FLOAT32:
      return PutAt(value, to, i);
    case WEFT_BFLOAT16:
      return PutAt(BfloatOf(value), to, i);
    case WEFT_FLOAT16:
      return PutAt(HalfOfFloat(value), to, i);
    case WEFT_FLOAT8_E4M3:
      return PutAt(Float8<E4m3>::Narrow(value), to, i);
    default:
      return PutAt(Float8<E5m2>::Narrow(value), to, i);
  }
}

bool IsFloating(ElementType type) {
  return type.dtype().has_value() && IsFloatingDtype(*type.dtype());
}

}  // namespace

bool CanConvert(ElementType from, ElementType to) {
  return IsFloating(from) && IsFloating(to);
}

void Convert(ElementType from_type, const void* from, ElementType to_type, void* to, size_t count) {
  WEFT_CHECK(CanConvert(from_type, to_type));
  const DefaultRounding rounding;
  const weft_dtype_t wide = *from_type.dtype(), narrow = *to_type.dtype();
  const auto* const bytes = static_cast<const char*>(from);
  auto* const out = static_cast<char*>(to);
  for (size_t i = 0; i < count; ++i) {
    if (wide != WEFT_FLOAT64) {
      const float value = Widened(wide, bytes, i);
      if (narrow == WEFT_FLOAT64)
        PutAt(static_cast<double>(value), out, i);
      else
        Narrow(value, narrow, out, i);
      continue;
    }
    const auto value = ValueAt<double>(bytes, i);
    if (narrow == WEFT_FLOAT64)
      PutAt(value, out, i);
    else
      Narrow(narrow == WEFT_FLOAT32 ? static_cast<float>(value) : RoundToOdd(value), narrow, out,
             i);
  }
}

}  // namespace weft
