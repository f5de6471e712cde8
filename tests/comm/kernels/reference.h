// A slow and obvious reduction: one element at a time, values decoded bit by bit, rounding by looking
// for the nearest representable value in a table of all of them. Shares nothing with the kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/types.h"

#include "comm/kernels/reduce.h"

namespace weft {

// Elements as their bits in memory, zero-extended.
using Elements = std::vector<uint64_t>;

inline constexpr weft_dtype_t kReducedDtypes[] = {
    WEFT_INT8,   WEFT_UINT8,   WEFT_INT32,   WEFT_UINT32,  WEFT_INT64,
    WEFT_UINT64, WEFT_FLOAT16, WEFT_FLOAT32, WEFT_FLOAT64, WEFT_BFLOAT16};
inline constexpr weft_op_t kOps[] = {WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG};

bool IsFloating(weft_dtype_t dtype);

// The value of float16, bfloat16 or float32 bits.
float DecodeFloat(weft_dtype_t dtype, uint64_t bits);
// The bits of the float16, bfloat16 or float32 nearest to `value`, ties to even.
uint64_t EncodeFloat(weft_dtype_t dtype, float value);

// The reduction of sources[s][i] over s, in canonical order, for one i.
uint64_t ReduceReference(weft_dtype_t dtype, weft_op_t op, const Elements& sources,
                         int64_t divisor);

std::vector<char> Pack(weft_dtype_t dtype, const Elements& elements);
Elements Unpack(weft_dtype_t dtype, const std::vector<char>& bytes);

// Bits worth trying: both zeros, extremes, denormals, infinities, NaNs of both kinds and signs.
Elements SpecialElements(weft_dtype_t dtype);

// The instruction sets that this machine has.
std::vector<Isa> AvailableIsas();

// Runs the kernel of `isa` on unpacked elements; result[i] reduces sources[s][i].
Elements RunKernel(Isa isa, weft_dtype_t dtype, weft_op_t op, const std::vector<Elements>& sources,
                   int64_t divisor);

// --gtest_random_seed, or 1; printed by whoever uses it.
uint32_t TestSeed();

}  // namespace weft
