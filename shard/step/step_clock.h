// How long training steps keep this rank busy, and how long it waits in them for the others.
//
//   clock.Begin();
//   ...                                        // forward and backward
//   clock.Computed(waited_ns);                 // finish is called; so long was waited until now
//   clock.Finished(gather_waited_ns, reduce_waited_ns);
//   StepTimes times = clock.Take();            // the mean of the steps since the last Take
//
// A rank that is slow shows in busy_ns; the others wait for it, which does not count as busy.
//
// Thread-safety: one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/wait.h"

namespace weft {

// The mean over steps.
struct StepTimes {
  int64_t busy_ns = 0;
  int64_t gather_waited_ns = 0;
  int64_t reduce_waited_ns = 0;
};

class StepClock {
 public:
  void Begin() { began_ns_ = MonotonicNs(); }

  void Computed(int64_t waited_ns) {
    busy_ns_ = std::max<int64_t>(0, MonotonicNs() - began_ns_ - waited_ns);
  }

  void Finished(int64_t gather_waited_ns, int64_t reduce_waited_ns) {
    ++steps_;
    ++steps_since_;
    since_.busy_ns += busy_ns_;
    since_.gather_waited_ns += gather_waited_ns;
    since_.reduce_waited_ns += reduce_waited_ns;
  }

  // All zero if there was no step since.
  StepTimes Take() {
    const int64_t steps = std::max<int64_t>(1, std::exchange(steps_since_, 0));
    const StepTimes sum = std::exchange(since_, {});
    return {sum.busy_ns / steps, sum.gather_waited_ns / steps, sum.reduce_waited_ns / steps};
  }

  int64_t steps() const { return steps_; }

 private:
  int64_t began_ns_ = 0;
  int64_t busy_ns_ = 0;  // of this step
  int64_t steps_ = 0;
  int64_t steps_since_ = 0;
  StepTimes since_;
};

}  // namespace weft
