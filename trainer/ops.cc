#include "trainer/ops.h"

namespace weft::trainer {

bool IsaSupported(Isa isa) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  }
  return false;
}

template <typename T>
const Ops<T>& OpsFor(Isa isa) {
  if (isa == Isa::kAvx512) return OpsOf<T, Isa::kAvx512>();
  return isa == Isa::kAvx2 ? OpsOf<T, Isa::kAvx2>() : OpsOf<T, Isa::kScalar>();
}

template <typename T>
const Ops<T>& GetOps() {
  if (IsaSupported(Isa::kAvx512)) return OpsFor<T>(Isa::kAvx512);
  return OpsFor<T>(IsaSupported(Isa::kAvx2) ? Isa::kAvx2 : Isa::kScalar);
}

template const Ops<float>& OpsFor<float>(Isa isa);
template const Ops<double>& OpsFor<double>(Isa isa);
template const Ops<float>& GetOps<float>();
template const Ops<double>& GetOps<double>();

}  // namespace weft::trainer
