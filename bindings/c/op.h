// The reductions that weft_op_create_premul_sum and weft_op_create_user have made, by number.
//
//   if (op >= WEFT_OP_CUSTOM_FIRST) {
//     WEFT_ASSIGN_OR_RETURN(collective.custom, CustomOpOf(op));
//     collective.op = collective.custom->kind;
//   }
//
// Thread-safety: any thread. A lookup takes a mutex for an instant; who holds the result keeps it, also
// when the number has been destroyed.
#pragma once

#include <memory>

#include "weft/types.h"

#include "absl/status/statusor.h"
#include "comm/kernels/custom_op.h"

namespace weft {

// The reduction behind `op`; INVALID_ARGUMENT, with a sentence that does not name the call, if there
// is none: never made, or destroyed.
absl::StatusOr<std::shared_ptr<const CustomOp>> CustomOpOf(weft_op_t op);

}  // namespace weft
