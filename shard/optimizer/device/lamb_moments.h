// The first phase of LAMB on a device: the new moments, and the sums of squares of weights and updates by blocks of 128, with the bits of
// UpdateLambMoments (shard/optimizer/optimizer_kernels.h). Threads share a block as in comm/device/element/squares.h.
//
//   const LambPartials partials = UpdateMoments<Bfloat16>(parameters, block, member);     // then folded, by whoever has a whole team
#pragma once

#include "comm/device/element/squares.h"
#include "shard/optimizer/device/update.h"

namespace weft::device {

// Adds the exact sums of squares to weight_words and update_words, kExactWords each.
struct LambMomentsParameters {
  OptimizerArrays arrays;  // the cast is not written
  LambStep step;
  uint64_t first_index;  // of element 0 in the space whose blocks are summed
  int64_t* weight_words;
  int64_t* update_words;
};

constexpr int kLambOwn = kTeamPartials<Float32>;
constexpr int kLambThreads = kTeamThreads<Float32>;

struct LambPartials {
  Packet<double, kLambOwn> weights;
  Packet<double, kLambOwn> updates;
};

WEFT_INLINE uint64_t EndLambBlock(const LambMomentsParameters& parameters) {
  return (parameters.first_index + parameters.arrays.count + kSquareBlockElements - 1) /
         kSquareBlockElements;
}

// Those of a member's four elements of a row that the interval has, and whether whole accesses move them.
struct RowPart {
  int begin;
  int end;
  bool whole;
};

template <typename T>
WEFT_INLINE Packet<T, kLambOwn> LoadRow(const void* array, int64_t element, const RowPart& part) {
  const char* const from =
      static_cast<const char*>(array) + element * static_cast<int64_t>(sizeof(T));
  if (part.whole) return LoadPacket<T, kLambOwn>(from);
  Packet<T, kLambOwn> packet = {};
  WEFT_UNROLL
  for (int i = 0; i < kLambOwn; ++i) {
    if (i >= part.begin && i < part.end)
      packet.at[i] = LoadPacket<T, 1>(from + i * sizeof(T)).at[0];
  }
  return packet;
}

WEFT_INLINE void StoreRow(float* array, int64_t element, const RowPart& part,
                          const Packet<float, kLambOwn>& packet) {
  char* const to = reinterpret_cast<char*>(array) + element * 4;
  if (part.whole) {
#if defined(__CUDA_ARCH__)
    // As StorePacket, of which nvcc 13.0 makes four accesses here for GPUs before sm_100.
    __stwb(reinterpret_cast<float4*>(to),
           float4{packet.at[0], packet.at[1], packet.at[2], packet.at[3]});
#else
    StorePacket(to, packet);
#endif
    return;
  }
  WEFT_UNROLL
  for (int i = 0; i < kLambOwn; ++i) {
    if (i >= part.begin && i < part.end)
      StorePacket<float, 1>(to + int64_t{4} * i, {{packet.at[i]}});
  }
}

// What is not in the interval counts as nothing.
template <typename G>
WEFT_INLINE void UpdateRow(const LambMomentsParameters& parameters, int64_t element,
                           const RowPart& part, LambPartials& partials) {
  const OptimizerArrays& arrays = parameters.arrays;
  const auto weights = LoadRow<float>(arrays.weights, element, part);
  auto first = LoadRow<float>(arrays.first_moment, element, part);
  auto second = LoadRow<float>(arrays.second_moment, element, part);
  const auto gradients = LoadRow<typename G::Raw>(arrays.gradients, element, part);
  WEFT_UNROLL
  for (int i = 0; i < kLambOwn; ++i) {
    if (i < part.begin || i >= part.end) continue;
    Element one = {weights.at[i], first.at[i], second.at[i]};
    LambMoments(parameters.step, static_cast<double>(G::Widen(gradients.at[i])), one);
    first.at[i] = one.first;
    second.at[i] = one.second;
    const double weight = one.weight;
    const double update = LambUpdate(parameters.step, one);
    partials.weights.at[i] = partials.weights.at[i] + weight * weight;
    partials.updates.at[i] = partials.updates.at[i] + update * update;
  }
  StoreRow(arrays.first_moment, element, part, first);
  StoreRow(arrays.second_moment, element, part, second);
}

// Whether the elements from `element` on can be moved by whole accesses.
template <typename G>
WEFT_INLINE bool IsAligned(const OptimizerArrays& arrays, int64_t element) {
  constexpr int64_t kGradient = sizeof(typename G::Raw);
  const uint64_t floats = reinterpret_cast<uint64_t>(arrays.weights + element) |
                          reinterpret_cast<uint64_t>(arrays.first_moment + element) |
                          reinterpret_cast<uint64_t>(arrays.second_moment + element);
  const uint64_t gradients =
      reinterpret_cast<uint64_t>(arrays.gradients) + static_cast<uint64_t>(element * kGradient);
  return floats % 16 == 0 && gradients % AccessBytes(kGradient * kLambOwn) == 0;
}

// This member's elements of a block: moments are updated, and squares added to its partial sums.
template <typename G>
WEFT_INLINE LambPartials UpdateMoments(const LambMomentsParameters& parameters, uint64_t block,
                                       int member) {
  LambPartials partials = {};
  const auto count = static_cast<int64_t>(parameters.arrays.count);
  for (int row = 0; row < kSquareBlockElements / kSquarePartials; ++row) {
    const uint64_t index = block * kSquareBlockElements + uint64_t{kSquarePartials} * row +
                           uint64_t{kLambOwn} * member;
    const auto element = static_cast<int64_t>(index - parameters.first_index);  // may be below 0
    if (element + kLambOwn <= 0 || element >= count) continue;
    const int begin = element < 0 ? static_cast<int>(-element) : 0;
    const int end = count - element < kLambOwn ? static_cast<int>(count - element) : kLambOwn;
    const bool whole = begin == 0 && end == kLambOwn && IsAligned<G>(parameters.arrays, element);
    UpdateRow<G>(parameters, element, {begin, end, whole}, partials);
  }
  return partials;
}

}  // namespace weft::device
