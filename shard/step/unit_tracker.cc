#include "shard/step/unit_tracker.h"

#include <algorithm>

namespace weft {

void UnitTracker::Reset() {
  std::fill(units_.begin(), units_.end(), Unit());
}

void UnitTracker::OnCall(const Event& event) {
  if (!event.UsesUnit() && event.kind != Event::Kind::kUnshardWait) return;
  Unit& own = units_[static_cast<size_t>(event.index)];
  if (event.kind == Event::Kind::kUnshardWait && own.unshard == Unshard::kDone) return;
  for (const int used : UsedBy(event.index))
    OnCallOf(event, used);
  if (event.kind == Event::Kind::kPreForward) ++own.own_uses;
  if (event.kind == Event::Kind::kPostForward) --own.own_uses;
  if (event.kind == Event::Kind::kUnshard) own.unshard = Unshard::kStarted;
  if (event.kind == Event::Kind::kUnshardWait) own.unshard = Unshard::kDone;
  if (event.kind == Event::Kind::kReshard) own.unshard = Unshard::kNone;
}

void UnitTracker::OnCallOf(const Event& event, int used) {
  Unit& unit = units_[static_cast<size_t>(used)];
  switch (event.kind) {
    case Event::Kind::kPreForward:
      ++unit.uses;
      if (!unit.InBackward()) unit.phase = Phase::kForward;
      return;
    case Event::Kind::kPostForward:
      if (--unit.uses > 0 || unit.phase != Phase::kForward) return;
      unit.phase = Phase::kForwarded;
      ++unit.runs.forwards;
      return;
    case Event::Kind::kPreBackward:
      unit.phase = Phase::kBackward;
      unit.backward_of = event.index;
      return;
    case Event::Kind::kPostBackward:
      unit.phase = LastBackward(used) ? Phase::kDone : Phase::kForwarded;
      ++unit.runs.backwards;
      return;
    case Event::Kind::kUnshard:
      ++unit.unshards;
      return;
    case Event::Kind::kUnshardWait:
      ++unit.unshards_done;
      return;
    case Event::Kind::kReshard:
      --unit.unshards;
      // Nobody reports the waits of calls that are only expected.
      if (Of(event.index).unshard == Unshard::kDone) --unit.unshards_done;
      return;
    default:
      return;
  }
}

bool UnitTracker::LastBackward(int unit) const {
  const UnitRuns& runs = Of(unit).runs;
  const UnitRuns recorded = expected_.empty() ? UnitRuns() : expected_[static_cast<size_t>(unit)];
  // A unit that runs more often than it did is not over when it used to be.
  const bool as_recorded = recorded.backwards > 0 && runs.forwards <= recorded.forwards;
  return runs.backwards + 1 >= (as_recorded ? recorded.backwards : runs.forwards);
}

std::vector<UnitRuns> RunsOf(const std::vector<Event>& events, const std::vector<UnitSpec>& units) {
  UnitTracker tracker(units);
  std::vector<UnitRuns> most(units.size());
  for (const Event& event : events) {
    if (event.kind == Event::Kind::kMicrobatchBegin) tracker.Reset();
    tracker.OnCall(event);
    if (event.kind != Event::Kind::kPostBackward) continue;
    for (const int used : tracker.UsedBy(event.index)) {
      UnitRuns& found = most[static_cast<size_t>(used)];
      const UnitRuns& runs = tracker.Of(used).runs;
      found = {std::max(found.forwards, runs.forwards), std::max(found.backwards, runs.backwards)};
    }
  }
  return most;
}

}  // namespace weft
