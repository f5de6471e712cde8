// Vector kernels: n-ary reductions in canonical order.
//
//   const ReduceKernel kernel = FindReduceKernel(isa, WEFT_BFLOAT16, WEFT_SUM);
//   kernel(ReduceArguments{sources, source_count, destinations, destination_count, count, divisor});
//
// Canonical order (docs/design/): the balanced binary tree over the source index, left subtree = the
// largest power of two below n, operands left to right; for 4: (s0+s1)+(s2+s3); for 5: that + s4.
// float8, float16, bfloat16 and float32 accumulate in float32, float64 in float64, and are rounded
// once, to nearest even, at the end; integers wrap. avg divides the accumulator by `divisor` before
// rounding (integers truncate toward zero). min and max: NaN wins, -0 < +0. prod follows sum's rules;
// premul_sum multiplies each source by its factor in the accumulator first. min_loc and max_loc take
// elements of 16 bytes, see weft/types.h.
// Results are bitwise the same for every instruction set, alignment, element position and count. Where no one place has
// all the sources, a reduction is done in stages: reduce_stage.h.
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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/kernels/custom_op.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/isa.h"
#include "comm/kernels/reduce_arguments.h"

namespace weft {

// The instruction set that FindReduceKernel uses: BestIsa() or what WEFT_ISA asks for.
// INVALID_ARGUMENT for an unknown name, UNSUPPORTED for one that this CPU lacks.
absl::StatusOr<Isa> SelectIsa();
// The rule behind it: what WEFT_ISA=`name` means on a CPU whose best instruction set is `best`; "" asks for `best`.
absl::StatusOr<Isa> ParseIsa(std::string_view name, Isa best);

// The kernel of `isa` for (dtype, op), which may be kOpPremulSum; nullptr if there is none: kOpUser
// (ReduceByUser in custom_op.h does it), and what CheckReduction refuses. A table look-up; the kernel
// is the same for the life of the process and may be kept.
ReduceKernel FindReduceKernel(Isa isa, weft_dtype_t dtype, weft_op_t op);

// CheckReduction beyond what weft/types.h numbers and the type has; apart so that the usual call, which
// every operation makes, is a few instructions.
absl::Status CheckUnusualReduction(weft_dtype_t dtype, weft_op_t op, const CustomOp* custom);

// OK if (dtype, op) is a reduction that exists, INVALID_ARGUMENT with a sentence if not: unknown
// numbers, bit operations on floating-point types, avg, min_loc or max_loc of bool, a premul_sum
// made for another type, and a user's reduction whose elements have too many bytes with this one. `custom` is what weft/op.h made when op is kOpPremulSum or kOpUser, else
// it is not looked at.
inline absl::Status CheckReduction(weft_dtype_t dtype, weft_op_t op, const CustomOp* custom) {
  if (op < kOpPremulSum && HasReduction(dtype, op)) return absl::OkStatus();
  return CheckUnusualReduction(dtype, op, custom);
}

}  // namespace weft
