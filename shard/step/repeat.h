// Micro-batches that are alike: a step of thousands has a schedule of a few.
//
//   const MicrobatchRun run = LongestRun(events);
//   Schedule schedule = ...;      // of Shortened(events, run, dropped)
//   if (FindRepeat(run, 1, dropped, schedule)) ...      // schedule.repeat says what comes again
//
// A pattern of `period` micro-batches may be repeated if what is resident in it is resident in the next ones as well, at the same
// time of the pattern, the same place, and behind the same gradients: then what is apart in a pattern and the one
// behind it is apart in any number of them. A schedule without such a pattern is written whole.
//
// Thread-safety: pure functions, values.
#pragma once

#include <cstddef>
#include <vector>

#include "shard/step/schedule.h"

namespace weft {

// Micro-batches that make the same calls, one behind the other.
struct MicrobatchRun {
  size_t first_event = 0;
  size_t event_count = 0;  // of one
  size_t count = 0;
};

// The run with the most events.
MicrobatchRun LongestRun(const std::vector<Event>& events);

// How many of them need not be written, a multiple of `period`; 0: the step is too short to be worth it.
size_t DroppedOf(const MicrobatchRun& run, size_t period);

// `events` without the last `dropped` of the run.
std::vector<Event> Shortened(const std::vector<Event>& events, const MicrobatchRun& run,
                             size_t dropped);

// Sets schedule.repeat, of a schedule of the shortened step, or returns false.
bool FindRepeat(const MicrobatchRun& run, size_t period, size_t dropped, Schedule& schedule);

}  // namespace weft
