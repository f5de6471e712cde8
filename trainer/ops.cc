#include "trainer/ops.h"

namespace weft::trainer {

extern const Ops<float> kOpsFloatBaseline;
extern const Ops<double> kOpsDoubleBaseline;
extern const Ops<float> kOpsFloatAvx2;
extern const Ops<double> kOpsDoubleAvx2;
extern const Ops<float> kOpsFloatAvx512;
extern const Ops<double> kOpsDoubleAvx512;

bool IsaSupported(Isa isa) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  switch (isa) {
    case Isa::kBaseline:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  }
  return false;
}

template <>
const Ops<float>& OpsFor<float>(Isa isa) {
  if (isa == Isa::kAvx512) return kOpsFloatAvx512;
  return isa == Isa::kAvx2 ? kOpsFloatAvx2 : kOpsFloatBaseline;
}

template <>
const Ops<double>& OpsFor<double>(Isa isa) {
  if (isa == Isa::kAvx512) return kOpsDoubleAvx512;
  return isa == Isa::kAvx2 ? kOpsDoubleAvx2 : kOpsDoubleBaseline;
}

template <typename T>
const Ops<T>& GetOps() {
  if (IsaSupported(Isa::kAvx512)) return OpsFor<T>(Isa::kAvx512);
  return OpsFor<T>(IsaSupported(Isa::kAvx2) ? Isa::kAvx2 : Isa::kBaseline);
}

template const Ops<float>& GetOps<float>();
template const Ops<double>& GetOps<double>();

}  // namespace weft::trainer
