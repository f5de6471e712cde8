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

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/context/context_core.h"
#include "shard/context/gradient_reducer.h"
#include "shard/context/order_agreement.h"
#include "shard/step/step_clock.h"

namespace weft {

// Memory of the caller's for a unit's params while they are unsharded.
struct UnshardDestination {
  void* data = nullptr;  // nullptr: none
  size_t bytes = 0;
};

class StepDriver {
 public:
  // `core` outlives this.
  explicit StepDriver(ContextCore& core) : core_(core), reducer_(core), order_(core) {}

  absl::Status Begin(weft_shard_mode_t mode, uint64_t tag);
  // In place of the micro-batches of a step that this rank has no data for, all or those that follow: makes the calls that the
  // others are expected to make, with gradients of zero. Returns how many ranks have data; 0 ends the step. In place of all it is
  // collective with the others' first MicrobatchBegin.
  absl::StatusOr<int> Join();
  absl::Status MicrobatchBegin(int index, bool last);
  absl::Status PreForward(int unit);
  absl::Status PostForward(int unit);
  // `destination` is where the params are to be until Reshard, nullptr: in the pool. Errors beside those of the step:
  // INVALID_ARGUMENT if they are not sharded, BAD_STATE.
  absl::Status UnshardStart(int unit, const UnshardDestination& destination = {});
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

  StepClock& clock() { return clock_; }

 private:
  using Ask = absl::StatusOr<Works> (UnshardManager::*)(int unit);

  // A call that is legal: it is recorded, and the schedule is left if it has another one here.
  absl::Status OnCall(const Event& event) WEFT_REQUIRES(core_.mutex);
  // The call is served: what the schedule prefetches now is started.
  absl::Status OnServed() WEFT_REQUIRES(core_.mutex);
  // The unit, and those that have params that it uses, can be unsharded without anybody who is in use having to go.
  absl::Status CheckPlaces(const char* call, int unit) const WEFT_REQUIRES(core_.mutex);
  // The destination is one for the unit's params.
  absl::Status CheckDestination(int unit, const UnshardDestination& destination) const;
  // What pre_backward waits for.
  absl::Status EnterBackward(int unit);
  // UnshardManager::Begin or Need, of all units whose params the unit uses: what to wait for before asking again.
  absl::StatusOr<Works> AskForUsed(int unit, Ask ask) WEFT_REQUIRES(core_.mutex);
  // Asks until there is nothing to wait for, which `works` is first.
  absl::Status WaitForUsed(int unit, Ask ask, Works works = {});
  // Reshards the units whose params the unit used and that nothing keeps unsharded.
  absl::Status ReshardUsed(int unit, bool in_backward) WEFT_REQUIRES(core_.mutex);
  // Waits until the gradients of the unit's buckets have their place.
  absl::Status MakeGradients(int unit);
  // Waits for the places of gradients of buckets that no unit ran backward for.
  absl::Status MakeUntouched();
  // The calls that other ranks will make in the step that has begun, as far as anybody knows.
  std::vector<Event> ExpectedCalls() const WEFT_REQUIRES(core_.mutex);
  // The calls of a step's micro-batches, in this order and from micro-batch `first` on, without gradients.
  absl::Status Walk(std::span<const Event> events, int first);
  // Remembers the calls of an evaluation without finish, for whoever joins the next one.
  void RememberCalls() WEFT_REQUIRES(core_.mutex);

  Runtime& runtime() const { return core_.runtime(); }

  StepState& state() const { return core_.runtime().state; }

  ContextCore& core_;
  GradientReducer reducer_;
  OrderAgreement order_;
  StepClock clock_;
  bool joined_ = false;   // it walks through a step without data
  int active_ranks_ = 0;  // with data, of the present step, if the context is uneven
  int64_t gather_waited_ns_ = 0;
};

}  // namespace weft
