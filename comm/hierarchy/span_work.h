// One collective of a group over several islands: its schedule, what it needs of memory, and how far it is.
//
//   auto work = std::make_shared<SpanWork>(group, call, plan);
//   work->Begin(sequence, deadline_ns);               // its place in the group
//   ... group: work->Step(), until it has ended
//
// Every rank is a participant of the schedule by itself. What all must agree on is in the signature that its messages carry.
//
// Thread-safety: as Work; Begin, Step and End under the group's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "comm/engine/schedule_run.h"
#include "comm/group/callback_work.h"
#include "comm/group/collective.h"
#include "comm/hierarchy/span_call.h"
#include "comm/hierarchy/span_plan.h"
#include "comm/recorder/ring.h"

namespace weft {

class SpanGroup;

class SpanWork : public CallbackWork {
 public:
  SpanWork(std::shared_ptr<SpanGroup> group, const Collective& call,
           std::shared_ptr<SpanPlan> plan);

  bool Test() override;
  absl::Status Wait(int64_t timeout_ns) override;

  uint64_t sequence() const override { return sequence_; }

  // As the flight recorder has it, and the other ranks see it where their call is another one.
  const RecordedArguments& recorded() const { return recorded_; }

  const void* moved_with() const override;
  void LeaveToProgress() override;

  // The rest is for the group.

  void Begin(uint64_t sequence, int64_t deadline_ns);

  // Moves it; true if anything was moved.
  bool Step() { return run_->engine.Step(); }

  bool done() const { return run_->engine.done(); }

  const ScheduleRun& run() const { return run_->engine; }

  const Collective& call() const { return call_; }

  int64_t deadline_ns() const { return deadline_ns_; }

  // RunCallback() follows, with no lock held.
  void End(const absl::Status& status);

 private:
  const std::shared_ptr<SpanGroup> group_;
  const Collective call_;
  const std::shared_ptr<SpanPlan> plan_;
  std::optional<SpanCall> span_call_;  // of call_
  uint64_t sequence_ = 0;
  RecordedArguments recorded_;
  int64_t deadline_ns_ = 0;
  std::unique_ptr<SpanRun> run_;
};

}  // namespace weft
