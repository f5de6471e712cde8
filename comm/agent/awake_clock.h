// A clock that stands still while its process does: stopped, frozen with its container, or kept from the CPU for long.
//
//   clock.BeginStep();                    // if it should have come long ago, that time does not count
//   ... clock.NowNs() ...
//   clock.EndStep(next_wake_ns);          // when the next step is to come at the latest, by this clock
//
// Whoever judges others by how long they have been silent goes by it: a whole job that is stopped and goes on again has heard
// nothing for a while, and that says nothing about anybody.
//
// Thread-safety: owned by one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>

#include "base/seams.h"

namespace weft {

class AwakeClock : public Clock {
 public:
  // `clock` outlives it. A step that comes later than it should by `tolerance_ns` or more: the process was not running.
  AwakeClock(Clock& clock, int64_t tolerance_ns) : clock_(clock), tolerance_ns_(tolerance_ns) {}

  int64_t NowNs() override { return clock_.NowNs() - away_ns_; }

  // What a kernel says of the past counts in its own time. Exact for the last absences; older ones count as if they had not been.
  int64_t AgoNs(int64_t ns) override;

  void BeginStep();
  void EndStep(int64_t next_wake_ns);

  // The same moment by the clock that it was made of, and back, as things stand. The greatest and the least number stay.
  int64_t ToClock(int64_t time_ns) const { return Shifted(time_ns, away_ns_); }

  int64_t FromClock(int64_t time_ns) const { return Shifted(time_ns, -away_ns_); }

 private:
  static constexpr size_t kAbsencesMax = 16;

  // By the clock that this one was made of.
  struct Absence {
    int64_t begin_ns;
    int64_t end_ns;
  };

  static int64_t Shifted(int64_t time_ns, int64_t by_ns);
  void CountAway(int64_t due_ns);

  Clock& clock_;
  const int64_t tolerance_ns_;
  int64_t away_ns_ = 0;
  std::deque<Absence> absences_;
  int64_t begun_ns_ = 0;
  int64_t next_wake_ns_ = std::numeric_limits<int64_t>::max();
};

}  // namespace weft
