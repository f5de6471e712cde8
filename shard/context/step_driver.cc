// A call takes the mutex to be checked and recorded, lets go of it while it waits, and takes it again to go on: nothing is waited
// for under the mutex, because the thread that would end the wait may need it. What was true before a wait is
// therefore asked again after it, in loops that end when there is nothing left to wait for.
#include "shard/context/step_driver.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/kernels/dtype.h"
#include "shard/context/context_builder.h"
#include "shard/context/turn.h"
#include "shard/step/accumulate.h"

namespace weft {
namespace {

// Not Ok if `grad` reaches into the gradient's own memory.
absl::Status CheckApart(const ParamSpec& param, weft_dtype_t dtype, const void* own,
                        const void* grad) {
  const size_t bytes = param.count * DtypeSize(dtype);
  const auto own_begin = reinterpret_cast<uintptr_t>(own);
  const auto begin = reinterpret_cast<uintptr_t>(grad);
  if (begin >= own_begin + bytes || own_begin >= begin + bytes) return absl::OkStatus();
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "grad_ready"},
                   StrCat("grad_ready ", param.name,
                          ": grad overlaps the parameter's own "
                          "gradient; pass NULL for a gradient written in place"));
}

// What is left of a step's calls after so many micro-batches.
std::span<const Event> After(std::span<const Event> events, int microbatches) {
  size_t begin = 0;
  for (; microbatches > 0 && begin < events.size(); ++begin) {
    if (events[begin].kind == Event::Kind::kMicrobatchEnd) --microbatches;
  }
  const bool more = begin < events.size() && events[begin].kind == Event::Kind::kMicrobatchBegin;
  return more ? events.subspan(begin) : std::span<const Event>();
}

}  // namespace

absl::Status StepDriver::Begin(weft_shard_mode_t mode, uint64_t tag) {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("step_begin"));
    WEFT_RETURN_IF_ERROR(core_.Latch(Annotate(core_.group().error(), "step_begin: ")));
    WEFT_RETURN_IF_ERROR(state().StepBegin(mode, tag));
    if (mode == WEFT_SHARD_TRAIN) {
      runtime().reduction.BeginStep();
      core_.purposes().BeginStep();
    }
    const RecordedStep& expected = runtime().recorded.Of({mode, tag});
    runtime().unshard_manager.BeginStep(expected.agreed ? &expected.schedule : nullptr,
                                        mode == WEFT_SHARD_TRAIN);
    state().ExpectRuns(expected.runs);
    runtime().readiness.SetTurns(expected.agreed ? std::span<const int>(expected.schedule.order)
                                                 : std::span<const int>());
  }
  reducer_.BeginStep();
  gather_waited_ns_ = 0;
  clock_.Begin();
  if (mode == WEFT_SHARD_TRAIN) reducer_.ClearWhole();
  return absl::OkStatus();
}

absl::Status StepDriver::MicrobatchBegin(int index, bool last) {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("microbatch_begin"));
    WEFT_RETURN_IF_ERROR(state().MicrobatchBegin(index, last));
  }
  if (core_.options().uneven && index == 0 && !joined_) {
    WEFT_ASSIGN_OR_RETURN(active_ranks_, TakeTurn(core_, /*active=*/true));
  }
  Section section(core_.mutex);
  core_.purposes().BeginMicrobatch(index);
  reducer_.AssertMutexHeld();
  reducer_.BeginMicrobatch(index, last);
  WEFT_RETURN_IF_ERROR(OnCall({Event::Kind::kMicrobatchBegin, last ? 1 : 0}));
  return OnServed();
}

absl::Status StepDriver::PreForward(int unit) {
  Works needed;
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("pre_forward"));
    WEFT_RETURN_IF_ERROR(CheckPlaces("pre_forward", unit));
    WEFT_RETURN_IF_ERROR(state().PreForward(unit));
    WEFT_RETURN_IF_ERROR(OnCall({Event::Kind::kPreForward, unit}));
    WEFT_ASSIGN_OR_RETURN(needed, AskForUsed(unit, &UnshardManager::Need));
    if (needed.empty()) return OnServed();
  }
  WEFT_RETURN_IF_ERROR(WaitForUsed(unit, &UnshardManager::Need, std::move(needed)));
  Section section(core_.mutex);
  return OnServed();
}

absl::Status StepDriver::PostForward(int unit) {
  Section section(core_.mutex);
  WEFT_RETURN_IF_ERROR(core_.CheckUsable("post_forward"));
  WEFT_RETURN_IF_ERROR(state().PostForward(unit));
  WEFT_RETURN_IF_ERROR(OnCall({Event::Kind::kPostForward, unit}));
  WEFT_RETURN_IF_ERROR(ReshardUsed(unit, /*in_backward=*/false));
  return OnServed();
}

// Waits for room in the pool if it has to, so that gathers start in the order of these calls on every rank.
absl::Status StepDriver::UnshardStart(int unit, const UnshardDestination& destination) {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("unshard_start"));
    WEFT_RETURN_IF_ERROR(CheckDestination(unit, destination));
    WEFT_RETURN_IF_ERROR(CheckPlaces("unshard_start", unit));
    WEFT_RETURN_IF_ERROR(state().UnshardStart(unit));
    runtime().unshard_manager.Aim(unit, static_cast<std::byte*>(destination.data));
    WEFT_RETURN_IF_ERROR(OnCall({Event::Kind::kUnshard, unit}));
  }
  WEFT_RETURN_IF_ERROR(WaitForUsed(unit, &UnshardManager::Begin));
  Section section(core_.mutex);
  return OnServed();
}

absl::Status StepDriver::UnshardWait(int unit) {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("unshard_wait"));
    WEFT_RETURN_IF_ERROR(state().UnshardWait(unit));
  }
  WEFT_RETURN_IF_ERROR(WaitForUsed(unit, &UnshardManager::Need));
  Section section(core_.mutex);
  state().Unsharded(unit);
  return absl::OkStatus();
}

absl::Status StepDriver::Reshard(int unit) {
  Section section(core_.mutex);
  WEFT_RETURN_IF_ERROR(core_.CheckUsable("reshard"));
  WEFT_RETURN_IF_ERROR(state().Reshard(unit));
  WEFT_RETURN_IF_ERROR(OnCall({Event::Kind::kReshard, unit}));
  WEFT_RETURN_IF_ERROR(ReshardUsed(unit, /*in_backward=*/false));
  WEFT_RETURN_IF_ERROR(core_.Latch(runtime().unshard_manager.TakeBack(unit)));
  return OnServed();
}

absl::Status StepDriver::PreBackward(int unit) {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("pre_backward"));
    WEFT_RETURN_IF_ERROR(CheckPlaces("pre_backward", unit));
    WEFT_RETURN_IF_ERROR(state().PreBackward(unit));
  }
  WEFT_RETURN_IF_ERROR(EnterBackward(unit));
  Section section(core_.mutex);
  state().EnteredBackward();
  return OnServed();
}

absl::Status StepDriver::EnterBackward(int unit) {
  WEFT_RETURN_IF_ERROR(reducer_.Fold());
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(OnCall({Event::Kind::kPreBackward, unit}));
  }
  WEFT_RETURN_IF_ERROR(WaitForUsed(unit, &UnshardManager::Need));
  for (const int used : core_.UnitOf(unit).used)
    WEFT_RETURN_IF_ERROR(MakeGradients(used));
  return absl::OkStatus();
}

absl::Status StepDriver::GradReady(int param, const void* grad) {
  void* own = nullptr;
  const ParamSpec* spec = nullptr;
  weft_dtype_t dtype = WEFT_FLOAT32;
  bool unset = false;
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("grad_ready"));
    spec = &core_.SpecOf(param);
    if (!spec->frozen && spec->count > 0) {
      own = runtime().GradientOf(param);
      const int space = runtime().PlaceOf(param).space;
      dtype = runtime().layout.spaces[static_cast<size_t>(space)].grad_dtype;
    }
    if (grad != nullptr && own != nullptr) {
      WEFT_RETURN_IF_ERROR(CheckApart(*spec, dtype, own, grad));
    }
    WEFT_RETURN_IF_ERROR(state().ClaimGradient(param));
    unset = runtime().clearing.Unset(param);
  }
  // The claim keeps everybody else, reductions too, away from this gradient.
  if (grad != nullptr && own != nullptr) {
    if (unset) {
      std::memcpy(own, grad, spec->count * DtypeSize(dtype));
    } else {
      AddTo(own, grad, spec->count, dtype, core_.isa());
    }
  }
  Section section(core_.mutex);
  runtime().clearing.Written(param);
  if (!state().GradientReady(param)) return absl::OkStatus();
  reducer_.AssertMutexHeld();
  return reducer_.Settle({param});
}

absl::Status StepDriver::PostBackward(int unit) {
  Section section(core_.mutex);
  WEFT_RETURN_IF_ERROR(core_.CheckUsable("post_backward"));
  std::vector<int> settled;
  WEFT_RETURN_IF_ERROR(state().PostBackward(unit, settled));
  WEFT_RETURN_IF_ERROR(OnCall({Event::Kind::kPostBackward, unit}));
  WEFT_RETURN_IF_ERROR(ReshardUsed(unit, /*in_backward=*/true));
  reducer_.AssertMutexHeld();
  WEFT_RETURN_IF_ERROR(reducer_.Settle(settled));
  return OnServed();
}

absl::Status StepDriver::MicrobatchEnd() {
  std::vector<int> settled;
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("microbatch_end"));
    WEFT_RETURN_IF_ERROR(state().MicrobatchEnd(settled));
  }
  WEFT_RETURN_IF_ERROR(reducer_.Fold());
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(OnCall({Event::Kind::kMicrobatchEnd, 0}));
    runtime().unshard_manager.ReshardIdle();
  }
  WEFT_RETURN_IF_ERROR(MakeUntouched());
  {
    Section section(core_.mutex);
    reducer_.AssertMutexHeld();
    WEFT_RETURN_IF_ERROR(reducer_.Settle(settled));
    WEFT_RETURN_IF_ERROR(OnServed());
    WEFT_ASSIGN_OR_RETURN(const bool folds_now, reducer_.EndMicrobatch());
    if (!folds_now) return absl::OkStatus();
  }
  return reducer_.Fold();
}

absl::StatusOr<weft_shard_step_result_t> StepDriver::Finish() {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("finish"));
    WEFT_RETURN_IF_ERROR(state().FinishBegin());
    reducer_.AssertMutexHeld();
    if (state().training()) WEFT_RETURN_IF_ERROR(reducer_.StartComplete());
    WEFT_RETURN_IF_ERROR(OnCall({Event::Kind::kFinish, 0}));
    core_.purposes().EndMicrobatches();
  }
  clock_.Computed(gather_waited_ns_ + reducer_.waited_ns());
  WEFT_RETURN_IF_ERROR(reducer_.Finish());
  weft_shard_step_result_t result = {};
  result.struct_size = sizeof(result);
  result.gather_exposed_ns = gather_waited_ns_;
  result.active_ranks = core_.options().uneven ? active_ranks_ : core_.group().size();
  WEFT_RETURN_IF_ERROR(core_.Drain());
  WEFT_RETURN_IF_ERROR(order_.Agree(&result));

  Section section(core_.mutex);
  WEFT_RETURN_IF_ERROR(core_.failure());
  result.gathered_bytes = runtime().unshard_manager.gathered_bytes();
  if (state().training()) {
    reducer_.AssertMutexHeld();
    result.comm_ns = reducer_.busy_ns();
    result.comm_exposed_ns = reducer_.waited_ns();
    result.reduced_bytes = runtime().reduction.started_bytes();
    clock_.Finished(result.gather_exposed_ns, reducer_.waited_ns());
    if (runtime().readiness.CompareOrder(state().kind().second)) result.order_changed = 1;
  }
  state().FinishEnd();
  return result;
}

absl::StatusOr<bool> StepDriver::End() {
  Section section(core_.mutex);
  WEFT_RETURN_IF_ERROR(core_.CheckUsable("step_end"));
  const bool trained = state().training();
  WEFT_ASSIGN_OR_RETURN(const bool finished, state().StepEnd());
  core_.purposes().EndMicrobatches();
  if (core_.options().uneven && !finished) RememberCalls();
  return trained;
}

absl::Status StepDriver::CheckPlaces(const char* call, int unit) const {
  for (const int used : core_.UnitOf(unit).used)
    WEFT_RETURN_IF_ERROR(runtime().unit_places.Check(call, used));
  return absl::OkStatus();
}

absl::Status StepDriver::CheckDestination(int unit, const UnshardDestination& destination) const {
  if (destination.data == nullptr && destination.bytes == 0) return absl::OkStatus();
  const UnitSpec& spec = core_.UnitOf(unit);
  const size_t needed = runtime().layout.units[static_cast<size_t>(unit)].bytes;
  const auto invalid = [&](const std::string& what) {
    return WithSubject(MakeError(WEFT_INVALID_ARGUMENT, {.operation = "unshard_start"},
                                 StrCat("unshard_start ", spec.name, ": ", what)),
                       spec.name, {});
  };
  if (destination.data == nullptr) {
    return invalid(StrCat("destination is NULL but bytes is ", destination.bytes,
                          "; pass the memory, or 0 bytes to unshard in the pool"));
  }
  if (needed == 0) {
    return invalid(
        "a destination was passed, but nothing is gathered: the unit's params are not sharded; "
        "read "
        "them where weft_shard_param_view says, at any time");
  }
  if (destination.bytes < needed) {
    return invalid(StrCat("destination has ", destination.bytes, " bytes, the unit needs ", needed,
                          ", see unsharded_bytes of weft_shard_unit_info"));
  }
  if (reinterpret_cast<uintptr_t>(destination.data) % Block::kAlignment == 0) {
    return absl::OkStatus();
  }
  return invalid(StrCat("destination is not at a multiple of ", Block::kAlignment,
                        " bytes; align it, as views are aligned"));
}

absl::Status StepDriver::OnCall(const Event& event) {
  return core_.Latch(runtime().unshard_manager.OnCall(event));
}

absl::Status StepDriver::OnServed() {
  return core_.Latch(runtime().unshard_manager.OnServed());
}

absl::StatusOr<Works> StepDriver::AskForUsed(int unit, Ask ask) {
  WEFT_RETURN_IF_ERROR(core_.Advance());
  for (const int used : core_.UnitOf(unit).used) {
    absl::StatusOr<Works> works = (runtime().unshard_manager.*ask)(used);
    if (!works.ok()) return core_.Latch(works.status());
    if (!works->empty()) return works;
  }
  return Works();
}

absl::Status StepDriver::ReshardUsed(int unit, bool in_backward) {
  for (const int used : core_.UnitOf(unit).used) {
    if (state().units().Of(used).Kept()) continue;
    WEFT_RETURN_IF_ERROR(core_.Latch(runtime().unshard_manager.Reshard(used, in_backward)));
  }
  return absl::OkStatus();
}

absl::Status StepDriver::WaitForUsed(int unit, Ask ask, Works works) {
  for (;;) {
    if (!works.empty()) {
      WEFT_RETURN_IF_ERROR(core_.AwaitAll(
          works, StrCat("waiting for the parameters of unit ", core_.UnitOf(unit).name, ": "),
          &gather_waited_ns_, core_.UnitOf(unit).name));
    }
    Section section(core_.mutex);
    WEFT_ASSIGN_OR_RETURN(works, AskForUsed(unit, ask));
    if (works.empty()) return absl::OkStatus();
  }
}

absl::Status StepDriver::MakeGradients(int unit) {
  for (const int bucket : runtime().sharded_buckets[static_cast<size_t>(unit)]) {
    bool fresh = false;
    for (;;) {
      Works works;
      {
        Section section(core_.mutex);
        WEFT_RETURN_IF_ERROR(core_.Advance());
        absl::StatusOr<Works> needed = runtime().unshard_manager.NeedGradients(bucket, &fresh);
        if (!needed.ok()) return core_.Latch(needed.status());
        works = *std::move(needed);
      }
      if (works.empty()) break;
      WEFT_RETURN_IF_ERROR(core_.AwaitAll(
          works, StrCat("making room for the gradients of unit ", core_.UnitOf(unit).name, ": "),
          &gather_waited_ns_, core_.UnitOf(unit).name));
    }
    if (fresh) reducer_.ClearBucket(bucket);
  }
  return absl::OkStatus();
}

absl::Status StepDriver::MakeUntouched() {
  for (;;) {
    Works works;
    {
      Section section(core_.mutex);
      WEFT_RETURN_IF_ERROR(core_.Advance());
      works = runtime().unshard_manager.NeedUntouched();
    }
    if (works.empty()) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(
        core_.AwaitAll(works, "making room for gradients that are missing: ", &gather_waited_ns_));
  }
}

absl::StatusOr<int> StepDriver::Join() {
  std::vector<Event> events;
  int made = 0;
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("join"));
    if (!core_.options().uneven) {
      return MakeError(WEFT_BAD_STATE, {.operation = "join"},
                       "join: the context does not expect ranks without data; set uneven in its "
                       "config, on every rank");
    }
    WEFT_ASSIGN_OR_RETURN(made, state().CheckJoin());
    events = ExpectedCalls();
  }
  const std::span<const Event> rest = After(events, made);
  if (made > 0 && rest.empty()) {
    return MakeError(WEFT_BAD_STATE, {.operation = "join"},
                     StrCat("join: this rank has made ", made,
                            " micro-batches of the step, as many as the last step of this kind "
                            "had, so it is not known what follows; make the others with zero "
                            "gradients, or give steps of another length a tag of their own"));
  }
  if (made == 0) {
    WEFT_ASSIGN_OR_RETURN(active_ranks_, TakeTurn(core_, /*active=*/false));
  }
  if (active_ranks_ == 0) {
    Section section(core_.mutex);
    state().AbandonStep();
    return 0;
  }
  joined_ = true;
  const absl::Status walked = Walk(rest, made);
  joined_ = false;
  WEFT_RETURN_IF_ERROR(walked);
  return active_ranks_;
}

// What they did the last time, or what is expected of the first.
std::vector<Event> StepDriver::ExpectedCalls() const {
  std::vector<Event> events = runtime().recorded.EventsOf(state().kind());
  return events.empty() ? ExpectedEvents(PlanInputOf(core_), state().kind().first) : events;
}

// Nobody has compared them, so the next step of this kind is served on demand, on all ranks alike.
void StepDriver::RememberCalls() {
  std::vector<Event> events = runtime().unshard_manager.events();
  events.push_back({Event::Kind::kFinish, 0});
  if (ExpectedCalls() == events) return;
  RecordedStep* const record = runtime().recorded.Record(state().kind());
  if (record != nullptr) *record = {.schedule = {.events = std::move(events)}};
}

// Gradients are zeroed before they may be written, so nothing else has to be done to have zeros.
absl::Status StepDriver::Walk(std::span<const Event> events, int first) {
  int microbatch = first;
  for (const Event& event : events) {
    switch (event.kind) {
      case Event::Kind::kMicrobatchBegin:
        WEFT_RETURN_IF_ERROR(MicrobatchBegin(microbatch++, event.index == 1));
        break;
      case Event::Kind::kPreForward:
        WEFT_RETURN_IF_ERROR(PreForward(event.index));
        break;
      case Event::Kind::kPostForward:
        WEFT_RETURN_IF_ERROR(PostForward(event.index));
        break;
      case Event::Kind::kPreBackward:
        WEFT_RETURN_IF_ERROR(PreBackward(event.index));
        break;
      case Event::Kind::kPostBackward:
        WEFT_RETURN_IF_ERROR(PostBackward(event.index));
        break;
      case Event::Kind::kUnshard:
        WEFT_RETURN_IF_ERROR(UnshardStart(event.index));
        break;
      case Event::Kind::kReshard:
        WEFT_RETURN_IF_ERROR(UnshardWait(event.index));
        WEFT_RETURN_IF_ERROR(Reshard(event.index));
        break;
      case Event::Kind::kMicrobatchEnd:
        WEFT_RETURN_IF_ERROR(MicrobatchEnd());
        break;
      default:  // finish is the caller's; other calls are in no schedule
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
