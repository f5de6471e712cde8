// Elements side by side that a thread moves by one access: up to 16 bytes, which is as wide as accesses of a GPU's thread are.
//
//   Packet<uint16_t, 8> raw = LoadPacket<uint16_t, 8>(from);    // one access of 128 bits; `from` is aligned to it
//   StorePacket(to, raw);
//
// Wider packets are several accesses.
// Thread-safety: values.
#pragma once

#include <cstddef>

#include "comm/kernels/conversions.h"

// Before a loop whose count is a constant. Indices of registers must be constants on a device; a CPU has memory.
#if defined(__CUDACC__)
#define WEFT_UNROLL _Pragma("unroll")
#else
#define WEFT_UNROLL
#endif

namespace weft::device {

template <typename T, int kWidthOf>
struct Packet {
  static constexpr int kWidth = kWidthOf;
  T at[kWidthOf];
};

template <size_t kBytes>
struct AccessOf;

template <>
struct AccessOf<1> {
  using type = uint8_t;
};

template <>
struct AccessOf<2> {
  using type = uint16_t;
};

template <>
struct AccessOf<4> {
  using type = uint32_t;
};

template <>
struct AccessOf<8> {
  using type = uint64_t;
};

struct alignas(16) Words {
  uint32_t words[4];
};

template <>
struct AccessOf<16> {
  using type = Words;
};

// How many bytes an access has that moves `bytes` bytes, a power of two.
constexpr size_t AccessBytes(size_t bytes) {
  return bytes < 16 ? bytes : 16;
}

template <typename T, int kWidth>
WEFT_INLINE Packet<T, kWidth> LoadPacket(const char* from) {
  using Access = typename AccessOf<AccessBytes(sizeof(T) * kWidth)>::type;
  Packet<T, kWidth> packet;
  WEFT_UNROLL
  for (size_t i = 0; i < sizeof(packet) / sizeof(Access); ++i) {
#if defined(__CUDA_ARCH__)
    const Access access = reinterpret_cast<const Access*>(from)[i];
#else
    Access access;
    __builtin_memcpy(&access, from + i * sizeof(access), sizeof(access));
#endif
    __builtin_memcpy(reinterpret_cast<char*>(&packet) + i * sizeof(access), &access,
                     sizeof(access));
  }
  return packet;
}

template <typename T, int kWidth>
WEFT_INLINE void StorePacket(char* to, const Packet<T, kWidth>& packet) {
  using Access = typename AccessOf<AccessBytes(sizeof(T) * kWidth)>::type;
  WEFT_UNROLL
  for (size_t i = 0; i < sizeof(packet) / sizeof(Access); ++i) {
    Access access;
    __builtin_memcpy(&access, reinterpret_cast<const char*>(&packet) + i * sizeof(access),
                     sizeof(access));
#if defined(__CUDA_ARCH__)
    reinterpret_cast<Access*>(to)[i] = access;
#else
    __builtin_memcpy(to + i * sizeof(access), &access, sizeof(access));
#endif
  }
}

// A packet of which only the first `valid` elements are read, unless it is whole: one by one then.
template <typename T, int kWidth>
WEFT_INLINE Packet<T, kWidth> LoadPart(const char* from, int valid, bool whole) {
  if (whole) return LoadPacket<T, kWidth>(from);
  Packet<T, kWidth> packet;
  WEFT_UNROLL
  for (int i = 0; i < kWidth; ++i)
    packet.at[i] = i < valid ? LoadPacket<T, 1>(from + i * sizeof(T)).at[0] : T{};
  return packet;
}

template <typename T, int kWidth>
WEFT_INLINE void StorePart(char* to, const Packet<T, kWidth>& packet, int valid, bool whole) {
  if (whole) return StorePacket(to, packet);
  WEFT_UNROLL
  for (int i = 0; i < kWidth; ++i) {
    if (i < valid) StorePacket<T, 1>(to + i * sizeof(T), {{packet.at[i]}});
  }
}

}  // namespace weft::device
