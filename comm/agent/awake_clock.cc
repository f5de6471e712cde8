// A process may be stopped between two steps, where it usually is, or within one.
#include "comm/agent/awake_clock.h"

#include <algorithm>

namespace weft {

int64_t AwakeClock::Shifted(int64_t time_ns, int64_t by_ns) {
  const bool never = time_ns == std::numeric_limits<int64_t>::max();
  const bool at_once = time_ns == std::numeric_limits<int64_t>::min();
  return never || at_once ? time_ns : time_ns + by_ns;
}

void AwakeClock::CountAway(int64_t due_ns) {
  const int64_t now_ns = NowNs();
  // In this order nothing overflows: what is due at the end of time is never overdue.
  if (due_ns <= now_ns - tolerance_ns_) away_ns_ += now_ns - due_ns;
}

void AwakeClock::BeginStep() {
  CountAway(next_wake_ns_);
  begun_ns_ = NowNs();
}

void AwakeClock::EndStep(int64_t next_wake_ns) {
  CountAway(begun_ns_);
  next_wake_ns_ = std::max(next_wake_ns, NowNs());
}

}  // namespace weft
