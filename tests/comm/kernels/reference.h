// A slow and obvious reduction: one element at a time, values decoded bit by bit, rounding by looking
// for the nearest representable value in a table of all of them. Shares nothing with the kernels.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "weft/types.h"

#include "comm/kernels/reduce.h"
#include "comm/kernels/reduce_stage.h"

namespace weft {

// Elements as their bits in memory, zero-extended.
using Elements = std::vector<uint64_t>;

// The reductions of weft/types.h that `dtype` has, min_loc and max_loc aside, and premul_sum.
std::vector<weft_op_t> OpsOf(weft_dtype_t dtype);

// The value of float8, float16, bfloat16 or float32 bits.
float DecodeFloat(weft_dtype_t dtype, uint64_t bits);
// The bits of the float8, float16, bfloat16 or float32 nearest to `value`, ties to even; the largest
// number or infinity for what is too large.
uint64_t EncodeFloat(weft_dtype_t dtype, float value);

// The reduction of sources[s][i] over s, in canonical order, for one i. `factors` are those of
// ReduceArguments, for premul_sum.
uint64_t ReduceReference(weft_dtype_t dtype, weft_op_t op, const Elements& sources, int64_t divisor,
                         const Elements& factors = {});

// One stage of a reduction of one element: sources and result are in the type or in the accumulator's, as
// comm/kernels/reduce_stage.h says. `merges` may be empty.
uint64_t ReduceStageReference(ReduceStage stage, weft_dtype_t dtype, weft_op_t op,
                              const Elements& sources, int64_t divisor,
                              const Elements& factors = {},
                              const std::vector<uint8_t>& merges = {});

// Factors for premul_sum whose products round, wrap and overflow, one per source.
Elements Factors(weft_dtype_t dtype, size_t count);

// The bits that stand for every NaN of a floating-point type.
uint64_t QuietNan(weft_dtype_t dtype);

std::vector<char> PackElements(weft_dtype_t dtype, const Elements& elements);
Elements Unpack(weft_dtype_t dtype, const std::vector<char>& bytes);

// Bits worth trying: both zeros, extremes, denormals, infinities, NaNs of both kinds and signs.
Elements SpecialElements(weft_dtype_t dtype);

// Half of the elements have magnitudes near 1, so that sums and products round instead of
// overflowing; the others are any bits at all, or special.
Elements RandomElements(weft_dtype_t dtype, size_t count, std::mt19937_64& random);

// The shape of any binary tree over `count` sources, or of a chain that leans to the right or to the left.
std::vector<uint8_t> RandomMerges(int count, std::mt19937_64& random);

// The instruction sets that this machine has.
std::vector<Isa> AvailableIsas();

// Runs the kernel of `isa` on unpacked elements; result[i] reduces sources[s][i].
Elements RunKernel(Isa isa, weft_dtype_t dtype, weft_op_t op, const std::vector<Elements>& sources,
                   int64_t divisor, const Elements& factors = {});

// --gtest_random_seed, or 1; printed by whoever uses it.
uint32_t TestSeed();

}  // namespace weft
