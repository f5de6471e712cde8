// One collective of a group over several islands: its schedule, what it needs of memory, and how far it is.
//
//   WEFT_ASSIGN_OR_RETURN(std::shared_ptr<SpanWork> work, SpanWork::Make(group, call, isa));
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

#include "absl/status/statusor.h"
#include "comm/engine/schedule_run.h"
#include "comm/group/callback_work.h"
#include "comm/group/collective.h"
#include "comm/hierarchy/span_call.h"
#include "comm/kernels/isa.h"

namespace weft {

class SpanGroup;

class SpanWork : public CallbackWork {
 public:
  static absl::StatusOr<std::shared_ptr<SpanWork>> Make(std::shared_ptr<SpanGroup> group,
                                                        const Collective& call, Isa isa);

  SpanWork(std::shared_ptr<SpanGroup> group, const Collective& call);

  bool Test() override;
  absl::Status Wait(int64_t timeout_ns) override;

  uint64_t sequence() const override { return sequence_; }

  const void* moved_with() const override;
  void LeaveToProgress() override;

  // The rest is for the group.

  void Begin(uint64_t sequence, int64_t deadline_ns);

  // Moves it; true if anything was moved.
  bool Step() { return run_->Step(); }

  bool done() const { return run_->done(); }

  const ScheduleRun& run() const { return *run_; }

  const Collective& call() const { return call_; }

  int64_t deadline_ns() const { return deadline_ns_; }

  // RunCallback() follows, with no lock held.
  void End(absl::Status status);

 private:
  const std::shared_ptr<SpanGroup> group_;
  const Collective call_;
  std::unique_ptr<SpanCall> span_call_;  // of call_
  uint64_t sequence_ = 0;
  int64_t deadline_ns_ = 0;
  std::optional<ScheduleRun> run_;
};

}  // namespace weft
