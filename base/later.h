// Deadlines from timeouts: callers may give any timeout, and INT64_MAX is what many give for "none".
//
//   const int64_t deadline_ns = Later(MonotonicNs(), timeout_ns);
//
// Thread-safety: a pure function.
#pragma once

#include <cstdint>

namespace weft {

// `wait_ns` after `at_ns`, or the end of time if that comes first.
constexpr int64_t Later(int64_t at_ns, int64_t wait_ns) {
  return wait_ns > 0 && at_ns > INT64_MAX - wait_ns ? INT64_MAX : at_ns + wait_ns;
}

}  // namespace weft
