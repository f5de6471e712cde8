// The instruction sets for which kernels are compiled.
//
//   const CopyKernel copy = FindStreamCopy(BestIsa());
//
// Light: what is compiled for one instruction set (cmake/kernels.cmake) includes it. Which one a process
// uses is a setting, see SelectIsa in reduce.h.
//
// Thread-safety: pure functions; the CPU is asked once.
#pragma once

#include <cstdint>

namespace weft {

enum class Isa : uint8_t { kScalar, kAvx2, kAvx512 };

inline constexpr int kIsaCount = 3;

// The best instruction set of this CPU and operating system that the build has.
Isa BestIsa();
// "scalar", "avx2", "avx512"; "unknown".
const char* IsaName(Isa isa);

// What `pick`, a template of the instruction set, gives for `isa`, one that this CPU has:
//   ForIsa(isa, []<Isa kIsa>() -> CopyKernel { return StreamCopy<kIsa>; })
template <typename Pick>
auto ForIsa(Isa isa, Pick pick) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return pick.template operator()<Isa::kAvx512>();
  if (isa == Isa::kAvx2) return pick.template operator()<Isa::kAvx2>();
#endif
  return pick.template operator()<Isa::kScalar>();
}

#if defined(WEFT_KERNEL_ISA)
// What this translation unit is compiled for, and the bytes of a register; 0 is plain C++.
constexpr Isa kKernelIsa = Isa::WEFT_KERNEL_ISA;
constexpr int kRegisterBytes = kKernelIsa == Isa::kAvx512 ? 64 : kKernelIsa == Isa::kAvx2 ? 32 : 0;
#endif

}  // namespace weft
