// What the sums of a schedule are on memory: which kernels add its units, and how many bytes these have.
//
//   UnitArithmetic arithmetic = UnitArithmetic::Of(isa, WEFT_BFLOAT16, WEFT_AVG, /*ranks=*/6);
//   arithmetic.Add(SumStage::kFinal, sources, merges, result, count);
//
// A unit is an element, or an accumulator where sums travel unrounded (comm/schedule/reduction_order.h). Sources of one sum may be
// of both forms: elements become accumulators first, which changes no value.
//
// Thread-safety: constant; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/types.h"

#include "comm/kernels/custom_op.h"
#include "comm/kernels/isa.h"
#include "comm/kernels/reduce_arguments.h"
#include "comm/schedule/reduction_order.h"
#include "comm/schedule/schedule.h"

namespace weft {

// A source of a sum.
struct UnitSource {
  const std::byte* units = nullptr;
  UnitForm form = UnitForm::kElement;
};

class UnitArithmetic {
 public:
  // Of a kind that moves units and adds none.
  explicit UnitArithmetic(size_t element_bytes)
      : element_bytes_(element_bytes), accumulator_bytes_(element_bytes) {}

  // Of a reduction of `ranks` ranks' elements that has kernels (FindReduceKernel).
  static UnitArithmetic Of(Isa isa, weft_dtype_t dtype, weft_op_t op, int ranks);

  // Of a user's reduction, which is borrowed. Its values stay in the type: an accumulator is an element.
  static UnitArithmetic OfUser(const CustomOp& op, weft_dtype_t dtype);

  // From elements to accumulators, of a reduction that is not a user's.
  ReduceKernel first() const { return first_; }

  size_t BytesOf(UnitForm form) const {
    return form == UnitForm::kElement ? element_bytes_ : accumulator_bytes_;
  }

  // The sum of `count` units of each source, along the tree of `merges`, or the canonical one if that is empty. kPartial: as
  // `form`, kFinal: elements, divided and rounded where the operation says so. `to` may be one of the sources.
  void Add(SumStage stage, UnitForm form, std::span<const UnitSource> sources,
           std::span<const uint8_t> merges, std::byte* to, size_t count) const;

 private:
  size_t element_bytes_;
  size_t accumulator_bytes_;
  int64_t ranks_ = 1;
  ReduceKernel whole_ = nullptr;
  ReduceKernel first_ = nullptr;
  ReduceKernel middle_ = nullptr;
  ReduceKernel last_ = nullptr;
  const CustomOp* user_ = nullptr;
  weft_dtype_t dtype_ = WEFT_UINT8;  // of the user's
};

}  // namespace weft
