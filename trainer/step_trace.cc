#include "trainer/step_trace.h"

#include <algorithm>
#include <chrono>

namespace weft::trainer {
namespace {

int64_t NowNs() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void StepTrace::Add(TraceKind kind, size_t what, int64_t begin_ns, int64_t end_ns) {
  if (events_.size() < kEventsMax)
    events_.push_back({begin_ns, end_ns, uint32_t(step_), kind, uint16_t(what)});
}

void StepTrace::BeginStep(size_t step) {
  on_ = step >= first_ && step <= last_;
  step_ = step;
  first_gradient_ns_ = 0;
  reduce_begin_ns_ = 0;
  step_begin_ns_ = on_ ? NowNs() : 0;
}

// weft tells how long reductions were under way, and for which part of that the rank waited. If it
// waited, they ended with the wait; else they began, about, with the first gradient.
void StepTrace::EndStep(const weft_shard_step_result_t& result) {
  if (!on_) return;
  const int64_t now = NowNs();
  if (result.comm_ns > 0 && reduce_begin_ns_ > 0) {
    int64_t begin = first_gradient_ns_;
    if (result.comm_exposed_ns > 0)
      begin = reduce_begin_ns_ + result.comm_exposed_ns - result.comm_ns;
    begin = std::max(begin, step_begin_ns_);
    Add(TraceKind::kReductions, 0, begin, std::min(begin + result.comm_ns, now));
  }
  Add(TraceKind::kStep, 0, step_begin_ns_, now);
  on_ = false;
}

void StepTrace::Took(Phase phase, int64_t begin_ns, int64_t end_ns) {
  if (!on_) return;
  if (phase != Phase::kReduce) {
    Add(TraceKind::kPhase, size_t(phase), begin_ns, end_ns);
    return;
  }
  reduce_begin_ns_ = begin_ns;
  Add(TraceKind::kReduceWait, 0, begin_ns, end_ns);
}

template <typename Enter>
UnitView<float> StepTrace::Entered(size_t unit, const Enter& enter) {
  constexpr int64_t kNotedNs = 5'000;  // less is the call, and no wait
  if (!on_) return enter();
  const int64_t begin = NowNs();
  const UnitView<float> view = enter();
  entered_ns_ = NowNs();
  if (entered_ns_ - begin >= kNotedNs) Add(TraceKind::kGatherWait, unit, begin, entered_ns_);
  return view;
}

UnitView<float> StepTrace::PreForward(size_t unit) {
  return Entered(unit, [&] { return inner_.PreForward(unit); });
}

void StepTrace::PostForward(size_t unit) {
  if (on_) Add(TraceKind::kUnitForward, unit, entered_ns_, NowNs());
  inner_.PostForward(unit);
}

UnitView<float> StepTrace::PreBackward(size_t unit) {
  return Entered(unit, [&] { return inner_.PreBackward(unit); });
}

void StepTrace::GradReady(size_t unit, size_t param) {
  if (on_ && first_gradient_ns_ == 0) first_gradient_ns_ = NowNs();
  inner_.GradReady(unit, param);
}

void StepTrace::PostBackward(size_t unit) {
  if (on_) Add(TraceKind::kUnitBackward, unit, entered_ns_, NowNs());
  inner_.PostBackward(unit);
}

}  // namespace weft::trainer
