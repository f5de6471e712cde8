#include "trainer/ops.h"

#include <initializer_list>

namespace weft::trainer {

bool IsaSupported(Isa isa) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq");
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512:
      return avx512;
    case Isa::kAvx512Bf16:
      return avx512 && __builtin_cpu_supports("avx512bf16");
  }
  return false;
}

Isa FastestIsa() {
  for (const Isa isa : {Isa::kAvx512Bf16, Isa::kAvx512, Isa::kAvx2}) {
    if (IsaSupported(isa)) return isa;
  }
  return Isa::kScalar;
}

template <typename T>
const Ops<T>& OpsFor(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Bf16:
      return OpsOf<T, Isa::kAvx512Bf16>();
    case Isa::kAvx512:
      return OpsOf<T, Isa::kAvx512>();
    case Isa::kAvx2:
      return OpsOf<T, Isa::kAvx2>();
    case Isa::kScalar:
      break;
  }
  return OpsOf<T, Isa::kScalar>();
}

template <typename T>
const Ops<T>& GetOps() {
  static const Ops<T>& fastest = OpsFor<T>(FastestIsa());
  return fastest;
}

template const Ops<float>& OpsFor<float>(Isa isa);
template const Ops<double>& OpsFor<double>(Isa isa);
template const Ops<float>& GetOps<float>();
template const Ops<double>& GetOps<double>();

}  // namespace weft::trainer
