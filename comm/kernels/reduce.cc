#include "comm/kernels/reduce.h"

#include <iterator>
#include <string_view>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce_isa.h"

namespace weft {
namespace {

using Finder = ReduceKernel (*)(weft_dtype_t dtype, weft_op_t op);

// By Isa; each kernel is found by one of the finders.
constexpr Finder kFinders[][6] = {
    {FindFloatKernelScalar, FindIntegerKernelScalar, FindFloat8KernelScalar, FindBitsKernelScalar,
     FindPremulKernelScalar, FindLocKernel},
#if defined(__x86_64__)
    {FindFloatKernelAvx2, FindIntegerKernelAvx2, FindFloat8KernelAvx2, FindBitsKernelAvx2,
     FindPremulKernelAvx2, FindLocKernel},
    {FindFloatKernelAvx512, FindIntegerKernelAvx512, FindFloat8KernelAvx512, FindBitsKernelAvx512,
     FindPremulKernelAvx512, FindLocKernel},
#endif
};

ReduceKernel AskFinders(size_t isa, weft_dtype_t dtype, weft_op_t op) {
  for (const Finder find : kFinders[isa]) {
    const ReduceKernel kernel = find(dtype, op);
    if (kernel != nullptr) return kernel;
  }
  return nullptr;
}

// What the finders say, asked once: a kernel is looked up for every operation, and they are a chain
// of switches in as many translation units.
class KernelTable {
 public:
  // Not inlined, so that a look-up saves no registers for it.
  [[gnu::noinline]] KernelTable() {
    for (size_t isa = 0; isa < std::size(kFinders); ++isa) {
      for (const weft_dtype_t dtype : kDtypes) {
        for (const weft_op_t op : kReductionOps)
          kernels_[isa][DtypeRow(dtype)][OpRow(op)] = AskFinders(isa, dtype, op);
        kernels_[isa][DtypeRow(dtype)][OpRow(kOpPremulSum)] = AskFinders(isa, dtype, kOpPremulSum);
      }
    }
  }

  // nullptr for numbers that are not known: nothing is written to their rows.
  ReduceKernel Find(Isa isa, weft_dtype_t dtype, weft_op_t op) const {
    const auto row = static_cast<size_t>(isa);
    return row < std::size(kernels_) ? kernels_[row][DtypeRow(dtype)][OpRow(op)] : nullptr;
  }

 private:
  ReduceKernel kernels_[kIsaCount][kDtypeRows][kOpRows] = {};
};

absl::Status Invalid(weft_dtype_t dtype, weft_op_t op, std::string_view why) {
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("there is no ", OpName(op), " of ", DtypeName(dtype), ": ", why));
}

}  // namespace

ReduceKernel FindReduceKernel(Isa isa, weft_dtype_t dtype, weft_op_t op) {
  static const KernelTable table;
  return table.Find(isa, dtype, op);
}

absl::Status CheckUnusualReduction(weft_dtype_t dtype, weft_op_t op, const CustomOp* custom) {
  if (!IsDtype(dtype)) {
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat(static_cast<int>(dtype), " is not a data type"));
  }
  const bool made_at_run_time = op == kOpPremulSum || op == kOpUser;
  if (!IsReductionOp(op) || (made_at_run_time && (custom == nullptr || custom->kind != op))) {
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat(static_cast<int>(op), " is not a reduction"));
  }
  if (op == kOpPremulSum && custom->dtype != dtype) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("the premul_sum was made for ", DtypeName(custom->dtype), ", not for ",
                            DtypeName(dtype), "; make one for each type"));
  }
  if (HasReduction(dtype, op)) return absl::OkStatus();
  if (dtype == WEFT_BOOL) {
    return Invalid(dtype, op, "booleans have sum, prod, min, max and the bit operations");
  }
  return Invalid(dtype, op, "bit operations are for integers and bool");
}

}  // namespace weft
