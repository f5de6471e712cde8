// Reductions made at run time (weft/op.h), as values.
//
//   const CustomOp op{.kind = kOpUser, .function = Multiply, .element_count = 2, .name = "complex product"};
//   ReduceByUser(op, WEFT_FLOAT64, {sources, source_count, destinations, destination_count, count, 0});
//
// A premul_sum is done by a kernel of FindReduceKernel with one factor per source; a user's reduction
// by ReduceByUser, along the same tree. An element of it may have several values of the type: whoever
// divides what is reduced divides it between elements, as Collective::count and ReduceArguments::count
// are of these (ElementBytes(call) in comm/group/collective.h).
//
// Thread-safety: a CustomOp does not change once it is made; the functions are pure but for what the
// user's function does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/op.h"

#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce_arguments.h"

namespace weft {

struct CustomOp {
  weft_op_t kind = kOpUser;           // kOpPremulSum or kOpUser
  weft_dtype_t dtype = WEFT_UINT8;    // premul_sum: the only type it is for
  uint64_t factor = 0;                // premul_sum: as in ReduceArguments::factors
  weft_user_op_t function = nullptr;  // user
  void* user = nullptr;               // user: handed to `function`
  size_t element_count = 1;           // user: values of the type in an element, at least 1
  std::string name;                   // user: the same on all ranks
  std::shared_ptr<void> owner;        // user: keeps `user` valid; may be empty
};

// One element of a numeric type in the type in which its sums are formed, as ReduceArguments::factors
// wants it. `element` may have any alignment.
uint64_t FactorBits(weft_dtype_t dtype, const void* element);

// Reduces the sources with op.function along the canonical tree, as reduce.h describes it, or that of
// arguments.merges (reduce_stage.h); values are kept in `dtype` between its calls, so a reduction in several
// places is nothing but several of these. arguments.count is of elements. The function is called with whole
// elements, in memory that is aligned for `dtype`, of at most kUserTileBytes or one larger element. With one
// source it is not called. A destination may be one of the sources. Allocates only for elements of more than
// kUserTileBytes, and where more of them wait than fit into seven times as much: never along T(n) of 64 sources.
void ReduceByUser(const CustomOp& op, weft_dtype_t dtype, const ReduceArguments& arguments);

constexpr size_t kUserTileBytes = 2048;

}  // namespace weft
