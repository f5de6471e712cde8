#include "comm/kernels/reduce.h"

#include <iterator>
#include <string_view>

#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce_isa.h"

namespace weft {
namespace {

// Each kernel is found by one of the finders.
template <Isa kIsa>
ReduceKernel AskFinders(weft_dtype_t dtype, weft_op_t op) {
  for (const auto find : {FindFloatKernel<kIsa>, FindIntegerKernel<kIsa>, FindFloat8Kernel<kIsa>,
                          FindBitsKernel<kIsa>, FindPremulKernel<kIsa>, FindLocKernel}) {
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
    for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
      const auto ask = ForIsa(isa, []<Isa kIsa>() { return &AskFinders<kIsa>; });
      for (const weft_dtype_t dtype : kDtypes) {
        auto& row = kernels_[static_cast<size_t>(isa)][DtypeRow(dtype)];
        for (const weft_op_t op : kReductionOps)
          row[OpRow(op)] = ask(dtype, op);
        row[OpRow(kOpPremulSum)] = ask(dtype, kOpPremulSum);
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

absl::StatusOr<Isa> ParseIsa(std::string_view name, Isa best) {
  if (name.empty()) return best;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (name != IsaName(isa)) continue;
    if (isa <= best) return isa;
    return MakeError(
        WEFT_UNSUPPORTED,
        StrCat("WEFT_ISA asks for ", name, ", but the best that this CPU and operating ",
               "system have is ", IsaName(best), "; unset WEFT_ISA or set it to ", IsaName(best)));
  }
  return MakeError(
      WEFT_INVALID_ARGUMENT,
      StrCat("WEFT_ISA is \"", name, "\", which is no instruction set that weft knows; ",
             "set it to scalar, avx2 or avx512, or unset it"));
}

absl::StatusOr<Isa> SelectIsa() {
  return ParseIsa(GetOptions().isa, BestIsa());
}

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
  if (op == kOpUser && custom->element_count > WEFT_USER_ELEMENT_BYTES_MAX / DtypeSize(dtype)) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("an element of the reduction \"", custom->name, "\" has ",
                            custom->element_count, " ", DtypeName(dtype), " and so more than the ",
                            WEFT_USER_ELEMENT_BYTES_MAX, " bytes that it may have"));
  }
  if (HasReduction(dtype, op)) return absl::OkStatus();
  if (dtype == WEFT_BOOL) {
    return Invalid(dtype, op, "booleans have sum, prod, min, max and the bit operations");
  }
  return Invalid(dtype, op, "bit operations are for integers and bool");
}

}  // namespace weft
