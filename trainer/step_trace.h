// What a rank does when, in chosen steps: each use of a unit, each wait, each phase, with the clock
// read at both ends.
//
//   StepTrace trace(parallel, 10, 12);                       // steps 10 to 12; between the model and what it asks for its units
//   Model<float> model(config, batch, matmul, trace);
//   trace.BeginStep(step);
//   phases.Begin(&trace);
//   ... the step ...
//   trace.EndStep(parallel.step_result());
//   const std::vector<RankTrace> all = GatherTraces(group, trace.events());
//   WriteRunFile(directory, "trace.json", ChromeTraceOf(all, units));
//
// In other steps it only passes calls on. Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_STEP_TRACE_H_
#define WEFT_TRAINER_STEP_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/shard_step.h"

#include "trainer/step_phases.h"
#include "trainer/unit_params.h"

namespace weft::trainer {

enum class TraceKind : uint16_t {
  kStep,
  kPhase,        // `what`: of Phase, one that computes
  kUnitForward,  // `what`: the unit, here and below
  kUnitBackward,
  kGatherWait,  // this rank waited for the unit's parameters
  kReduceWait,  // for the reduction of gradients, and the others' losses
  kReductions,  // from the first reduction's start to the last one's end
};

struct TraceEvent {
  int64_t begin_ns = 0, end_ns = 0;  // of the machine's steady clock
  uint32_t step = 0;
  TraceKind kind = TraceKind::kStep;
  uint16_t what = 0;
};

class StepTrace : public UnitHooks<float>, public PhaseListener {
 public:
  static constexpr size_t kStepsMax = 1000;
  static constexpr size_t kEventsMax = 100'000;  // of a rank; later ones are left out

  // `inner` is borrowed.
  StepTrace(UnitHooks<float>& inner, size_t first, size_t last)
      : inner_(inner), first_(first), last_(last) {}

  void BeginStep(size_t step);
  void EndStep(const weft_shard_step_result_t& result);

  const std::vector<TraceEvent>& events() const { return events_; }

  void Took(Phase phase, int64_t begin_ns, int64_t end_ns) override;

  UnitView<float> PreForward(size_t unit) override;
  void PostForward(size_t unit) override;
  UnitView<float> PreBackward(size_t unit) override;
  void GradReady(size_t unit, size_t param) override;
  void PostBackward(size_t unit) override;

 private:
  void Add(TraceKind kind, size_t what, int64_t begin_ns, int64_t end_ns);
  // `enter` waits for the parameters of a unit.
  template <typename Enter>
  UnitView<float> Entered(size_t unit, const Enter& enter);

  UnitHooks<float>& inner_;
  const size_t first_, last_;
  bool on_ = false;  // in a step that is traced
  size_t step_ = 0;
  int64_t step_begin_ns_ = 0;
  int64_t entered_ns_ = 0;         // the unit in use
  int64_t first_gradient_ns_ = 0;  // 0: there was none yet
  int64_t reduce_begin_ns_ = 0;    // waiting after backward
  std::vector<TraceEvent> events_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_STEP_TRACE_H_
