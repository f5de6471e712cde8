#include "shard/layout/widen.h"

#include <algorithm>
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

// Elements that are converted at a time: read before any of them is written.
constexpr size_t kBlock = 64;

void WidenBlock(weft_dtype_t dtype, const uint16_t* from, float* to) {
  if (dtype == WEFT_BFLOAT16) {
    for (size_t i = 0; i < kBlock; ++i)
      to[i] = FloatOfBfloat16(from[i]);
  } else {
    for (size_t i = 0; i < kBlock; ++i)
      to[i] = FloatOfHalf(from[i]);
  }
}

void NarrowBlock(weft_dtype_t dtype, const float* from, uint16_t* to) {
  if (dtype == WEFT_BFLOAT16) {
    for (size_t i = 0; i < kBlock; ++i)
      to[i] = Bfloat16OfFloat(from[i]);
  } else {
    for (size_t i = 0; i < kBlock; ++i)
      to[i] = Float16OfFloat(from[i]);
  }
}

}  // namespace

void Widen(weft_dtype_t dtype, const void* from, size_t count, float* to) {
  WEFT_CHECK(dtype == WEFT_BFLOAT16 || dtype == WEFT_FLOAT16);
  const auto* const bytes = static_cast<const std::byte*>(from);
  uint16_t narrow[kBlock] = {};
  float wide[kBlock];
  for (size_t end = count; end > 0;) {
    const size_t block = end % kBlock == 0 ? kBlock : end % kBlock;
    end -= block;
    std::memcpy(narrow, bytes + end * sizeof(uint16_t), block * sizeof(uint16_t));
    WidenBlock(dtype, narrow, wide);
    std::memcpy(to + end, wide, block * sizeof(float));
  }
}

void NarrowQuotients(weft_dtype_t dtype, const float* from, size_t count, int64_t divisor,
                     void* to) {
  WEFT_CHECK(dtype == WEFT_BFLOAT16 || dtype == WEFT_FLOAT16);
  const DefaultRounding rounding;
  const auto by = static_cast<float>(divisor);
  auto* const bytes = static_cast<std::byte*>(to);
  uint16_t narrow[kBlock];
  float wide[kBlock] = {};
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t block = std::min(kBlock, count - begin);
    std::memcpy(wide, from + begin, block * sizeof(float));
    if (divisor != 1) {
      for (size_t i = 0; i < kBlock; ++i)
        wide[i] /= by;
    }
    NarrowBlock(dtype, wide, narrow);
    std::memcpy(bytes + begin * sizeof(uint16_t), narrow, block * sizeof(uint16_t));
  }
}

}  // namespace weft
