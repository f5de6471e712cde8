// The calls of a step, in the order that include/weft/shard.h asks for: gathers params before they are used, hands gradients on
// to be reduced, and ends the step when all ranks have.
//
//   StepDriver steps(core);
//   steps.Begin(WEFT_SHARD_TRAIN, tag);
//   steps.MicrobatchBegin(0, /*last=*/true);
//   ... PreForward(unit), PostForward(unit), PreBackward(unit), GradReady(param), PostBackward(unit) ...
//   steps.MicrobatchEnd();
//   steps.Finish();
//   steps.End();
//
// Every call is checked (StepState) and recorded before anything is done for it, then served: what it needs is waited
// for without the mutex, and what the schedule prefetches behind it is started.
//
// Thread-safety: GradReady from any thread, the rest from one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/context/context_core.h"
#include "shard/context/gradient_reducer.h"
#include "shard/context/order_agreement.h"
#include "shard/step/step_clock.h"

namespace weft {

class StepDriver {
 public:
  // `core` outlives this.
  explicit StepDriver(ContextCore& core) : core_(core), reducer_(core), order_(core) {}

  absl::Status Begin(weft_shard_mode_t mode, uint64_t tag);
  // In place of all micro-batches of a step for which this rank has no data: makes the calls that the others are
  // expected to make, with gradients of zero. Returns how many ranks have data; 0 ends the step. Collective with
  // their first MicrobatchBegin.
  absl::StatusOr<int> Join();
  absl::Status MicrobatchBegin(int index, bool last);
  absl::Status PreForward(int unit);
  absl::Status PostForward(int unit);
  absl::Status UnshardStart(int unit);
  absl::Status UnshardWait(int unit);
  absl::Status Reshard(int unit);
  absl::Status PreBackward(int unit);
  absl::Status GradReady(int param, const void* grad);
  absl::Status PostBackward(int unit);

  absl::Status ReduceWait(int unit) { return reducer_.WaitForUnit(unit); }

  absl::Status MicrobatchEnd();
  absl::StatusOr<weft_shard_step_result_t> Finish();
  // True if the step was one of training.
  absl::StatusOr<bool> End();

  // The calls of a step's micro-batches, in this order, without gradients.
  absl::Status Walk(const std::vector<Event>& events);

  StepClock& clock() { return clock_; }

 private:
  using Ask = absl::StatusOr<Works> (UnshardManager::*)(int unit);

  // A call that is legal: it is recorded, and the schedule is left if it has another one here.
  absl::Status OnCall(const Event& event) WEFT_REQUIRES(core_.mutex);
  // The call is served: what the schedule prefetches now is started.
  absl::Status OnServed() WEFT_REQUIRES(core_.mutex);
  // What pre_backward waits for.
  absl::Status EnterBackward(int unit);
  // UnshardManager::Begin or Need, of all units whose params the unit uses: what to wait for before asking again.
  absl::StatusOr<Works> AskForUsed(int unit, Ask ask) WEFT_REQUIRES(core_.mutex);
  // Asks until there is nothing to wait for, which `works` is first.
  absl::Status WaitForUsed(int unit, Ask ask, Works works = {});
  // Of the units whose params the unit used, those that nothing keeps unsharded.
  absl::Status ReshardUsed(int unit, bool in_backward) WEFT_REQUIRES(core_.mutex);
  // Waits until the gradients of the unit's buckets have their place.
  absl::Status MakeGradients(int unit);
  // Waits for the places of gradients of buckets that no unit ran backward for.
  absl::Status MakeUntouched();
  // The calls that other ranks will make in the step that has begun, as far as anybody knows.
  std::vector<Event> ExpectedCalls() const WEFT_REQUIRES(core_.mutex);
  // Of an evaluation without finish, for whoever joins the next one.
  void RememberCalls() WEFT_REQUIRES(core_.mutex);

  Runtime& runtime() const { return core_.runtime(); }

  StepState& state() const { return core_.runtime().state; }

  ContextCore& core_;
  GradientReducer reducer_;
  OrderAgreement order_;
  StepClock clock_;
  bool joined_ = false;  // it walks through a step without data
  int64_t gather_waited_ns_ = 0;
};

}  // namespace weft
