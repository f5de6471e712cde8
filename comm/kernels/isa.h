// The instruction sets for which kernels are compiled.
//
//   const CopyKernel copy = FindStreamCopy(BestIsa());
//
// Apart from reduce.h because it is light: translation units that are compiled for one instruction set
// may include it. Which one a process uses is a setting, see SelectIsa in reduce.h.
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

}  // namespace weft
