// What has happened to each unit in the micro-batch under way.
//
//   UnitTracker units(registry.units());
//   units.Reset();                                     // microbatch_begin
//   units.OnCall({Event::Kind::kPreForward, unit});    // a legal call
//   if (units.Of(unit).InUse()) ...
//
// Whoever has to know keeps no copy: StepState asks which call is legal, views and the unshard manager ask which units are
// in use, and a schedule is made by letting a tracker of its own follow the calls that are expected. So what a
// schedule counts cannot differ from what the step counts that replays it.
//
// A unit with tied params is used together with the units that have them: its calls are calls of all of these.
//
// Thread-safety: none of its own; that of a context is guarded by the context's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shard/layout/registry.h"
#include "shard/step/event.h"

namespace weft {

// How often a unit runs in a micro-batch, through units that are tied to it too; recomputing apart.
struct UnitRuns {
  int forwards = 0;
  int backwards = 0;
  bool operator==(const UnitRuns&) const = default;
};

class UnitTracker {
 public:
  enum class Phase : uint8_t { kUntouched, kForward, kForwarded, kBackward, kDone };
  enum class Unshard : uint8_t { kNone, kStarted, kDone };

  struct Unit {
    Phase phase = Phase::kUntouched;
    Unshard unshard = Unshard::kNone;  // by a call of this unit
    int uses = 0;  // pre_forward without its post_forward, of this unit or one that is tied to it
    int own_uses = 0;      // of this unit
    UnitRuns runs;         // that have ended
    int backward_of = -1;  // the unit whose pre_backward began the one that is under way
    int unshards = 0;  // unshard_start without its reshard, of this unit or one that is tied to it
    int unshards_done = 0;  // those of them that were waited for

    bool InBackward() const { return phase == Phase::kBackward; }

    // The params may be read.
    bool InUse() const { return uses > 0 || InBackward() || unshards_done > 0; }

    // Something keeps the params unsharded.
    bool Kept() const { return uses > 0 || InBackward() || unshards > 0; }
  };

  // `specs` outlives this and no longer changes.
  explicit UnitTracker(const std::vector<UnitSpec>& specs) : specs_(specs), units_(specs.size()) {}

  // How often each unit runs in a micro-batch, from here on; empty: backward as often as forward.
  void ExpectRuns(std::vector<UnitRuns> runs) { expected_ = std::move(runs); }

  // A micro-batch begins.
  void Reset();
  // Keeps nothing of a call without a unit.
  void OnCall(const Event& event);

  size_t count() const { return units_.size(); }

  const Unit& Of(int unit) const { return units_[static_cast<size_t>(unit)]; }

  // The unit, and those that have the params that it ties.
  const std::vector<int>& UsedBy(int unit) const { return specs_[static_cast<size_t>(unit)].used; }

  // The backward that is under way, or comes next, is the last one expected.
  bool LastBackward(int unit) const;

 private:
  void OnCallOf(const Event& event, int used);

  const std::vector<UnitSpec>& specs_;
  std::vector<Unit> units_;
  std::vector<UnitRuns> expected_;  // by unit; may be empty
};

// By unit: the most of each in all micro-batches in which it ran backward.
std::vector<UnitRuns> RunsOf(const std::vector<Event>& events, const std::vector<UnitSpec>& units);

}  // namespace weft
