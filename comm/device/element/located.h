// min_loc and max_loc on a device: elements of 16 bytes, a value in the first of them and an index in the last eight.
//
//   LocateSources<Bfloat16, true>(parameters, worker);      // min_loc
//
// NaN beats every number, -0 is below +0, and of equal values the lower index is chosen (weft/types.h). Pointers are aligned to 8 bytes.
#pragma once

#include "comm/device/element/reduce.h"

namespace weft::device {

template <typename E>
struct Located {
  typename E::Accumulator value;
  int64_t index;
};

// Below 0, 0 or above 0: whether `left` comes before `right` in the order of numbers. Neither is NaN.
template <typename E>
WEFT_INLINE int CompareNumbers(typename E::Accumulator left, typename E::Accumulator right) {
  if (left < right) return -1;
  if (left > right) return 1;
  if constexpr (E::kFloating)
    return static_cast<int>(IsNegative(right)) - static_cast<int>(IsNegative(left));
  return 0;
}

template <typename E, bool kMinimum>
WEFT_INLINE bool Beats(const Located<E>& one, const Located<E>& other) {
  const bool one_is_nan = one.value != one.value;
  const bool other_is_nan = other.value != other.value;
  if (one_is_nan != other_is_nan) return one_is_nan;
  const int order = one_is_nan ? 0 : CompareNumbers<E>(one.value, other.value);
  if (order == 0) return one.index < other.index;
  return kMinimum ? order < 0 : order > 0;
}

// `whole`: by one access, of pointers aligned to 16 bytes; else by two.
template <typename E>
WEFT_INLINE Located<E> LoadLocated(const void* source, uint64_t element, bool whole) {
  const auto pair =
      LoadPart<uint64_t, 2>(static_cast<const char*>(source) + element * 16, 2, whole);
  return {E::Widen(static_cast<typename E::Raw>(pair.at[0])), static_cast<int64_t>(pair.at[1])};
}

template <typename E, bool kMinimum>
WEFT_INLINE void LocateAt(const ReduceParameters& parameters, uint64_t element, bool whole) {
  Located<E> best = LoadLocated<E>(parameters.sources[0], element, whole);
  for (int s = 1; s < parameters.source_count; ++s) {
    const auto found = LoadLocated<E>(parameters.sources[s], element, whole);
    if (Beats<E, kMinimum>(found, best)) best = found;
  }
  // Raw may be signed: what is above it in the word is zero all the same.
  constexpr uint64_t kMask = ~uint64_t{0} >> (64 - 8 * sizeof(typename E::Raw));
  const Packet<uint64_t, 2> pair = {
      {static_cast<uint64_t>(E::Narrow(best.value)) & kMask, static_cast<uint64_t>(best.index)}};
  for (int d = 0; d < parameters.destination_count; ++d)
    StorePart(static_cast<char*>(parameters.destinations[d]) + element * 16, pair, 2, whole);
}

// The range is of packets of one element.
template <typename E, bool kMinimum>
WEFT_INLINE void LocateSources(const ReduceParameters& parameters, const Worker& worker) {
  const bool whole = parameters.range.packets != 0;
  for (uint64_t element = worker.index; element < parameters.range.count; element += worker.count)
    LocateAt<E, kMinimum>(parameters, element, whole);
}

}  // namespace weft::device
