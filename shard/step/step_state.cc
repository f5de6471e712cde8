#include "shard/step/step_state.h"

#include <algorithm>

#include "base/status.h"
#include "base/text.h"

namespace weft {

StepState::StepState(const Registry& registry)
    : registry_(registry), units_(registry.units().size()), params_(registry.params().size()) {}

absl::Status StepState::CheckQuiet(const char* call) const {
  if (phase_ == Phase::kIdle || phase_ == Phase::kFinished) return absl::OkStatus();
  return BadState({call}, "", "call it between steps or after finish");
}

absl::Status StepState::StepBegin(weft_shard_mode_t mode, uint64_t tag) {
  const Event event{"step_begin"};
  if (phase_ != Phase::kIdle) return BadState(event, "", NextCall());
  phase_ = Phase::kStep;
  mode_ = mode;
  tag_ = tag;
  ++step_;
  microbatch_ = -1;
  last_ = false;
  updated_ = false;
  Record(event);
  return absl::OkStatus();
}

absl::Status StepState::CheckJoin() const {
  const Event event{"join"};
  if (phase_ == Phase::kStep && microbatch_ < 0) return absl::OkStatus();
  return BadState(event, "", "call it after step_begin, in place of the step's micro-batches");
}

void StepState::AbandonStep() {
  phase_ = Phase::kIdle;
  Record({"join"});
}

absl::Status StepState::MicrobatchBegin(int index, bool last) {
  const Event event{"microbatch_begin", Event::Kind::kMicrobatch, index};
  if (phase_ != Phase::kStep || last_) return BadState(event, "", NextCall());
  if (index != microbatch_ + 1) {
    return BadState(event, StrCat("the next micro-batch is ", microbatch_ + 1),
                    "count micro-batches from 0 without gaps");
  }
  phase_ = Phase::kMicrobatch;
  microbatch_ = index;
  last_ = last;
  entering_backward_ = -1;
  std::fill(units_.begin(), units_.end(), UnitState());
  std::fill(params_.begin(), params_.end(), ParamPhase::kWaiting);
  Record(event);
  return absl::OkStatus();
}

absl::Status StepState::CheckPreForward(const Event& call, int unit) const {
  const UnitState& state = units_[static_cast<size_t>(unit)];
  if (state.phase != UnitPhase::kDone) return absl::OkStatus();
  return BadState(call, UnitText(unit), "recompute a unit before its post_backward");
}

absl::Status StepState::PreForward(int unit) {
  const Event event{"pre_forward", Event::Kind::kUnit, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  for (const int used : UsedBy(unit))
    WEFT_RETURN_IF_ERROR(CheckPreForward(event, used));
  for (const int used : UsedBy(unit)) {
    UnitState& state = units_[static_cast<size_t>(used)];
    ++state.uses;
    if (state.phase != UnitPhase::kBackward) state.phase = UnitPhase::kForward;
  }
  ++units_[static_cast<size_t>(unit)].own_uses;
  Record(event);
  return absl::OkStatus();
}

absl::Status StepState::PostForward(int unit) {
  const Event event{"post_forward", Event::Kind::kUnit, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  int& own_uses = units_[static_cast<size_t>(unit)].own_uses;
  if (own_uses == 0) return BadState(event, UnitText(unit), "call its pre_forward first");
  --own_uses;
  for (const int used : UsedBy(unit)) {
    UnitState& state = units_[static_cast<size_t>(used)];
    --state.uses;
    if (state.uses > 0 || state.phase != UnitPhase::kForward) continue;
    state.phase = UnitPhase::kForwarded;
    ++state.forwards;
  }
  Record(event);
  return absl::OkStatus();
}

absl::Status StepState::UnshardStart(int unit) {
  const Event event{"unshard_start", Event::Kind::kUnit, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  UnitState& state = units_[static_cast<size_t>(unit)];
  if (state.unshard != Unshard::kNone) {
    return BadState(event, StrCat("unit ", UnitName(unit), " is unsharded already"),
                    "call reshard first");
  }
  state.unshard = Unshard::kStarted;
  for (const int used : UsedBy(unit))
    ++units_[static_cast<size_t>(used)].unshards;
  Record(event);
  return absl::OkStatus();
}

absl::Status StepState::UnshardWait(int unit) const {
  const Event event{"unshard_wait", Event::Kind::kUnit, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  if (units_[static_cast<size_t>(unit)].unshard != Unshard::kNone) return absl::OkStatus();
  return BadState(event, StrCat("unit ", UnitName(unit), " is not being unsharded"),
                  "call unshard_start first");
}

void StepState::Unsharded(int unit) {
  Unshard& unshard = units_[static_cast<size_t>(unit)].unshard;
  if (unshard == Unshard::kDone) return;
  unshard = Unshard::kDone;
  for (const int used : UsedBy(unit))
    ++units_[static_cast<size_t>(used)].unshards_done;
}

absl::Status StepState::Reshard(int unit) {
  const Event event{"reshard", Event::Kind::kUnit, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  UnitState& state = units_[static_cast<size_t>(unit)];
  if (state.unshard != Unshard::kDone) {
    const bool started = state.unshard == Unshard::kStarted;
    return BadState(
        event,
        StrCat("unit ", UnitName(unit), started ? " has not been waited for" : " is not unsharded"),
        started ? "call unshard_wait first" : "call unshard_start first");
  }
  state.unshard = Unshard::kNone;
  for (const int used : UsedBy(unit)) {
    --units_[static_cast<size_t>(used)].unshards;
    --units_[static_cast<size_t>(used)].unshards_done;
  }
  Record(event);
  return absl::OkStatus();
}

absl::Status StepState::CheckPreBackward(const Event& call, int unit) const {
  const UnitState& state = units_[static_cast<size_t>(unit)];
  switch (state.phase) {
    case UnitPhase::kForwarded:
      return absl::OkStatus();
    case UnitPhase::kUntouched:
      return BadState(call, UnitText(unit), "call pre_forward and post_forward first");
    case UnitPhase::kForward:
      return BadState(call, UnitText(unit), "call post_forward first");
    case UnitPhase::kBackward:
      return BadState(call, UnitText(unit), "call post_backward first");
    case UnitPhase::kDone:
      break;
  }
  return BadState(
      call, StrCat(UnitText(unit), " ", state.backwards, state.backwards == 1 ? " time" : " times"),
      "run backward as often as forward, or as in the step before with this tag, and give "
      "steps that differ in that tags of their own");
}

absl::Status StepState::PreBackward(int unit) {
  const Event event{"pre_backward", Event::Kind::kUnit, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  if (!training()) {
    return BadState(event, "the step is WEFT_SHARD_EVAL", "begin the step with WEFT_SHARD_TRAIN");
  }
  for (const int used : UsedBy(unit))
    WEFT_RETURN_IF_ERROR(CheckPreBackward(event, used));
  for (const int used : UsedBy(unit)) {
    units_[static_cast<size_t>(used)].phase = UnitPhase::kBackward;
    units_[static_cast<size_t>(used)].backward_of = unit;
    const UnitSpec& spec = registry_.units()[static_cast<size_t>(used)];
    for (int param = spec.first_param; param < spec.first_param + spec.param_count; ++param)
      params_[static_cast<size_t>(param)] = ParamPhase::kWaiting;
  }
  entering_backward_ = unit;
  Record(event);
  return absl::OkStatus();
}

void StepState::EnteredBackward() {
  entering_backward_ = -1;
}

absl::Status StepState::ClaimGradient(int param) {
  const Event event{"grad_ready", Event::Kind::kParam, param};
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
  Record(event);
  return absl::OkStatus();
}

bool StepState::GradientReady(int param) {
  const bool last = LastBackward(registry_.params()[static_cast<size_t>(param)].unit);
  params_[static_cast<size_t>(param)] = last ? ParamPhase::kSettled : ParamPhase::kGiven;
  return last;
}

bool StepState::LastBackward(int unit) const {
  const UnitState& state = units_[static_cast<size_t>(unit)];
  const UnitRuns recorded = expected_.empty() ? UnitRuns() : expected_[static_cast<size_t>(unit)];
  // A unit that runs more often than it did is not over when it used to be.
  const bool as_recorded = recorded.backwards > 0 && state.forwards <= recorded.forwards;
  return state.backwards + 1 >= (as_recorded ? recorded.backwards : state.forwards);
}

absl::Status StepState::CheckPostBackward(const Event& call, int unit) const {
  WEFT_RETURN_IF_ERROR(RequireBackward(call, unit));
  const UnitState& state = units_[static_cast<size_t>(unit)];
  if (state.backward_of != call.index) {
    return BadState(call,
                    StrCat("unit ", UnitName(unit), " is in the backward of unit ",
                           UnitName(state.backward_of)),
                    "end that one first, and call pre_backward before post_backward");
  }
  if (state.uses > 0) {
    return BadState(call, StrCat("unit ", UnitName(unit), " is being recomputed"),
                    "call post_forward first");
  }
  const UnitSpec& spec = registry_.units()[static_cast<size_t>(unit)];
  for (int param = spec.first_param; param < spec.first_param + spec.param_count; ++param) {
    if (params_[static_cast<size_t>(param)] == ParamPhase::kClaimed) {
      return BadState(call, StrCat("grad_ready of ", ParamName(param), " is still running"),
                      "wait for the threads that hand over gradients");
    }
  }
  return absl::OkStatus();
}

absl::Status StepState::PostBackward(int unit, std::vector<int>& settled) {
  const Event event{"post_backward", Event::Kind::kUnit, unit};
  WEFT_RETURN_IF_ERROR(RequireMicrobatch(event));
  for (const int used : UsedBy(unit))
    WEFT_RETURN_IF_ERROR(CheckPostBackward(event, used));
  for (const int used : UsedBy(unit)) {
    UnitState& state = units_[static_cast<size_t>(used)];
    const bool last = LastBackward(used);
    ++state.backwards;
    state.phase = last ? UnitPhase::kDone : UnitPhase::kForwarded;
    if (last) Settle(used, settled);
  }
  Record(event);
  return absl::OkStatus();
}

absl::Status StepState::MicrobatchEnd(std::vector<int>& settled) {
  WEFT_RETURN_IF_ERROR(RequireMicrobatch({"microbatch_end"}));
  const Event event{"microbatch_end", Event::Kind::kMicrobatch, microbatch_};
  for (size_t i = 0; i < units_.size(); ++i) {
    const int unit = static_cast<int>(i);
    if (units_[i].phase == UnitPhase::kBackward) {
      return BadState(event, UnitText(unit), "call post_backward first");
    }
    if (units_[i].uses > 0) return BadState(event, UnitText(unit), "call post_forward first");
    if (units_[i].unshard != Unshard::kNone) {
      return BadState(event, StrCat("unit ", UnitName(unit), " is unsharded"),
                      "call reshard first");
    }
  }
  phase_ = Phase::kStep;
  if (training()) {
    // From the last unit to the first, as backward would.
    for (size_t i = units_.size(); i > 0; --i)
      Settle(static_cast<int>(i - 1), settled);
  }
  Record(event);
  return absl::OkStatus();
}

absl::Status StepState::CheckReduceWait(int unit) const {
  const Event event{"reduce_wait", Event::Kind::kUnit, unit};
  const bool running = phase_ == Phase::kMicrobatch || (phase_ == Phase::kStep && microbatch_ >= 0);
  if (!running || !training()) {
    return BadState(event, "",
                    "call it after post_backward of the unit in a WEFT_SHARD_TRAIN step");
  }
  if (units_[static_cast<size_t>(unit)].phase == UnitPhase::kDone) return absl::OkStatus();
  return BadState(event, UnitText(unit), "call it after the unit's last post_backward");
}

absl::Status StepState::FinishBegin() {
  const Event event{"finish"};
  if (phase_ != Phase::kStep) return BadState(event, "", NextCall());
  if (training() && !last_) {
    return BadState(event, "no micro-batch of the step was begun with last = 1",
                    "run the last micro-batch first");
  }
  phase_ = Phase::kFinishing;
  Record(event);
  return absl::OkStatus();
}

void StepState::FinishEnd() {
  phase_ = Phase::kFinished;
}

absl::Status StepState::OptimizerStep() {
  const Event event{"optimizer_step"};
  if (phase_ != Phase::kFinished || !training()) {
    return BadState(event, "", "call it after finish of a WEFT_SHARD_TRAIN step");
  }
  if (updated_)
    return BadState(event, "this step was updated already", "end the step with step_end");
  updated_ = true;
  Record(event);
  return absl::OkStatus();
}

absl::Status StepState::StepEnd() {
  const Event event{"step_end"};
  const bool eval_done = phase_ == Phase::kStep && !training();
  if (phase_ != Phase::kFinished && !eval_done) return BadState(event, "", NextCall());
  phase_ = Phase::kIdle;
  Record(event);
  return absl::OkStatus();
}

const std::string& StepState::UnitName(int unit) const {
  return registry_.units()[static_cast<size_t>(unit)].name;
}

const std::string& StepState::ParamName(int param) const {
  return registry_.params()[static_cast<size_t>(param)].name;
}

std::string StepState::SubjectOf(const Event& event) const {
  switch (event.kind) {
    case Event::Kind::kNone:
      return "";
    case Event::Kind::kUnit:
      return StrCat(" ", UnitName(event.index));
    case Event::Kind::kParam:
      return StrCat(" ", ParamName(event.index));
    case Event::Kind::kMicrobatch:
      return StrCat(" ", event.index);
  }
  return "";
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
    default:
      return "end the step with step_end";
  }
}

std::string StepState::UnitText(int unit) const {
  const UnitState& state = units_[static_cast<size_t>(unit)];
  std::string name = StrCat("unit ", UnitName(unit));
  // What is known of units is of a micro-batch of this step.
  const bool in_step = phase_ == Phase::kMicrobatch || phase_ == Phase::kStep;
  if (!in_step || microbatch_ < 0) return StrCat(name, " is not in use");
  switch (state.phase) {
    case UnitPhase::kUntouched:
      return StrCat(name, " was not used in this micro-batch");
    case UnitPhase::kForward:
      return StrCat(name, " is in forward");
    case UnitPhase::kForwarded:
      return StrCat(name, " has done forward");
    case UnitPhase::kBackward:
      return StrCat(name, " is in backward");
    case UnitPhase::kDone:
      return StrCat(name, " has done backward");
  }
  return name;
}

absl::Status StepState::BadState(const Event& call, std::string_view found,
                                 std::string_view advice) const {
  std::string text = StrCat(call.call, SubjectOf(call));
  if (call.kind == Event::Kind::kParam) {
    const int unit = registry_.params()[static_cast<size_t>(call.index)].unit;
    absl::StrAppend(&text, " of unit ", UnitName(unit));
  }
  const std::string phase = StrCat("the context is ", PhaseText());
  absl::StrAppend(&text,
                  " is not legal here: ", found.empty() ? phase : StrCat(found, " (", phase, ")"),
                  "; ", ToAbsl(advice), "; last events: ");
  if (event_count_ == 0) absl::StrAppend(&text, "none");
  const uint64_t kept = std::min<uint64_t>(event_count_, kEventsKept);
  for (uint64_t i = event_count_ - kept; i < event_count_; ++i) {
    const Event& event = events_[i % kEventsKept];
    absl::StrAppend(&text, i == event_count_ - kept ? "" : ", ", event.call, SubjectOf(event));
  }
  return MakeError(WEFT_BAD_STATE, {.operation = call.call}, text);
}

absl::Status StepState::RequireMicrobatch(const Event& call) const {
  if (phase_ == Phase::kMicrobatch) return absl::OkStatus();
  return BadState(call, "no micro-batch is under way", NextCall());
}

absl::Status StepState::RequireBackward(const Event& call, int unit) const {
  const UnitPhase phase = units_[static_cast<size_t>(unit)].phase;
  if (phase == UnitPhase::kBackward) return absl::OkStatus();
  return BadState(
      call, UnitText(unit),
      phase == UnitPhase::kDone ? "call it before post_backward" : "call pre_backward first");
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
  for (size_t u = 0; u < units_.size(); ++u) {
    if (units_[u].phase != UnitPhase::kBackward || units_[u].backward_of == entering_backward_)
      continue;
    const UnitSpec& spec = registry_.units()[u];
    for (int param = spec.first_param; param < spec.first_param + spec.param_count; ++param) {
      const bool open = params_[static_cast<size_t>(param)] != ParamPhase::kSettled;
      if (open && !registry_.params()[static_cast<size_t>(param)].frozen) return true;
    }
  }
  return false;
}

std::string StepState::LastCall() const {
  if (event_count_ == 0) return "";
  const Event& last = events_[(event_count_ - 1) % kEventsKept];
  return StrCat(last.call, SubjectOf(last));
}

absl::Status StepState::NotInUse(const char* call, int unit, std::string_view advice) const {
  return BadState({call, Event::Kind::kUnit, unit}, UnitText(unit), advice);
}

void StepState::Record(const Event& event) {
  events_[event_count_ % kEventsKept] = event;
  ++event_count_;
}

}  // namespace weft
