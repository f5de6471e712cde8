// Vector kernels: n-ary reductions in canonical order, and copies.
//
//   const ReduceKernel kernel = FindReduceKernel(WEFT_BFLOAT16, WEFT_SUM);
//   kernel(ReduceArguments{sources, source_count, destinations, destination_count, count, divisor});
//
// Canonical order (docs/design/): the balanced binary tree over the source index, left subtree = the
// largest power of two below n, operands left to right; for 4: (s0+s1)+(s2+s3); for 5: that + s4.
// float16, bfloat16 and float32 accumulate in float32, float64 in float64, and are rounded once, to
// nearest even, at the end; integers wrap. avg divides the accumulator by `divisor` before rounding
// (integers truncate toward zero). min and max: NaN wins, -0 < +0. prod follows sum's rules.
// Results are bitwise the same for every instruction set, alignment, element position and count.
//
// A destination may be one of the sources (same address); otherwise nothing may overlap. Pointers
// may have any alignment. source_count 1..kSourcesMax, destination_count 1..kDestinationsMax.
//
// Thread-safety: pure functions. The table is filled once from CPUID; WEFT_ISA=scalar|avx2|avx512
// overrides it (an ISA that the CPU lacks is an error reported by SelectIsa).
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/types.h"

#include "absl/status/statusor.h"
#include "comm/kernels/reduce_arguments.h"

namespace weft {

enum class Isa : uint8_t { kScalar, kAvx2, kAvx512 };

// The best instruction set of this CPU that the build has.
Isa BestIsa();
// The instruction set that FindReduceKernel uses: BestIsa() or what WEFT_ISA asks for.
// INVALID_ARGUMENT for an unknown name, UNSUPPORTED for one that this CPU lacks.
absl::StatusOr<Isa> SelectIsa();
const char* IsaName(Isa isa);

// The kernel of `isa` for (dtype, op); nullptr if there is none (unknown numbers, or a dtype that
// reductions do not support yet).
ReduceKernel FindReduceKernel(Isa isa, weft_dtype_t dtype, weft_op_t op);

// Copies `bytes` to each destination.
void CopyBytes(const void* source, void* const* destinations, int destination_count, size_t bytes);

}  // namespace weft
