// The floating-point environment of kernels, for a scope.
//
//   const DefaultRounding rounding;    // until the end of the scope
//
// Internal linkage, see lanes.h. Thread-safety: the environment is the thread's own.
#pragma once

#include <cstdint>

namespace weft {
namespace {

// Sets the floating-point environment that the numbers contract assumes, for a scope: to nearest,
// denormals kept, nothing trapped. Threads of foreign programs run with others: -ffast-math sets
// flush-to-zero for a whole process.
class DefaultRounding {
 public:
#if defined(__SSE2__)
  DefaultRounding() : saved_(__builtin_ia32_stmxcsr()) {
    if ((saved_ & kControlBits) != kDefault) __builtin_ia32_ldmxcsr(kDefault);
    asm volatile("" ::: "memory");  // no load, hence no arithmetic, moves above this
  }

  ~DefaultRounding() {
    asm volatile("" ::: "memory");
    if ((saved_ & kControlBits) != kDefault) __builtin_ia32_ldmxcsr(saved_);
  }
#else
  DefaultRounding() = default;
#endif

  DefaultRounding(const DefaultRounding&) = delete;
  DefaultRounding& operator=(const DefaultRounding&) = delete;

#if defined(__SSE2__)
 private:
  static constexpr uint32_t kControlBits = 0xffc0;  // all but the sticky flags
  static constexpr uint32_t kDefault = 0x1f80;      // all exceptions masked
  uint32_t saved_;
#endif
};

}  // namespace
}  // namespace weft
