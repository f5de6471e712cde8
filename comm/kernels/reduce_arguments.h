// The call of a reduction kernel; see reduce.h. Apart from it because the translation units that are
// compiled for one instruction set must not see a heavy header: an inline function or static
// initialiser from there, compiled for AVX, would run on CPUs without it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

constexpr int kSourcesMax = 64;
constexpr int kDestinationsMax = 64;

struct ReduceArguments {
  const void* const* sources;
  int source_count;
  void* const* destinations;
  int destination_count;
  size_t count;     // elements
  int64_t divisor;  // avg only: the group size
  // premul_sum only: the factor of each source in the type in which sums are formed, bits
  // zero-extended: of a float32 for float8, float16, bfloat16 and float32, of a float64 for float64,
  // the low bits for integers.
  const uint64_t* factors = nullptr;
  // kMiddle and kLast of floats and users' functions only, see reduce_stage.h: one number per source, the shape of
  // the tree. nullptr is the canonical tree.
  const uint8_t* merges = nullptr;
};

using ReduceKernel = void (*)(const ReduceArguments& arguments);

}  // namespace weft
