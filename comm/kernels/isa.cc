#include "comm/kernels/isa.h"

#include <cstddef>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

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
[[gnu::noinline]] Isa DetectIsa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !HasF16c())
    return Isa::kScalar;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return avx512 ? Isa::kAvx512 : Isa::kAvx2;
}
#else
Isa DetectIsa() {
  return Isa::kScalar;
}
#endif

}  // namespace

Isa BestIsa() {
  static const Isa best = DetectIsa();
  return best;
}

const char* IsaName(Isa isa) {
  constexpr const char* kNames[kIsaCount] = {"scalar", "avx2", "avx512"};
  const auto index = static_cast<size_t>(isa);
  return index < kIsaCount ? kNames[index] : "unknown";
}

}  // namespace weft
