// 16-bit floating-point numbers as float32, and back.
//
//   Widen(WEFT_BFLOAT16, gradients, count, sums);
//   NarrowQuotients(WEFT_BFLOAT16, sums, count, ranks, reduced);       // rounded once, as the reductions do
//
// Both work in place: Widen goes from the last element to the first, the other way from the first to the last.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/types.h"

namespace weft {

// `dtype` is bfloat16 or float16; exact. `to` may overlap `from` if it does not begin before it.
void Widen(weft_dtype_t dtype, const void* from, size_t count, float* to);

// to[i] = from[i] / divisor, divided in float32 and rounded to `dtype`, to nearest even. `to` may overlap `from`
// if it does not begin behind it.
void NarrowQuotients(weft_dtype_t dtype, const float* from, size_t count, int64_t divisor,
                     void* to);

}  // namespace weft
