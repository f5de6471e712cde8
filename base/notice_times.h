// When a wait that nobody knows the end of says what it waits for: after 2, 10, 20, 40 s, and so on at doubling distances.
//
//   NoticeTimes notices(MonotonicNs());
//   while (...) {
//     ... sleep until something happens, or notices.next_ns() ...
//     if (const int64_t waited_s = notices.Due(MonotonicNs()); waited_s > 0)
//       LogWarn("rank 1 has waited ", waited_s, " s for ", ...);
//   }
//
// Thread-safety: a value.
#pragma once

#include <cstdint>

#include "base/later.h"

namespace weft {

class NoticeTimes {
 public:
  static constexpr int64_t kFirstNs = 2'000'000'000;
  static constexpr int64_t kSecondNs = 10'000'000'000;

  explicit NoticeTimes(int64_t start_ns)
      : start_ns_(start_ns), next_ns_(Later(start_ns, kFirstNs)) {}

  // When the next one is due.
  int64_t next_ns() const { return next_ns_; }

  // 0 if none is due; else for how many seconds this has waited, and the next one is later.
  int64_t Due(int64_t now_ns) {
    if (now_ns < next_ns_) return 0;
    const int64_t waited_ns = now_ns - start_ns_;
    int64_t after_ns = kSecondNs;
    while (after_ns <= waited_ns && after_ns < INT64_MAX / 2)
      after_ns *= 2;
    next_ns_ = Later(start_ns_, after_ns);
    return waited_ns / 1'000'000'000;
  }

 private:
  int64_t start_ns_;
  int64_t next_ns_;
};

}  // namespace weft
