// One rank of a training run.
//
//   Trainer trainer(config, text, group);
//   trainer.Begin();
//   for (size_t step = 0; step < config.steps; step++) StepRecord r = trainer.Step(step);
//   double nats = trainer.Evaluate(SpreadWindows(text.validation.size(), seq, 1024));
//
// Every function is collective over the group. The same configuration, data, rank count and thread
// count give the same bits, run after run, with every strategy, with and without overlap. Another
// rank count gives the same global batches and losses that agree to rounding.
//
// Thread-safety: an object belongs to one thread; ranks may be threads of one process.
#ifndef WEFT_TRAINER_TRAIN_H_
#define WEFT_TRAINER_TRAIN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/group.h"

#include "trainer/config.h"
#include "trainer/evaluation.h"
#include "trainer/model.h"
#include "trainer/parallel.h"
#include "trainer/sampler.h"
#include "trainer/step_phases.h"
#include "trainer/step_trace.h"
#include "trainer/train_state.h"
#include "trainer/training_text.h"
#include "trainer/window_batch.h"

namespace weft::trainer {

class Trainer {
 public:
  // `text` is borrowed. Throws BadInput or RunFailure.
  Trainer(const TrainConfig& config, const TrainingText& text, weft_group_t group);

  // Initial values, those of rank 0.
  void Begin();
  // The values of each parameter, of which rank 0 is asked.
  void LoadParams(
      const std::function<std::vector<float>(const ParamSpec& spec, size_t index)>& values);
  // Instead of Begin: the values that another Trainer had, and its place in the text; see
  // TrainState.
  void GoOnFrom(const TrainState& state);
  // Instead of Begin, when a checkpoint was loaded into parallel()'s context: after that step, and
  // from that place in the text on. Local.
  void GoOnAfter(const StepRecord& last, const SamplePlace& next);

  // What any rank was asked for when Evaluate or Generate last looked.
  uint64_t requests() const { return requests_; }

  // Where step `index` begins to read.
  SamplePlace PlaceOf(size_t index) const { return sampler_.PlaceOf(index); }

  // Of an elastic run: what has been done so far, also after a failure. Local.
  TrainState TakeState();
  // Step `index`, from 0. A failure on this rank releases the others and is thrown on.
  StepRecord Step(size_t index);
  // Mean loss in nats per token over windows of the validation text, ContextTokens of each not
  // judged. Nothing if the ranks were asked to end meanwhile.
  std::optional<double> Evaluate(const std::vector<size_t>& offsets);
  // Continues `prompt`, of a token at least, by `count` tokens, drawn at `temperature` among the
  // `top` likeliest of those below `below`; by fewer if the ranks are asked to end. Meanwhile the
  // activations' memory is given back: what is kept of the text takes its place.
  std::vector<Token> Generate(std::vector<Token> prompt, size_t count, double temperature,
                              size_t top, size_t below = SIZE_MAX);

  const DataParallel& parallel() const { return parallel_; }

  // What this rank did when in the steps of config.trace_first to trace_last.
  std::vector<TraceEvent> trace() const {
    return trace_ ? trace_->events() : std::vector<TraceEvent>();
  }

  // The whole parameters, in the order of ModelUnits.
  std::vector<std::vector<float>> ReadParams();

  size_t parameter_count() const { return ParameterCount(units_); }

 private:
  StepRecord TryStep(size_t index);
  // Forward and backward of this rank's share; the sum of its tokens' losses.
  double Compute(size_t index, double loss_scale);
  // Adds up the losses of all ranks.
  void TakeLoss(double own, StepRecord& record);
  // Tokens of a rank in each step.
  size_t TokensOf(size_t rank) const;
  // Updates the weights, unless the step stands out.
  void Update(StepRecord& record);
  // Whether any rank has been asked to end. Collective.
  bool AskedToEnd();
  // Where this rank's sequences of a micro-batch begin.
  std::vector<size_t> OffsetsOf(size_t index, const Share& share);
  Share ShareOfMicroBatch(size_t micro) const;
  Activations<float>& Kept();
  // So that a disk may fetch what the next step reads.
  void AnnounceStep(size_t index);

  const TrainConfig config_;
  const TrainingText& text_;
  const std::vector<UnitSpec> units_;
  DataParallel parallel_;
  std::unique_ptr<Matmul<float>> matmul_;
  const size_t micro_batch_;  // sequences of the largest micro-batch of any rank
  WindowSampler sampler_;
  std::unique_ptr<StepTrace> trace_;  // of a run that traces
  Model<float> model_;
  Evaluation evaluation_;
  std::optional<Activations<float>> activations_;  // not while a sample is made
  WindowBatch batch_;
  StepPhases phases_;
  StepRecord record_;        // of the step under way
  StepRecord last_;          // of the last that was done
  int64_t steps_done_ = -1;  // -1: there are no weights yet
  int64_t updates_ = 0;      // before the step under way
  uint64_t requests_ = 0;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TRAIN_H_
