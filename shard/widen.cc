#include "shard/widen.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "comm/kernels/default_rounding.h"
#include "comm/kernels/lanes.h"

namespace weft {
namespace {

float FloatOfBfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t Bfloat16OfFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

uint16_t Float16OfFloat(float value) {
  return value != value ? uint16_t{0x7e00} : HalfOfFloat(value);
}

}  // namespace

void Widen(weft_dtype_t dtype, const void* from, size_t count, float* to) {
  WEFT_CHECK(dtype == WEFT_BFLOAT16 || dtype == WEFT_FLOAT16);
  const auto* const bytes = static_cast<const std::byte*>(from);
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes + i * sizeof(bits), sizeof(bits));
    to[i] = dtype == WEFT_BFLOAT16 ? FloatOfBfloat16(bits) : FloatOfHalf(bits);
  }
}

void NarrowQuotients(weft_dtype_t dtype, const float* from, size_t count, int64_t divisor,
                     void* to) {
  WEFT_CHECK(dtype == WEFT_BFLOAT16 || dtype == WEFT_FLOAT16);
  const DefaultRounding rounding;
  const auto by = static_cast<float>(divisor);
  auto* const bytes = static_cast<std::byte*>(to);
  for (size_t i = 0; i < count; ++i) {
    const float value = from[i] / by;
    const uint16_t bits = dtype == WEFT_BFLOAT16 ? Bfloat16OfFloat(value) : Float16OfFloat(value);
    std::memcpy(bytes + i * sizeof(bits), &bits, sizeof(bits));
  }
}

}  // namespace weft
