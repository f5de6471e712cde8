// The CPU that this thread runs on, for the price of a load.
//
//   int32_t cpu = CurrentCpu();
//   if (cpu < 0) ...                    // this system does not say it so cheaply; ask another way
//
// Linux keeps the number per thread, in the area for restartable sequences that the C library registers (glibc 2.35 and later, unless
// it was told not to; not under valgrind). rdtscp tells it too, but takes twice as long as rdtsc, because it waits for all
// instructions before it.
// Thread-safety: any thread; the answer may be old by the time that it is used.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__GLIBC__)
// Where the area is, from the thread's own address on. As in <sys/rseq.h>, but weak: a program may run with an older C library
// than it was built with.
extern "C" __attribute__((weak)) const ptrdiff_t __rseq_offset;  // NOLINT: glibc's own name
#define WEFT_HAS_RSEQ 1
#endif

namespace weft {

inline int32_t CurrentCpu() {
#ifdef WEFT_HAS_RSEQ
  constexpr size_t kCpuId = 4;  // offset of cpu_id; negative while nobody has registered the area
  if (&__rseq_offset == nullptr) return -1;
  const char* thread = nullptr;
  __asm__("mov %%fs:0, %0" : "=r"(thread));
  const auto* const cpu = reinterpret_cast<const int32_t*>(thread + __rseq_offset + kCpuId);
  return __atomic_load_n(cpu, __ATOMIC_RELAXED);
#else
  return -1;
#endif
}

}  // namespace weft
