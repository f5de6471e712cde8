// Which kernel does a piece of work, and how its packets lie: names for the driver, made of types, operations and counts
// (comm/device/kernels/kernel_list.h).
//
//   const KernelChoice choice = ChooseReduce(WEFT_BFLOAT16, WEFT_SUM, 8);     // weft_reduce_bfloat16_sum_8
//   parameters.range = PacketsOf(choice, parameters, count);
//
// An empty name: there is no such kernel. Users' functions (weft/op.h) have none.
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "weft/types.h"

#include "comm/device/element/copy.h"
#include "comm/device/element/reduce.h"
#include "comm/kernels/reduce_stage.h"

namespace weft {

struct KernelChoice {
  std::string image;  // of libweft_cuda.so, which has it (cuda_module.h)
  std::string name;
  size_t width = 1;  // elements of a packet
  size_t source_bytes = 0;
  size_t result_bytes = 0;
};

// The whole reduction of so many sources; with kOpPremulSum, min_loc and max_loc.
KernelChoice ChooseReduce(weft_dtype_t dtype, weft_op_t op, int source_count);

// ReduceStage::kFirst: float32 sums of a narrow type; of every other type the whole reduction, or the sum where the operation is
// an average.
KernelChoice ChooseFirst(weft_dtype_t dtype, weft_op_t op, int source_count);

// ReduceStage::kMiddle, of the accumulator's type, and kLast, of the type, along any binary tree: sums, products and averages of floats.
// A premul_sum is a sum by then.
KernelChoice ChooseMerge(weft_dtype_t dtype, weft_op_t op);

// From one floating-point type to another, or the same, with a factor.
KernelChoice ChooseCast(weft_dtype_t from, weft_dtype_t to);

// Sums of squares of an element type of gradients: float16, bfloat16, float32, float64. Of image "squares".
std::string SquaresKernel(weft_dtype_t dtype);

// The packets of a call whose pointers are set.
device::PacketRange PacketsOf(const KernelChoice& choice,
                              const device::ReduceParameters& parameters, uint64_t count);
device::PacketRange PacketsOf(const KernelChoice& choice, const device::CastParameters& parameters,
                              uint64_t count);
device::PacketRange PacketsOf(const device::FillParameters& parameters, uint64_t bytes);

}  // namespace weft
