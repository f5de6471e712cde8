// Sums of squares of blocks of 128 elements on a device, with the bits of shard/optimizer/square_blocks.h and sum_squares.h.
//
// Element i of a block is squared in float64 and added to partial sum i mod 16, in order of i; the partial sums are folded: i and i + 8,
// i and i + 4, i and i + 2, 0 and 1. A row of 16 elements is taken by kThreads neighbouring threads, an access of 16 bytes each: so a
// team of kThreads has a block, and each thread some of the partial sums.
//
//   const auto partials = PartialsOf<Bfloat16>(parameters, block, member);      // then folded, by whoever has a whole team
#pragma once

#include "comm/device/element/element.h"
#include "comm/device/element/exact_words.h"
#include "comm/device/element/packet.h"

namespace weft::device {

constexpr int kSquareBlockElements = 128;
constexpr int kSquarePartials = 16;

// Adds the sums of all blocks to words[0 .. kExactWords), and the number of elements that are not finite to words[kExactWords].
struct SquaresParameters {
  uint64_t count;
  uint64_t first_index;  // of values[0] in the space whose blocks are summed
  const void* values;    // float16, bfloat16, float32 or float64
  int64_t* words;
};

template <typename E>
constexpr int kTeamPartials = 16 / sizeof(typename E::Raw);  // of one thread
template <typename E>
constexpr int kTeamThreads = kSquarePartials / kTeamPartials<E>;

WEFT_INLINE uint64_t FirstBlock(const SquaresParameters& parameters) {
  return parameters.first_index / kSquareBlockElements;
}

WEFT_INLINE uint64_t EndBlock(const SquaresParameters& parameters) {
  return (parameters.first_index + parameters.count + kSquareBlockElements - 1) /
         kSquareBlockElements;
}

// What is squared: float64 is rounded to float32 first.
template <typename E>
WEFT_INLINE double SquaredValue(typename E::Raw raw) {
  return static_cast<double>(static_cast<float>(E::Widen(raw)));
}

WEFT_INLINE bool IsFinite(float value) {
  return (__builtin_bit_cast(uint32_t, value) & 0x7f800000u) != 0x7f800000u;
}

WEFT_INLINE bool IsFinite(double value) {
  return (__builtin_bit_cast(uint64_t, value) >> 52 & 0x7ff) != 0x7ff;
}

// Calls use(partial, raw) for each element of this member of a block's team, in order; what is outside [0, count) is left out.
template <typename E, typename Use>
WEFT_INLINE void ForEachOfMember(const SquaresParameters& parameters, uint64_t block, int member,
                                 Use use) {
  using Raw = typename E::Raw;
  constexpr int kOwn = kTeamPartials<E>;
  const char* const values = static_cast<const char*>(parameters.values);
  const uint64_t begin = block * kSquareBlockElements;
  const bool whole = begin >= parameters.first_index &&
                     begin + kSquareBlockElements <= parameters.first_index + parameters.count;
  const char* const first =
      values +
      static_cast<int64_t>(begin - parameters.first_index) * static_cast<int64_t>(sizeof(Raw)) +
      int64_t{16} * member;
  if (whole && (reinterpret_cast<uint64_t>(first) & 15) == 0) {
    WEFT_UNROLL
    for (int row = 0; row < kSquareBlockElements / kSquarePartials; ++row) {
      const auto raw = LoadPacket<Raw, kOwn>(first + sizeof(Raw) * kSquarePartials * row);
      WEFT_UNROLL
      for (int i = 0; i < kOwn; ++i)
        use(i, raw.at[i]);
    }
    return;
  }
  for (int row = 0; row < kSquareBlockElements / kSquarePartials; ++row) {
    WEFT_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const uint64_t index = begin + uint64_t{kSquarePartials} * row + uint64_t{kOwn} * member + i;
      if (index < parameters.first_index || index - parameters.first_index >= parameters.count)
        continue;
      use(i, LoadPacket<Raw, 1>(values + (index - parameters.first_index) * sizeof(Raw)).at[0]);
    }
  }
}

// This member's partial sums, its first one being number member x kTeamPartials.
template <typename E>
WEFT_INLINE Packet<double, kTeamPartials<E>> PartialsOf(const SquaresParameters& parameters,
                                                        uint64_t block, int member) {
  Packet<double, kTeamPartials<E>> partials;
  WEFT_UNROLL
  for (int i = 0; i < kTeamPartials<E>; ++i)
    partials.at[i] = 0;
  ForEachOfMember<E>(parameters, block, member, [&](int i, typename E::Raw raw) {
    const double value = SquaredValue<E>(raw);
    partials.at[i] = partials.at[i] + value * value;
  });
  return partials;
}

// How many of this member's elements are not finite as float32.
template <typename E>
WEFT_INLINE int64_t NonfiniteOf(const SquaresParameters& parameters, uint64_t block, int member) {
  int64_t found = 0;
  ForEachOfMember<E>(parameters, block, member, [&](int, typename E::Raw raw) {
    found += IsFinite(static_cast<float>(E::Widen(raw))) ? 0 : 1;
  });
  return found;
}

}  // namespace weft::device
