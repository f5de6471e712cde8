// Which call is legal now: the state machine of a step, its micro-batches, units and params.
//
//   idle --step_begin--> in step --microbatch_begin--> in micro-batch --microbatch_end--> in step
//        --(after the last one) finish--> finished --step_end--> idle
//   finished, of training and in a context with an optimizer: optimizer_step or drop_gradients, once, before step_end
//   unit, per micro-batch:  untouched -> forward (counted) -> forwarded -> backward -> done
//                                                             ^-----------'
//
// A unit that runs forward several times may run backward as often; its gradients are complete after the last
// backward that is expected: as many as in the recorded step, or as many as forwards if it had none, or fewer
// forwards than there are now.
// Every member checks one call and, if it is legal, makes its transition. An illegal one changes
// nothing and returns WEFT_BAD_STATE with the unit, the phase, what to do and the last 8 events.
// pre_forward and post_forward during a unit's backward are activation recompute: no phase changes.
// A call of a unit with tied params is legal if it is for all units whose params it uses.
// What has happened to units is kept by a UnitTracker; here are the rules, and nowhere else.
// A unit may be unsharded at any time of a micro-batch, until it is resharded; no phase changes.
//
// Thread-safety: none of its own; the context's mutex guards it. Sends and allocates nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/layout/registry.h"
#include "shard/step/event.h"
#include "shard/step/recent_calls.h"
#include "shard/step/unit_tracker.h"

namespace weft {

class StepState {
 public:
  // `registry` outlives this and no longer changes.
  explicit StepState(const Registry& registry);

  // Before the first step: the context has an optimizer, so a step of training ends after optimizer_step or drop_gradients.
  void ExpectUpdates() { expects_updates_ = true; }

  // Legal between steps and after finish.
  absl::Status CheckQuiet(const char* call) const;
  // Legal outside of micro-batches, and before a micro-batch uses anything: then all ranks have started the same
  // reductions.
  absl::Status CheckSamples() const;

  absl::Status StepBegin(weft_shard_mode_t mode, uint64_t tag);
  // Joining takes the place of the step's micro-batches, or of those after the ones that have been made, whose number this
  // returns; abandoning ends a step before its first one.
  absl::StatusOr<int> CheckJoin() const;
  void AbandonStep();
  absl::Status MicrobatchBegin(int index, bool last);
  absl::Status PreForward(int unit);
  absl::Status PostForward(int unit);
  absl::Status PreBackward(int unit);
  void EnteredBackward();  // that call has returned
  absl::Status UnshardStart(int unit);
  absl::Status UnshardWait(int unit) const;
  void Unsharded(int unit);  // it has been waited for
  absl::Status Reshard(int unit);
  // The gradient is being handed over (claimed) and then there (ready). Between the two no lock
  // need be held. GradientReady is true if no more of it is expected in this micro-batch.
  absl::Status ClaimGradient(int param);
  bool GradientReady(int param);
  // Adds to `settled` the trainable params of the unit whose gradient is now complete or missing.
  absl::Status PostBackward(int unit, std::vector<int>& settled);
  // Adds to `settled` those of all units.
  absl::Status MicrobatchEnd(std::vector<int>& settled);
  // Ok if the unit has done backward in a training step that is not finished.
  absl::Status CheckReduceWait(int unit) const;
  absl::Status FinishBegin();
  void FinishEnd();
  // Ok after finish of a step of training, and unless `used_too` before optimizer_step or drop_gradients, which use the
  // gradients up.
  absl::Status CheckGradientNorm(bool used_too = false) const;

  absl::Status OptimizerStep() { return UseGradients({Event::Kind::kOptimizerStep}); }

  absl::Status DropGradients() { return UseGradients({Event::Kind::kDropGradients}); }

  // True if the step was finished: an EVAL step need not be.
  absl::StatusOr<bool> StepEnd();

  // How often each unit runs in a micro-batch, from here on; empty: backward as often as forward.
  void ExpectRuns(std::vector<UnitRuns> runs) { units_.ExpectRuns(std::move(runs)); }

  // What has happened to each unit in this micro-batch.
  const UnitTracker& units() const { return units_; }

  // Gradients may still be given in this micro-batch: of a unit in backward whose pre_backward has returned.
  bool AwaitsGradients() const;

  // The last call that was legal, "pre_forward block.3"; empty if there was none.
  std::string LastCall() const { return calls_.Last(); }

  // BAD_STATE in words of this state machine: `call` needs the unit to be in use.
  absl::Status NotInUse(const char* call, int unit, std::string_view advice) const;

  // What the step under way is.
  StepKind kind() const { return {mode_, tag_}; }

  bool training() const { return mode_ == WEFT_SHARD_TRAIN; }

  bool last_microbatch() const { return last_; }

  // Counted from 1; 0 before the first. A checkpoint that is restored sets it between steps.
  int64_t& step() { return step_; }

 private:
  enum class Phase : uint8_t { kIdle, kStep, kMicrobatch, kFinishing, kFinished };
  // Given: there, and more may come. Settled: complete or missing.
  enum class ParamPhase : uint8_t { kWaiting, kClaimed, kGiven, kSettled };

  std::string PhaseText() const;
  // What moves the step on from where it is.
  std::string NextCall() const;
  std::string UnitText(int unit) const;
  // `found` empty: the phase says it.
  absl::Status BadState(const Event& call, std::string_view found, std::string_view advice) const;
  // For a call that has no event: `text` is the call with what it is about.
  absl::Status Refuse(const char* call, std::string_view text, std::string_view found,
                      std::string_view advice) const;
  absl::Status RequireMicrobatch(const Event& call) const;
  absl::Status RequireBackward(const Event& call, int unit) const;
  absl::Status CheckPreBackward(const Event& call, int unit) const;
  absl::Status CheckPostBackward(const Event& call, int unit) const;
  absl::Status UseGradients(const Event& call);
  // A finished step of training whose gradients wait for optimizer_step or drop_gradients.
  bool AwaitsUpdate() const;
  // What has become of the gradients.
  std::string UsedText() const;

  void Settle(int unit, std::vector<int>& settled);
  // The call is legal: it changes what is known of units, and is remembered for messages.
  void Accept(const Event& event);

  const Registry& registry_;
  Phase phase_ = Phase::kIdle;
  weft_shard_mode_t mode_ = WEFT_SHARD_TRAIN;
  uint64_t tag_ = 0;
  int64_t step_ = 0;
  int microbatch_ = -1;  // the present or last one of this step
  bool last_ = false;    // it is the step's last one
  bool expects_updates_ = false;
  std::optional<Event::Kind> used_by_;  // of this step's gradients
  int entering_backward_ = -1;          // the unit whose pre_backward has not returned
  int last_unit_ = -1;                  // the last that a call of this micro-batch was about
  UnitTracker units_;
  std::vector<ParamPhase> params_;
  RecentCalls calls_;
};

}  // namespace weft
