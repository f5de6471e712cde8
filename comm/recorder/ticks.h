// The recorder's clock: what costs least to read. How fast it runs is measured by who compares two readings with a clock.
//
// Thread-safety: pure functions. Comparable between the CPUs and processes of a machine.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <sched.h>
#endif

#include "base/current_cpu.h"
#include "base/wait.h"

namespace weft {

// Ticks of the recorder's clock.
inline uint64_t RecorderTicks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<uint64_t>(MonotonicNs());
#endif
}

// As RecorderTicks(), and the number of the CPU that this thread runs on. One instruction tells both, but waits for all before it.
inline uint64_t RecorderTicks(uint32_t* cpu) {
  if (const int32_t current = CurrentCpu(); current >= 0) [[likely]] {
    *cpu = static_cast<uint32_t>(current);
    return RecorderTicks();
  }
#if defined(__x86_64__)
  constexpr uint32_t kCpuBits = 0xfff;  // Linux keeps the node's number above
  unsigned int processor = 0;
  const uint64_t ticks = __rdtscp(&processor);
  *cpu = processor & kCpuBits;
  return ticks;
#else
  *cpu = static_cast<uint32_t>(sched_getcpu());
  return RecorderTicks();
#endif
}

}  // namespace weft
