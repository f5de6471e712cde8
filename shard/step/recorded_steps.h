// What steps of each kind did the last time, or will do the first time: the schedules that the next ones replay.
//
//   recorded.Expect(WEFT_SHARD_TRAIN, schedule);                 // finalize: of a kind that was not seen yet
//   const RecordedStep& step = recorded.Of({mode, tag});         // step_begin
//   if (RecordedStep* record = recorded.Record({mode, tag})) *record = ...;   // finish
//
// At most 128 kinds are remembered; steps of further ones stay as they were expected.
//
// Thread-safety: none of its own; the context's mutex guards it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "weft/shard.h"

#include "shard/step/event.h"
#include "shard/step/schedule.h"
#include "shard/step/unit_tracker.h"

namespace weft {

struct RecordedStep {
  Schedule schedule;
  bool agreed = false;         // on all ranks; else such a step is served on demand
  std::vector<UnitRuns> runs;  // by unit
};

class RecordedSteps {
 public:
  // What steps of kinds not seen yet will do; all ranks have made the same schedule.
  void Expect(weft_shard_mode_t mode, Schedule schedule) {
    expected_[mode].schedule = std::move(schedule);
    expected_[mode].agreed = true;
  }

  // How often units will run in them, where a hint says so.
  void ExpectRuns(weft_shard_mode_t mode, std::vector<UnitRuns> runs) {
    expected_[mode].runs = std::move(runs);
  }

  // What a step of this kind will probably be.
  const RecordedStep& Of(const StepKind& kind) const;

  // What is to be written of this kind; nullptr if there are too many.
  RecordedStep* Record(const StepKind& kind);

  // Schedules are made anew: the next step of each kind is served on demand, and learnt from.
  void Forget();

  // The calls of the last step of this kind, or else of the expected one; empty if neither is known.
  std::vector<Event> EventsOf(const StepKind& kind) const;

 private:
  static constexpr size_t kKindsMax = 128;

  std::map<StepKind, RecordedStep> known_;
  std::array<RecordedStep, 2> expected_;  // by mode
};

}  // namespace weft
