#include "shard/checkpoint/patience.h"

#include "base/wait.h"

namespace weft {

int64_t SystemPatience::NowNs() {
  return MonotonicNs();
}

void SystemPatience::PauseUntil(int64_t time_ns) {
  // Without a set, or once it fails, pauses are none: the files are looked at more often.
  if (set_.Open().ok()) set_.Sleep(set_.rings(), time_ns);
}

}  // namespace weft
