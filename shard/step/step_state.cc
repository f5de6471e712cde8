// Each call is checked completely before anything changes, for all units that it uses, so a refused call leaves no trace and
// the program may go on. Refusals are read by people who do not know this library's inside: they say what the unit has
// done, what to call instead, and which calls came before.
#include "shard/step/step_state.h"

#include <algorithm>

#include "base/status.h"
#include "base/text.h"

namespace weft {

StepState::StepState(const Registry& registry)
    : registry_(registry),
      units_(registry.units()),
      params_(registry.params().size()),
      calls_(registry) {}

absl::Status StepState::CheckQuiet(const char* call) const {
  if (phase_ == Phase::kIdle || phase_ == Phase::kFinished) return absl::OkStatus();
  return Refuse(call, call, "", "call it between steps or after finish");
}

absl::Status StepState::CheckSamples() const {
  if (phase_ != Phase::kMicrobatch || last_unit_ < 0) return absl::OkStatus();
  return NotInUse("check_samples", last_unit_,
                  "call it before the micro-batch uses its first unit, or "
                  "outside of micro-batches");
}

absl::Status StepState::StepBegin(weft_shard_mode_t mode, uint64_t tag) {
  const Event event{Event::Kind::kStepBegin};
  if (phase_ != Phase::kIdle) return BadState(event, "", NextCall());
  phase_ = Phase::kStep;
  mode_ = mode;
  tag_ = tag;
  ++step_;
  microbatch_ = -1;
  last_ = false;
  used_by_.reset();
  Accept(event);
  return absl::OkStatus();
}

absl::StatusOr<int> StepState::CheckJoin() const {
  const Event event{Event::Kind::kJoin};
  if (phase_ == Phase::kStep && !last_) return microbatch_ + 1;
  return BadState(event, "",
                  "call it after step_begin, in place of the step's micro-batches or of those that "
                  "follow");
}

void StepState::AbandonStep() {
  phase_ = Phase::kIdle;
  Accept({Event::Kind::kJoin});
}

absl::Status StepState::MicrobatchBegin(int index, bool last) {
  const Event event{Event::Kind::kMicrobatchBegin, index};
  if (phase_ == Phase::kStep && last_) {
    return BadState(event, StrCat("micro-batch ", microbatch_, " was begun as the step's last one"),
                    "pass last=False (0 in C) to all but the last, or call finish");
  }
  if (phase_ != Phase::kStep) return BadState(event, "", NextCall());
  if (index != microbatch_ + 1) {
    return BadState(event, StrCat("the next micro-batch is ", microbatch_ + 1),
                    "count micro-batches from 0 without gaps");
  }
  phase_ = Phase::kMicrobatch;
  microbatch_ = index;
  last_ = last;
  entering_backward_ = -1;
  last_unit_ = -1;
  units_.Reset();
  std::fill(params_.begin(), params_.end(), ParamPhase::kWaiting);
  Accept(event);
  return absl::OkStatus();
}

absl::Status StepState::PreForward(int unit) {
  const Event event{Event::Kind::kPreForward, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  for (const int used : units_.UsedBy(unit)) {
    if (units_.Of(used).phase == UnitTracker::Phase::kDone) {
      return BadState(event, UnitText(used), "recompute a unit before its post_backward");
    }
  }
  Accept(event);
  return absl::OkStatus();
}

absl::Status StepState::PostForward(int unit) {
  const Event event{Event::Kind::kPostForward, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  if (units_.Of(unit).own_uses == 0)
    return BadState(event, UnitText(unit), "call its pre_forward first");
  Accept(event);
  return absl::OkStatus();
}

absl::Status StepState::UnshardStart(int unit) {
  const Event event{Event::Kind::kUnshard, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  if (units_.Of(unit).unshard != UnitTracker::Unshard::kNone) {
    return BadState(event, StrCat("unit ", registry_.UnitName(unit), " is unsharded already"),
                    "call reshard first");
  }
  Accept(event);
  return absl::OkStatus();
}

absl::Status StepState::UnshardWait(int unit) const {
  const Event event{Event::Kind::kUnshardWait, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  if (units_.Of(unit).unshard != UnitTracker::Unshard::kNone) return absl::OkStatus();
  return BadState(event, StrCat("unit ", registry_.UnitName(unit), " is not being unsharded"),
                  "call unshard_start first");
}

void StepState::Unsharded(int unit) {
  units_.OnCall({Event::Kind::kUnshardWait, unit});
}

absl::Status StepState::Reshard(int unit) {
  const Event event{Event::Kind::kReshard, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  const UnitTracker::Unit& state = units_.Of(unit);
  if (state.unshard != UnitTracker::Unshard::kDone) {
    const bool started = state.unshard == UnitTracker::Unshard::kStarted;
    return BadState(event,
                    StrCat("unit ", registry_.UnitName(unit),
                           started ? " has not been waited for" : " is not unsharded"),
                    started ? "call unshard_wait first" : "call unshard_start first");
  }
  Accept(event);
  return absl::OkStatus();
}

absl::Status StepState::CheckPreBackward(const Event& call, int unit) const {
  const UnitTracker::Unit& state = units_.Of(unit);
  switch (state.phase) {
    case UnitTracker::Phase::kForwarded:
      return absl::OkStatus();
    case UnitTracker::Phase::kUntouched:
      return BadState(call, UnitText(unit), "call pre_forward and post_forward first");
    case UnitTracker::Phase::kForward:
      return BadState(call, UnitText(unit), "call post_forward first");
    case UnitTracker::Phase::kBackward:
      return BadState(call, UnitText(unit), "call post_backward first");
    case UnitTracker::Phase::kDone:
      break;
  }
  return BadState(
      call,
      StrCat(UnitText(unit), " ", state.runs.backwards,
             state.runs.backwards == 1 ? " time" : " times"),
      "run backward as often as forward, or as in the step before with this tag, and give "
      "steps that differ in that tags of their own");
}

absl::Status StepState::PreBackward(int unit) {
  const Event event{Event::Kind::kPreBackward, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  if (!training()) {
    return BadState(event, "the step is WEFT_SHARD_EVAL", "begin the step with WEFT_SHARD_TRAIN");
  }
  for (const int used : units_.UsedBy(unit))
    WEFT_RETURN_IF_ERROR(CheckPreBackward(event, used));
  for (const int used : units_.UsedBy(unit)) {
    const UnitSpec& spec = registry_.units()[static_cast<size_t>(used)];
    for (int param = spec.first_param; param < spec.first_param + spec.param_count; ++param)
      params_[static_cast<size_t>(param)] = ParamPhase::kWaiting;
  }
  entering_backward_ = unit;
  Accept(event);
  return absl::OkStatus();
}

void StepState::EnteredBackward() {
  entering_backward_ = -1;
}

absl::Status StepState::ClaimGradient(int param) {
  const Event event{Event::Kind::kGradReady, param};
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  if (spec.frozen) {
    return BadState(event, StrCat("parameter ", spec.name, " is frozen"),
                    "frozen parameters have no gradient");
  }
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  ParamPhase& phase = params_[static_cast<size_t>(param)];
  if (phase != ParamPhase::kWaiting) {
    return BadState(event, "its gradient was given, or said to be missing, in this backward",
                    "call grad_ready once per parameter and backward, when all of its gradient "
                    "is there");
  }
  WEFT_RETURN_IF_ERROR(RequireBackward(event, spec.unit));
  phase = ParamPhase::kClaimed;
  Accept(event);
  return absl::OkStatus();
}

bool StepState::GradientReady(int param) {
  const bool last = units_.LastBackward(registry_.params()[static_cast<size_t>(param)].unit);
  params_[static_cast<size_t>(param)] = last ? ParamPhase::kSettled : ParamPhase::kGiven;
  return last;
}

absl::Status StepState::CheckPostBackward(const Event& call, int unit) const {
  WEFT_RETURN_IF_ERROR(RequireBackward(call, unit));
  const UnitTracker::Unit& state = units_.Of(unit);
  if (state.backward_of != call.index) {
    return BadState(call,
                    StrCat("unit ", registry_.UnitName(unit), " is in the backward of unit ",
                           registry_.UnitName(state.backward_of)),
                    "end that one first, and call pre_backward before post_backward");
  }
  if (state.uses > 0) {
    return BadState(call, StrCat("unit ", registry_.UnitName(unit), " is being recomputed"),
                    "call post_forward first");
  }
  const UnitSpec& spec = registry_.units()[static_cast<size_t>(unit)];
  for (int param = spec.first_param; param < spec.first_param + spec.param_count; ++param) {
    if (params_[static_cast<size_t>(param)] == ParamPhase::kClaimed) {
      return BadState(call,
                      StrCat("grad_ready of ", registry_.params()[static_cast<size_t>(param)].name,
                             " is still running"),
                      "wait for the threads that hand over gradients");
    }
  }
  return absl::OkStatus();
}

absl::Status StepState::PostBackward(int unit, std::vector<int>& settled) {
  const Event event{Event::Kind::kPostBackward, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  for (const int used : units_.UsedBy(unit))
    WEFT_RETURN_IF_ERROR(CheckPostBackward(event, used));
  Accept(event);
  for (const int used : units_.UsedBy(unit)) {
    if (units_.Of(used).phase == UnitTracker::Phase::kDone) Settle(used, settled);
  }
  return absl::OkStatus();
}

absl::Status StepState::MicrobatchEnd(std::vector<int>& settled) {
  if (phase_ != Phase::kMicrobatch) {
    return Refuse("microbatch_end", "microbatch_end", "no micro-batch is under way", NextCall());
  }
  const Event event{Event::Kind::kMicrobatchEnd, microbatch_};
  const auto unit_count = static_cast<int>(units_.count());
  for (int unit = 0; unit < unit_count; ++unit) {
    const UnitTracker::Unit& state = units_.Of(unit);
    if (state.InBackward()) {
      return BadState(event, UnitText(unit), "call post_backward first");
    }
    if (state.uses > 0) return BadState(event, UnitText(unit), "call post_forward first");
    if (state.unshard != UnitTracker::Unshard::kNone) {
      return BadState(event, StrCat("unit ", registry_.UnitName(unit), " is unsharded"),
                      "call reshard first");
    }
  }
  phase_ = Phase::kStep;
  if (training()) {
    // From the last unit to the first, as backward would.
    for (int unit = unit_count - 1; unit >= 0; --unit)
      Settle(unit, settled);
  }
  Accept(event);
  return absl::OkStatus();
}

absl::Status StepState::CheckReduceWait(int unit) const {
  const Event event{Event::Kind::kReduceWait, unit};
  const bool running = phase_ == Phase::kMicrobatch || (phase_ == Phase::kStep && microbatch_ >= 0);
  if (!running || !training()) {
    return BadState(event, "",
                    "call it after post_backward of the unit in a WEFT_SHARD_TRAIN step");
  }
  if (units_.Of(unit).phase == UnitTracker::Phase::kDone) return absl::OkStatus();
  return BadState(event, UnitText(unit), "call it after the unit's last post_backward");
}

absl::Status StepState::FinishBegin() {
  const Event event{Event::Kind::kFinish};
  if (phase_ != Phase::kStep) return BadState(event, "", NextCall());
  if (training() && !last_) {
    return BadState(event, "no micro-batch of the step was begun with last = 1",
                    "run the last micro-batch first");
  }
  phase_ = Phase::kFinishing;
  Accept(event);
  return absl::OkStatus();
}

void StepState::FinishEnd() {
  phase_ = Phase::kFinished;
}

absl::Status StepState::CheckGradientNorm(bool used_too) const {
  const Event event{Event::Kind::kGradientNorm};
  if (phase_ != Phase::kFinished || !training()) {
    return BadState(event, "", "call it after finish of a WEFT_SHARD_TRAIN step");
  }
  if (!used_by_.has_value() || used_too) return absl::OkStatus();
  return BadState(event, UsedText(), "call it before");
}

absl::Status StepState::UseGradients(const Event& call) {
  if (phase_ != Phase::kFinished || !training()) {
    return BadState(call, "", "call it after finish of a WEFT_SHARD_TRAIN step");
  }
  if (used_by_.has_value()) return BadState(call, UsedText(), "end the step with step_end");
  used_by_ = call.kind;
  Accept(call);
  return absl::OkStatus();
}

bool StepState::AwaitsUpdate() const {
  return expects_updates_ && phase_ == Phase::kFinished && training() && !used_by_.has_value();
}

std::string StepState::UsedText() const {
  return StrCat(CallName(*used_by_), *used_by_ == Event::Kind::kDropGradients
                                         ? " has dropped the gradients"
                                         : " has used the gradients");
}

absl::StatusOr<bool> StepState::StepEnd() {
  const Event event{Event::Kind::kStepEnd};
  const bool finished = phase_ == Phase::kFinished;
  const bool eval_done = phase_ == Phase::kStep && !training();
  if (!finished && !eval_done) return BadState(event, "", NextCall());
  if (AwaitsUpdate()) return BadState(event, "nothing has used the step's gradients", NextCall());
  phase_ = Phase::kIdle;
  Accept(event);
  return finished;
}

std::string StepState::PhaseText() const {
  const std::string step = StrCat("step ", step_, training() ? "" : " (eval)");
  switch (phase_) {
    case Phase::kIdle:
      return "between steps";
    case Phase::kStep:
      if (microbatch_ < 0) return StrCat("in ", step, " before its first micro-batch");
      return StrCat("in ", step, " after micro-batch ", microbatch_, last_ ? ", its last" : "");
    case Phase::kMicrobatch:
      return StrCat("in micro-batch ", microbatch_, " of ", step);
    case Phase::kFinishing:
      return StrCat("in finish of ", step);
    case Phase::kFinished:
      return StrCat("in ", step, " after finish");
  }
  return "";
}

std::string StepState::NextCall() const {
  switch (phase_) {
    case Phase::kIdle:
      return "begin a step with step_begin";
    case Phase::kStep:
      return last_ ? "call finish" : "begin the next micro-batch with microbatch_begin";
    case Phase::kMicrobatch:
      return "end the micro-batch with microbatch_end";
    case Phase::kFinishing:
    case Phase::kFinished:
      break;
  }
  return AwaitsUpdate() ? "update the params with optimizer_step, or give the gradients up with "
                          "drop_gradients"
                        : "end the step with step_end";
}

std::string StepState::UnitText(int unit) const {
  const UnitTracker::Unit& state = units_.Of(unit);
  std::string name = StrCat("unit ", registry_.UnitName(unit));
  // What is known of units is of a micro-batch of this step.
  const bool in_step = phase_ == Phase::kMicrobatch || phase_ == Phase::kStep;
  if (!in_step || microbatch_ < 0) return StrCat(name, " is not in use");
  switch (state.phase) {
    case UnitTracker::Phase::kUntouched:
      return StrCat(name, " was not used in this micro-batch");
    case UnitTracker::Phase::kForward:
      return StrCat(name, " is in forward");
    case UnitTracker::Phase::kForwarded:
      return StrCat(name, " has done forward");
    case UnitTracker::Phase::kBackward:
      return StrCat(name, " is in backward");
    case UnitTracker::Phase::kDone:
      return StrCat(name, " has done backward");
  }
  return name;
}

absl::Status StepState::BadState(const Event& call, std::string_view found,
                                 std::string_view advice) const {
  std::string text = calls_.TextOf(call);
  if (call.kind == Event::Kind::kGradReady) {
    const int unit = registry_.params()[static_cast<size_t>(call.index)].unit;
    absl::StrAppend(&text, " of unit ", registry_.UnitName(unit));
  }
  return Refuse(CallName(call.kind), text, found, advice);
}

absl::Status StepState::Refuse(const char* call, std::string_view text, std::string_view found,
                               std::string_view advice) const {
  const std::string phase = StrCat("the context is ", PhaseText());
  return MakeError(
      WEFT_BAD_STATE, {.operation = call},
      StrCat(text, " is not legal here: ", found.empty() ? phase : StrCat(found, " (", phase, ")"),
             "; ", advice, "; last events: ", calls_.List()));
}

absl::Status StepState::RequireMicrobatch(const Event& call) const {
  if (phase_ == Phase::kMicrobatch) return absl::OkStatus();
  return BadState(call, "no micro-batch is under way", NextCall());
}

absl::Status StepState::RequireBackward(const Event& call, int unit) const {
  const UnitTracker::Phase phase = units_.Of(unit).phase;
  if (phase == UnitTracker::Phase::kBackward) return absl::OkStatus();
  return BadState(call, UnitText(unit),
                  phase == UnitTracker::Phase::kDone ? "call it before post_backward"
                                                     : "call pre_backward first");
}

void StepState::Settle(int unit, std::vector<int>& settled) {
  const UnitSpec& spec = registry_.units()[static_cast<size_t>(unit)];
  for (int param = spec.first_param + spec.param_count - 1; param >= spec.first_param; --param) {
    ParamPhase& phase = params_[static_cast<size_t>(param)];
    if (phase == ParamPhase::kSettled) continue;
    phase = ParamPhase::kSettled;
    if (!registry_.params()[static_cast<size_t>(param)].frozen) settled.push_back(param);
  }
}

bool StepState::AwaitsGradients() const {
  const auto unit_count = static_cast<int>(units_.count());
  for (int unit = 0; unit < unit_count; ++unit) {
    const UnitTracker::Unit& state = units_.Of(unit);
    if (!state.InBackward() || state.backward_of == entering_backward_) continue;
    const UnitSpec& spec = registry_.units()[static_cast<size_t>(unit)];
    for (int param = spec.first_param; param < spec.first_param + spec.param_count; ++param) {
      const bool open = params_[static_cast<size_t>(param)] != ParamPhase::kSettled;
      if (open && !registry_.params()[static_cast<size_t>(param)].frozen) return true;
    }
  }
  return false;
}

absl::Status StepState::NotInUse(const char* call, int unit, std::string_view advice) const {
  return WithSubject(
      Refuse(call, StrCat(call, " ", registry_.UnitName(unit)), UnitText(unit), advice),
      registry_.UnitName(unit), {});
}

void StepState::Accept(const Event& event) {
  units_.OnCall(event);
  if (event.UsesUnit()) last_unit_ = event.index;
  calls_.Add(event);
}

}  // namespace weft
