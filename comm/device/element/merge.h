// The later stages of a reduction on a device (comm/kernels/reduce_stage.h): accumulators of other stages are joined along any binary
// tree, as `merges` describes it, divided where the operation is an average, and rounded to the type.
//
//   MergeSources<Float32, Average, Bfloat16>(parameters, worker, waiting);
//
// `waiting` has room for the results that wait of one thread: Push(level, value) and Read(level, value). A kernel has it in shared memory, as
// registers cannot be indexed; MergeDepth() says how many levels a tree needs, 0 to 63.
// A destination may be one of the sources (same address) only if its elements have the same size.
#pragma once

#include "comm/device/element/reduce.h"

namespace weft::device {

// Elements of a packet: an access of 16 bytes of accumulators.
constexpr int MergeWidth(size_t accumulator_bytes) {
  return 16 / static_cast<int>(accumulator_bytes);
}

// The results that wait at most, while source after source is taken.
inline int MergeDepth(const uint8_t* merges, int source_count) {
  int waiting = 0;
  int depth = 0;
  for (int s = 0; s < source_count; ++s) {
    waiting += 1 - merges[s];
    if (s + 1 < source_count && waiting > depth) depth = waiting;
  }
  return depth;
}

template <typename E, typename Op, typename Out, int kWidth, typename Waiting>
WEFT_INLINE void MergeAt(const ReduceParameters& parameters, uint64_t element, int valid,
                         bool whole, Waiting& waiting) {
  int count = 0;
  auto value = LoadSource<E, Op, kWidth>(parameters, 0, element, valid, whole);
  for (int s = 1; s < parameters.source_count; ++s) {
    waiting.Push(count++, value);
    value = LoadSource<E, Op, kWidth>(parameters, s, element, valid, whole);
    for (int joins = parameters.merges[s]; joins != 0; --joins) {
      Accumulators<E, kWidth> left;
      waiting.Read(--count, left);
      value = CombineAll<E, Op, kWidth>(left, value);
    }
  }
  StoreResult<E, Op, Out, kWidth>(parameters, element, valid, whole, value);
}

// One thread's part. merges[0] is 0.
template <typename E, typename Op, typename Out, typename Waiting>
WEFT_INLINE void MergeSources(const ReduceParameters& parameters, const Worker& worker,
                              Waiting& waiting) {
  constexpr int kWidth = MergeWidth(sizeof(typename E::Raw));
  ForEachUnit<kWidth>(worker, parameters.range, [&](uint64_t element, int valid, bool whole) {
    MergeAt<E, Op, Out, kWidth>(parameters, element, valid, whole, waiting);
  });
}

}  // namespace weft::device
