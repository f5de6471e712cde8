// Vectors that memory holds only the first bytes of: what is left of an array, or a small one.
//
//   V value = LoadPart<V>(from, bytes);     // the rest is zero
//   StorePart(to, value, bytes);
//
// 0 < bytes < sizeof(V); not a byte beyond is read or written. AVX-512 masks bytes; before it, loads and
// stores that overlap make do: through memory the vector would have to wait for the small stores.
//
// Internal linkage, see lanes.h. Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/kernels/lanes.h"

namespace weft {
namespace {

// What LoadFew and StoreFew do: a single element or two, the most common part.
constexpr bool IsFew(size_t bytes) {
  return bytes == 8 || bytes == 4;
}

#if defined(__AVX512BW__)

template <typename V>
WEFT_INLINE V LoadPart(const char* from, size_t bytes) {
  const uint64_t mask = ~uint64_t{0} >> (64 - bytes);
  if constexpr (sizeof(V) == 64) {
    return __builtin_bit_cast(V, _mm512_maskz_loadu_epi8(mask, from));
  } else {
    static_assert(sizeof(V) == 32);
    return __builtin_bit_cast(V, _mm256_maskz_loadu_epi8(static_cast<__mmask32>(mask), from));
  }
}

template <typename V>
WEFT_INLINE void StorePart(char* to, V value, size_t bytes) {
  const uint64_t mask = ~uint64_t{0} >> (64 - bytes);
  if constexpr (sizeof(V) == 64) {
    _mm512_mask_storeu_epi8(to, mask, __builtin_bit_cast(__m512i, value));
  } else {
    static_assert(sizeof(V) == 32);
    _mm256_mask_storeu_epi8(to, static_cast<__mmask32>(mask), __builtin_bit_cast(__m256i, value));
  }
}

#elif defined(__AVX2__)

// 1 to 7 bytes, in the low ones of the result. Bytes that are loaded twice are equal, so "or" joins them.
WEFT_INLINE uint64_t LoadBelow8(const char* from, size_t bytes) {
  if (bytes >= 4) {
    const uint64_t last = LoadAs<uint32_t>(from + bytes - 4);
    return LoadAs<uint32_t>(from) | last << (8 * (bytes - 4));
  }
  const size_t middle = bytes / 2;
  const uint64_t last = LoadAs<uint8_t>(from + bytes - 1);
  return LoadAs<uint8_t>(from) | uint64_t{LoadAs<uint8_t>(from + middle)} << (8 * middle) |
         last << (8 * (bytes - 1));
}

// 1 to 16 bytes.
WEFT_INLINE __m128i LoadTo16(const char* from, size_t bytes) {
  if (bytes < 8) return _mm_cvtsi64_si128(static_cast<int64_t>(LoadBelow8(from, bytes)));
  const __m128i first = _mm_cvtsi64_si128(LoadAs<int64_t>(from));
  if (bytes == 8) return first;
  const uint64_t last = LoadAs<uint64_t>(from + bytes - 8) >> (8 * (16 - bytes));
  return _mm_insert_epi64(first, static_cast<int64_t>(last), 1);
}

// Not inlined: one copy serves all kernels of a translation unit.
[[gnu::noinline]] __m256i LoadTo32(const char* from, size_t bytes) {
  if (bytes <= 16) return _mm256_zextsi128_si256(LoadTo16(from, bytes));
  const __m256i first = _mm256_zextsi128_si256(LoadAs<__m128i>(from));
  return _mm256_inserti128_si256(first, LoadTo16(from + 16, bytes - 16), 1);
}

[[gnu::noinline]] void StoreTo16(char* to, __m128i value, size_t bytes) {
  if (bytes == 16) return StoreAs(to, value);
  auto rest = static_cast<uint64_t>(_mm_cvtsi128_si64(value));
  if (bytes >= 8) {
    StoreAs(to, rest);
    if (bytes == 8) return;
    to += 8;
    rest = static_cast<uint64_t>(_mm_extract_epi64(value, 1));
  }
  if ((bytes & 4) != 0) {
    StoreAs(to, static_cast<uint32_t>(rest));
    to += 4;
    rest >>= 32;
  }
  if ((bytes & 2) != 0) {
    StoreAs(to, static_cast<uint16_t>(rest));
    to += 2;
    rest >>= 16;
  }
  if ((bytes & 1) != 0) StoreAs(to, static_cast<uint8_t>(rest));
}

template <typename V>
WEFT_INLINE V LoadPart(const char* from, size_t bytes) {
  if constexpr (sizeof(V) == 32) {
    return __builtin_bit_cast(V, LoadTo32(from, bytes));
  } else {
    static_assert(sizeof(V) == 16);
    return __builtin_bit_cast(V, _mm256_castsi256_si128(LoadTo32(from, bytes)));
  }
}

template <typename V>
WEFT_INLINE void StorePart(char* to, V value, size_t bytes) {
  if constexpr (sizeof(V) == 32) {
    const auto both = __builtin_bit_cast(__m256i, value);
    const __m128i first = _mm256_castsi256_si128(both);
    if (bytes <= 16) return StoreTo16(to, first, bytes);
    StoreAs(to, first);
    StoreTo16(to + 16, _mm256_extracti128_si256(both, 1), bytes - 16);
  } else {
    static_assert(sizeof(V) == 16);
    StoreTo16(to, __builtin_bit_cast(__m128i, value), bytes);
  }
}

#endif

#if defined(__AVX2__)

// As LoadPart and StorePart, but without a call, and with stores that the next load can be served from,
// which masked ones are not.
template <typename V>
WEFT_INLINE V LoadFew(const char* from, size_t bytes) {
  const __m128i few = bytes == 8 ? _mm_cvtsi64_si128(LoadAs<int64_t>(from))
                                 : _mm_cvtsi32_si128(LoadAs<int32_t>(from));
  if constexpr (sizeof(V) == 64) {
    return __builtin_bit_cast(V, _mm512_zextsi128_si512(few));
  } else if constexpr (sizeof(V) == 32) {
    return __builtin_bit_cast(V, _mm256_zextsi128_si256(few));
  } else {
    return __builtin_bit_cast(V, few);
  }
}

template <typename V>
WEFT_INLINE void StoreFew(char* to, V value, size_t bytes) {
  __m128i few;
  if constexpr (sizeof(V) == 64) {
    few = _mm512_castsi512_si128(__builtin_bit_cast(__m512i, value));
  } else if constexpr (sizeof(V) == 32) {
    few = _mm256_castsi256_si128(__builtin_bit_cast(__m256i, value));
  } else {
    few = __builtin_bit_cast(__m128i, value);
  }
  if (bytes == 8) return StoreAs(to, _mm_cvtsi128_si64(few));
  StoreAs(to, _mm_cvtsi128_si32(few));
}

#endif

}  // namespace
}  // namespace weft
