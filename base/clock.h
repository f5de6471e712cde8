// Time as a seam: control protocols ask a Clock, so that a simulator can run them in its own time.
//
// Thread-safety: SystemClock from any thread.
#pragma once

#include <cstdint>

#include "base/wait.h"

namespace weft {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds that only grow; on the scale of every deadline.
  virtual int64_t NowNs() = 0;
};

class SystemClock : public Clock {
 public:
  int64_t NowNs() override { return MonotonicNs(); }
};

}  // namespace weft
