// Floating-point values of one type as another, one by one: float64, float32, bfloat16, float16 and both float8.
//
//   if (CanConvert(saved.dtype, own.dtype)) Convert(saved.dtype, from, own.dtype, to, count);
//
// Rounded once, to nearest even, as the reductions round: what is too large becomes infinity, in float8_e4m3 its largest number; a NaN stays one.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>

#include "shard/checkpoint/element_type.h"

namespace weft {

bool CanConvert(ElementType from, ElementType to);

// Of types that CanConvert() says yes to; memory of any alignment, which does not overlap.
void Convert(ElementType from_type, const void* from, ElementType to_type, void* to, size_t count);

}  // namespace weft
