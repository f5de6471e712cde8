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
  if (due_ns > now_ns - tolerance_ns_) return;
  absences_.push_back({.begin_ns = due_ns + away_ns_, .end_ns = now_ns + away_ns_});
  if (absences_.size() > kAbsencesMax) absences_.pop_front();
  away_ns_ += now_ns - due_ns;
}

int64_t AwakeClock::AgoNs(int64_t ns) {
  const int64_t then_ns = clock_.NowNs() - ns;
  int64_t away_since_ns = 0;
  for (const Absence& absence : absences_)
    away_since_ns += std::max<int64_t>(0, absence.end_ns - std::max(then_ns, absence.begin_ns));
  return then_ns - (away_ns_ - away_since_ns);
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
