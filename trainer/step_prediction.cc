#include "trainer/step_prediction.h"

#include <algorithm>

#include "trainer/model_units.h"
#include "trainer/plan.h"

namespace weft::trainer {
namespace {

// Forward's part of forward and backward: a third of the products, and about as much of the rest.
constexpr double kForwardPart = 1.0 / 3;

// A token alone, which reads all weights, takes as long as so many of a window, which read them
// together, and is computed once more with others when the window begins anew. decode_bench: 18 of
// GPT-2 124M, 13 of the byte model of 85M, 7 of 1M, whose weights stay in the cache.
constexpr double kTokensLikeOneAlone = 17;

// Noise may make the line through two of them fall, which a step does not.
double Line(double fewer, double more, double position) {
  return std::max(more, fewer + (more - fewer) * position);
}

double Ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

StepTime Scaled(const StepTime& time, double compute, double update, double exposed) {
  return {time.compute_s * compute, time.update_s * update, time.exposed_s * exposed};
}

weft_shard_plan_t PlanInMemory(TrainConfig config, size_t ranks) {
  config.offload.clear();  // so that the plan has all of the optimizer's state
  config.offload_params = false;
  return PlanRun(config, 0, ranks).sharding;
}

// What a rank computes for a micro-batch of the largest size.
double MicroBatchFlops(const ModelConfig& model, size_t sequences) {
  return double(sequences * model.seq) * FlopsPerToken(model);
}

// A step of the ranks that were tried out with one micro-batch of the sample's size, but all
// layers.
StepTime AllLayers(const TrainConfig& config, const StepSample& sample) {
  const SampleShape& shape = sample.shape;
  const size_t layers = config.model.layers;
  if (layers == shape.layers) return sample.step;
  if (shape.fewer_layers > 0) {
    const double position =
        double(layers - shape.fewer_layers) / double(shape.layers - shape.fewer_layers);
    return {Line(sample.fewer.compute_s, sample.step.compute_s, position),
            Line(sample.fewer.update_s, sample.step.update_s, position),
            Line(sample.fewer.exposed_s, sample.step.exposed_s, position)};
  }
  const TrainConfig few = SampleConfig(config, shape, shape.layers, 1);
  const TrainConfig all = SampleConfig(config, shape, layers, 1);
  const weft_shard_plan_t plan_of_few = PlanInMemory(few, shape.ranks);
  const weft_shard_plan_t plan_of_all = PlanInMemory(all, shape.ranks);
  return Scaled(sample.step, Ratio(FlopsPerToken(all.model), FlopsPerToken(few.model)),
                Ratio(double(plan_of_all.optimizer_bytes), double(plan_of_few.optimizer_bytes)),
                Ratio(double(plan_of_all.sent_bytes), double(plan_of_few.sent_bytes)));
}

// What a micro-batch that is not the last one adds, with all layers.
StepTime OneMore(const TrainConfig& config, const StepSample& sample) {
  const auto more = [&](double StepTime::*part) {
    return std::max(0.0, sample.twice.*part - sample.step.*part);
  };
  const TrainConfig few = SampleConfig(config, sample.shape, sample.shape.layers, 1);
  const TrainConfig all = SampleConfig(config, sample.shape, config.model.layers, 1);
  const double exchanged = Ratio(double(ParameterCount(ModelUnits(all.model))),
                                 double(ParameterCount(ModelUnits(few.model))));
  return Scaled({more(&StepTime::compute_s), 0, more(&StepTime::exposed_s)},
                Ratio(FlopsPerToken(all.model), FlopsPerToken(few.model)), 0, exchanged);
}

}  // namespace

StepTime PredictStep(const TrainConfig& config, const Placement& placement,
                     const StepSample& sample) {
  const SampleShape& shape = sample.shape;
  const size_t sequences = LargestMicroBatch(config, placement.ranks);
  const size_t local = std::min(placement.ranks, placement.ranks_per_machine);
  const double sharing =
      placement.Sharing(local, config.threads) / placement.Sharing(shape.ranks, config.threads);
  if (sample.rounds == 0) {
    const double flops = double(config.accumulate) * MicroBatchFlops(config.model, sequences);
    return {.compute_s = sharing * flops / sample.gemm.mean};
  }
  StepTime step = AllLayers(config, sample);
  if (config.accumulate > 1) {
    const StepTime one_more = OneMore(config, sample);
    const double count = double(config.accumulate - 1);
    step.compute_s += count * one_more.compute_s;
    step.exposed_s += count * one_more.exposed_s;
  }
  // From the sample's micro-batch and ranks to the run's.
  const TrainConfig tried = SampleConfig(config, shape, config.model.layers, config.accumulate);
  const double flops = Ratio(MicroBatchFlops(config.model, sequences),
                             MicroBatchFlops(tried.model, shape.sequences));
  const weft_shard_plan_t plan = PlanInMemory(config, placement.ranks);
  const weft_shard_plan_t plan_tried = PlanInMemory(tried, shape.ranks);
  return Scaled(step, sharing * flops,
                sharing * Ratio(double(plan.optimizer_bytes), double(plan_tried.optimizer_bytes)),
                sharing * Ratio(double(plan.sent_bytes), double(plan_tried.sent_bytes)));
}

RunSeconds PredictRun(const TrainConfig& config, const Placement& placement, const StepTime& step) {
  const double sequences = double(LargestMicroBatch(config, placement.ranks) * config.accumulate);
  const double forward_s = kForwardPart * step.compute_s / sequences;
  const size_t between = config.eval_every == 0 ? 0 : (config.steps - 1) / config.eval_every;
  const double windows =
      double(between) * double(config.eval_windows) + double(config.final_windows);
  RunSeconds run;
  run.steps = double(config.steps) * step.Seconds();
  // The ranks share the windows, and each of them runs the sample.
  const double of_a_window = std::min(1.0, kTokensLikeOneAlone / double(config.model.seq));
  run.validations =
      forward_s * (windows / double(placement.ranks) + of_a_window * double(config.sample_bytes));
  return run;
}

}  // namespace weft::trainer
