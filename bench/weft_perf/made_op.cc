#include "bench/weft_perf/made_op.h"

#include "weft/op.h"

#include "bench/weft_perf/peers.h"

namespace weft::perf {

MadeOp::~MadeOp() {
  if (made_) static_cast<void>(weft_op_destroy(number_));
}

Outcome MadeOp::Make(const Reduction& reduction, const ElementType& type, int rank) {
  number_ = reduction.op;
  if (!IsPremulSum(reduction)) return {};
  const uint64_t factor = EncodeElement(PremulFactor(rank), type);
  const weft_result_t result = weft_op_create_premul_sum(&factor, type.dtype, &number_);
  if (result != WEFT_SUCCESS) return LibraryFailure("making mulsum", result);
  made_ = true;
  return {};
}

}  // namespace weft::perf
