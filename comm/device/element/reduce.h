// A reduction of up to 64 sources into up to 64 destinations on a device, in canonical order (comm/kernels/reduce.h), one thread's part.
//
//   ReduceSources<Bfloat16, Sum, 8, Bfloat16>(parameters, worker);    // eight sources, the tree unrolled
//   ReduceSources<Bfloat16, Sum, 0, Float32>(parameters, worker);     // any number; stage kFirst: float32 out
//
// Invariants:
// 1. Every element of the result is the same expression of the sources' elements, whatever its position.
// 2. A thread loads all sources of its elements before it stores, and no other thread has these: so a destination may be one
//    of the sources (same address), if its elements have the same size.
// 3. Nothing outside [0, count) is read or written. Counts and offsets have 64 bits.
#pragma once

#include "comm/device/element/operation.h"
#include "comm/device/element/worker.h"

namespace weft::device {

constexpr int kDeviceSourcesMax = 64;

// Passed by value to the kernel. As ReduceArguments of comm/kernels, which has the meanings.
struct ReduceParameters {
  PacketRange range;
  int64_t divisor;
  int32_t source_count;
  int32_t destination_count;
  const void* sources[kDeviceSourcesMax];
  void* destinations[kDeviceSourcesMax];
  uint64_t factors[kDeviceSourcesMax];
  uint8_t merges[kDeviceSourcesMax];  // MergeSources only
};

constexpr int LeftOf(int count) {
  int power = 1;
  while (power * 2 < count)
    power *= 2;
  return power;
}

template <typename E, int kWidth>
using Accumulators = Packet<typename E::Accumulator, kWidth>;

template <typename E, typename Op, int kWidth>
WEFT_INLINE Accumulators<E, kWidth> LoadSource(const ReduceParameters& parameters, int source,
                                               uint64_t element, int valid = kWidth,
                                               bool whole = true) {
  using Raw = typename E::Raw;
  const auto raw = LoadPart<Raw, kWidth>(
      static_cast<const char*>(parameters.sources[source]) + element * sizeof(Raw), valid, whole);
  Accumulators<E, kWidth> values;
  WEFT_UNROLL
  for (int i = 0; i < kWidth; ++i) {
    values.at[i] = E::Widen(raw.at[i]);
    if constexpr (Op::kScaled) values.at[i] = E::Scale(values.at[i], parameters.factors[source]);
  }
  return values;
}

template <typename E, typename Op, int kWidth>
WEFT_INLINE Accumulators<E, kWidth> CombineAll(const Accumulators<E, kWidth>& left,
                                               const Accumulators<E, kWidth>& right) {
  Accumulators<E, kWidth> values;
  WEFT_UNROLL
  for (int i = 0; i < kWidth; ++i)
    values.at[i] = Op::template Combine<E>(left.at[i], right.at[i]);
  return values;
}

// The balanced tree over kCount sources from kFirst on.
template <typename E, typename Op, int kWidth, int kFirst, int kCount>
WEFT_INLINE Accumulators<E, kWidth> Tree(const ReduceParameters& parameters, uint64_t element) {
  if constexpr (kCount == 1) {
    return LoadSource<E, Op, kWidth>(parameters, kFirst, element);
  } else {
    constexpr int kLeft = LeftOf(kCount);
    const auto left = Tree<E, Op, kWidth, kFirst, kLeft>(parameters, element);
    const auto right = Tree<E, Op, kWidth, kFirst + kLeft, kCount - kLeft>(parameters, element);
    return CombineAll<E, Op, kWidth>(left, right);
  }
}

// The same tree over any number of sources, as a binary counter: trees[k] is over 2^k sources and waits for its right half. All
// indices are constants, so that everything stays in registers.
template <typename E, typename Op, int kWidth>
WEFT_INLINE Accumulators<E, kWidth> AnyTree(const ReduceParameters& parameters, uint64_t element,
                                            int valid, bool whole) {
  constexpr int kLevels = 7;  // 2^6 is kDeviceSourcesMax
  Accumulators<E, kWidth> trees[kLevels];
  const int count = parameters.source_count;
  for (int source = 0; source < count; ++source) {
    auto value = LoadSource<E, Op, kWidth>(parameters, source, element, valid, whole);
    bool waits = false;
    WEFT_UNROLL
    for (int level = 0; level < kLevels; ++level) {
      if (waits) continue;
      if ((source >> level & 1) != 0) {
        value = CombineAll<E, Op, kWidth>(trees[level], value);
      } else {
        trees[level] = value;
        waits = true;
      }
    }
  }
  // What is left joins from the right.
  Accumulators<E, kWidth> result;
  bool found = false;
  WEFT_UNROLL
  for (int level = 0; level < kLevels; ++level) {
    if ((count >> level & 1) == 0) continue;
    result = found ? CombineAll<E, Op, kWidth>(trees[level], result) : trees[level];
    found = true;
  }
  return result;
}

// Rounds, and stores in all destinations. Out's accumulator is E's.
template <typename E, typename Op, typename Out, int kWidth>
WEFT_INLINE void StoreResult(const ReduceParameters& parameters, uint64_t element, int valid,
                             bool whole, const Accumulators<E, kWidth>& values) {
  using Raw = typename Out::Raw;
  Packet<Raw, kWidth> raw;
  WEFT_UNROLL
  for (int i = 0; i < kWidth; ++i) {
    auto value = values.at[i];
    if constexpr (Op::kDivides) value = E::Divide(value, parameters.divisor);
    raw.at[i] = Out::Narrow(value);
  }
  const uint64_t offset = element * sizeof(Raw);
  for (int d = 0; d < parameters.destination_count; ++d)
    StorePart(static_cast<char*>(parameters.destinations[d]) + offset, raw, valid, whole);
}

template <typename E, typename Op, int kSources, typename Out, int kWidth>
WEFT_INLINE void ReduceAt(const ReduceParameters& parameters, uint64_t element) {
  StoreResult<E, Op, Out, kWidth>(parameters, element, kWidth, true,
                                  Tree<E, Op, kWidth, 0, kSources>(parameters, element));
}

// Elements of a packet: an access of 16 bytes; fewer where any number of trees wait, so that they stay in registers.
constexpr int ReduceWidth(size_t element_bytes, bool any_count) {
  if (any_count) return element_bytes == 8 ? 2 : 4;
  return 16 / static_cast<int>(element_bytes);
}

// One thread's part. kSources 0: parameters.source_count.
template <typename E, typename Op, int kSources, typename Out>
WEFT_INLINE void ReduceSources(const ReduceParameters& parameters, const Worker& worker) {
  constexpr int kWidth = ReduceWidth(sizeof(typename E::Raw), kSources == 0);
  if constexpr (kSources == 0) {
    ForEachUnit<kWidth>(worker, parameters.range, [&](uint64_t element, int valid, bool whole) {
      StoreResult<E, Op, Out, kWidth>(parameters, element, valid, whole,
                                      AnyTree<E, Op, kWidth>(parameters, element, valid, whole));
    });
  } else {
    ForEachPacket<kWidth>(
        worker, parameters.range,
        [&](uint64_t element) { ReduceAt<E, Op, kSources, Out, kWidth>(parameters, element); },
        [&](uint64_t element) { ReduceAt<E, Op, kSources, Out, 1>(parameters, element); });
  }
}

}  // namespace weft::device
