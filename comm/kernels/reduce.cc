#include "comm/kernels/reduce.h"

#include <iterator>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce_isa.h"

namespace weft {
namespace {

#if defined(__x86_64__)
// By hand: __builtin_cpu_supports does not know f16c in every compiler.
bool HasF16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// __builtin_cpu_supports asks XGETBV too: an operating system that does not save the registers says
// no to AVX, and so to F16C.
Isa DetectIsa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !HasF16c()) return Isa::kScalar;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return avx512 ? Isa::kAvx512 : Isa::kAvx2;
}
#else
Isa DetectIsa() {
  return Isa::kScalar;
}
#endif

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

absl::Status Invalid(weft_dtype_t dtype, weft_op_t op, std::string_view why) {
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("there is no ", OpName(op), " of ", DtypeName(dtype), ": ", why));
}

}  // namespace

Isa BestIsa() {
  static const Isa best = DetectIsa();
  return best;
}

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "unknown";
}

ReduceKernel FindReduceKernel(Isa isa, weft_dtype_t dtype, weft_op_t op) {
  const auto row = static_cast<size_t>(isa);
  if (row >= std::size(kFinders)) return nullptr;
  for (const Finder find : kFinders[row]) {
    const ReduceKernel kernel = find(dtype, op);
    if (kernel != nullptr) return kernel;
  }
  return nullptr;
}

absl::Status CheckReduction(weft_dtype_t dtype, weft_op_t op, const CustomOp* custom) {
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
  if (op == kOpUser || FindReduceKernel(Isa::kScalar, dtype, op) != nullptr) {
    return absl::OkStatus();
  }
  if (dtype == WEFT_BOOL) {
    return Invalid(dtype, op, "booleans have sum, prod, min, max and the bit operations");
  }
  return Invalid(dtype, op, "bit operations are for integers and bool");
}

}  // namespace weft
