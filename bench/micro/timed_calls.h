// What programs need that time calls of the C interface: a clock, and an end with a sentence when a call fails.
//
//   const int64_t begin_ns = NowNs();
//   Check(weft_barrier(group, nullptr, nullptr));
//
// Thread-safety: any thread.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include <time.h>
#include <unistd.h>

#include "weft/weft.h"

namespace weft {

inline int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

inline void Check(weft_result_t result) {
  if (result == WEFT_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, weft_last_error());
  _exit(1);
}

}  // namespace weft
