// When params are unsharded and resharded, and where everything lies meanwhile: made from the calls of
// one step, before it begins.
//
//   const std::vector<Event> events = PredictEvents(units, /*train=*/true, /*microbatches=*/1);   // prediction.h
//   const Schedule schedule = MakeSchedule(input, events);
//   ... schedule.gathers[0].offset, schedule.pool_bytes ...
//
// A residency is the time in which a unit's params, or a bucket's gradients, are unsharded, somewhere in the
// pool. Time is counted in half steps: event k is 2k, and what follows once its call has been served is
// 2k + 1. The prefetch of a unit begins with the event k that needs the unit `prefetch` places before it: in backward at
// 2k + 1; in forward at 2k - 1, when the unit before has been resharded, so that pre_forward itself starts nothing;
// the gradients of a bucket end at the first pre_backward after the call that completed them and those of
// all buckets before it: reductions start in the order in which the last micro-batch completes buckets. So the
// prefetch in backward takes the place of gradients that were reduced: with prefetch 1 and units of one
// size, two of them are unsharded in forward and three in backward (params, gradients, and the next params
// or the gradients of before).
//
// Places are found by packing the intervals: largest first, and first come first, each to the lowest free
// offset; the lower peak wins. (The best packing is simple when all sizes are equal; with different sizes it is
// dynamic storage allocation, which is NP-hard: Garey, Johnson 1979, SR2.)
//
// Where the places of params are fixed, those that are given have to be kept to: what lies there is resharded before another unit comes, so
// a prefetch begins later, and a unit that is to stay between two uses is gathered again if the place is needed in between.
//
// Everything is a function of what all ranks have agreed on, so all ranks make the same schedule.
//
// Thread-safety: pure functions, values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shard/layout/layout.h"
#include "shard/step/event.h"
#include "shard/step/fixed_places.h"

namespace weft {

struct Residency {
  int index = 0;      // of the unit, or of the bucket
  int need = 0;       // the event that needs it first
  int64_t begin = 0;  // half steps, both included
  int64_t end = 0;
  size_t bytes = 0;
  size_t offset = 0;       // in the pool
  std::vector<int> after;  // gradients that were last at these bytes and must have been reduced
  int part = -1;           // HPZ, of params: what is kept of them at the end, among the parts
  bool kept = false;       // of params: the unit is to stay unsharded since its residency before
};

// Only some of several equal micro-batches are written: those of a pattern come `times` more times, one behind the other.
struct Repeat {
  struct List {
    size_t first = 0;
    size_t count = 0;
  };

  size_t times = 0;  // 0: all are written
  List events;       // of the pattern in the lists that are written
  List gathers;
  List gradients;
};

// A residency of the step as a whole; the schedule has one of several alike.
class Occurrence {
 public:
  // Number `number` of the step's gathers, or of its gradients, which `list` of the repeat is about.
  Occurrence(const Repeat& repeat, const Repeat::List& list, const std::vector<Residency>& written,
             size_t number);

  int index() const { return written_->index; }

  int64_t need() const { return written_->need + Shift(); }  // event

  int64_t begin() const { return written_->begin + 2 * Shift(); }

  int64_t end() const;

  size_t bytes() const { return written_->bytes; }

  size_t offset() const { return written_->offset; }

  // Where it lies among the written parts.
  int part() const { return written_->part; }

  size_t after_count() const { return written_->after.size(); }

  // A number of the step's gradients.
  size_t after(size_t i) const;

 private:
  enum class Where { kBefore, kWithin, kBehind };

  int64_t Shift() const { return static_cast<int64_t>(rounds_ * repeat_->events.count); }

  const Repeat* repeat_;
  const Residency* written_;
  Where where_ = Where::kBefore;  // in the lists, as seen from the pattern
  size_t rounds_ = 0;             // of the pattern that come before and are not written
};

struct Schedule {
  std::vector<Event> events;
  std::vector<Residency> gathers;    // of params, in the order in which they are started
  std::vector<Residency> gradients;  // in the order in which they are needed
  std::vector<Residency> parts;  // HPZ: of units, from the end of their use in forward to backward
  std::vector<int> order;        // of buckets, in which their reductions start
  size_t pool_bytes = 0;         // for all that has offsets in the pool
  size_t fixed_bytes =
      0;             // for params, beside the pool, if places are fixed: their offsets are there
  int prefetch = 0;  // what the budget left of it
  Repeat repeat;     // of events, gathers and gradients; the step as a whole:

  size_t event_count() const { return events.size() + repeat.times * repeat.events.count; }

  const Event& EventAt(size_t number) const;
  std::vector<Event> AllEvents() const;

  size_t gather_count() const { return gathers.size() + repeat.times * repeat.gathers.count; }

  Occurrence Gather(size_t number) const { return {repeat, repeat.gathers, gathers, number}; }

  size_t gradient_count() const { return gradients.size() + repeat.times * repeat.gradients.count; }

  Occurrence Gradient(size_t number) const { return {repeat, repeat.gradients, gradients, number}; }
};

struct ScheduleInput {
  const Layout* layout = nullptr;
  const std::vector<UnitSpec>* units = nullptr;
  bool train = true;
  bool reduces_every = false;  // every micro-batch, not only the last
  bool overlap = true;         // else gradients stay until the micro-batch ends
  int prefetch = 1;            // units gathered ahead of the one that is used
  size_t budget_bytes = 0;     // of the pool; 0: none
  // Params of a unit always lie at the same place, behind which gradients and parts have a pool of their own. `places` says which
  // one, else one is found.
  bool fixes_places = false;
  const FixedPlaces* places = nullptr;
};

// O(n log n) of what is written, which is at most some ten micro-batches where they are alike.
// With a budget, prefetching is given up first; units of FRACTION stay unsharded between forward and backward while
// there is room, the last ones first. If even the least does not fit, that is what is returned. Given places cost what they cost:
// there is no budget for them. Uses of units whose places overlap must not.
Schedule MakeSchedule(const ScheduleInput& input, std::vector<Event> events);

// The most bytes that are resident at a time: what no placing can go below.
size_t LeastPoolBytes(const Schedule& schedule);

}  // namespace weft
