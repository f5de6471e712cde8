// Training without weft: one process, the whole global batch at once, AdamW in double as its paper
// has it. Slow and obvious.
//
//   ReferenceStep reference(config);
//   ReferenceStep::Result r = reference.Step(step, params);   // from these params, not from its own
//
// Each step starts from parameters that are given, so that the differences of one step do not add
// up with those of the next; the moments are the reference's own.
#ifndef WEFT_TESTS_TRAINER_REFERENCE_STEP_H_
#define WEFT_TESTS_TRAINER_REFERENCE_STEP_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/trainer/owned_params.h"
#include "tests/trainer/training_run.h"
#include "trainer/model.h"
#include "trainer/sampler.h"

namespace weft::trainer {

class ReferenceStep {
 public:
  struct Result {
    double loss = 0;
    double norm = 0;
    std::vector<std::vector<double>> params;  // after the step, in the order of ModelUnits
  };

  explicit ReferenceStep(const TrainConfig& config)
      : config_(config),
        units_(ModelUnits(config.model)),
        owned_(units_),
        matmul_(MakeMatmul<float>(config.precision)),
        model_(config.model, config.global_batch, *matmul_, owned_),
        kept_(config.model, config.global_batch, Recompute::kNone, model_.input_type()),
        sampler_(TestCorpus().train.size(), config.model.seq, config.global_batch, config.seed) {}

  Result Step(size_t step, const Params& params) {
    size_t index = 0;
    for (size_t u = 0; u < units_.size(); u++) {
      for (size_t p = 0; p < units_[u].params.size(); p++) {
        owned_.data[u][p] = params[index++];
        owned_.grad[u][p].assign(owned_.data[u][p].size(), 0);
      }
    }
    Result result;
    result.loss = Gradients(step);
    double squares = 0;
    for (const auto& unit : owned_.grad) {
      for (const auto& values : unit) {
        for (const float g : values)
          squares += double(g) * double(g);
      }
    }
    result.norm = std::sqrt(squares);
    Update(step, result);
    return result;
  }

 private:
  struct Moments {
    std::vector<double> m, v;
  };

  double Gradients(size_t step) {
    const size_t seq = config_.model.seq;
    std::vector<Token> inputs, targets;
    for (size_t slot = 0; slot < config_.global_batch; slot++) {
      const size_t at = sampler_.Offset(step, slot);
      for (size_t i = 0; i < seq; i++) {
        inputs.push_back(Token{uint8_t(TestCorpus().train[at + i])});
        targets.push_back(Token{uint8_t(TestCorpus().train[at + i + 1])});
      }
    }
    const double tokens = double(inputs.size());
    model_.Forward(inputs.data(), config_.global_batch, kept_,
                   Dropout(config_.dropout, config_.seed, step, 0));
    const double loss =
        model_.Backward(inputs.data(), targets.data(), config_.global_batch, 1 / tokens, kept_);
    return loss / tokens;
  }

  void Update(size_t step, Result& result) {
    const double lr = LearningRate(config_, step);
    const double scale = result.norm > config_.grad_clip ? config_.grad_clip / result.norm : 1;
    const double count = double(step + 1);
    moments_.resize(units_.size());
    for (size_t u = 0; u < units_.size(); u++) {
      moments_[u].resize(units_[u].params.size());
      for (size_t p = 0; p < units_[u].params.size(); p++) {
        Moments& moments = moments_[u][p];
        std::vector<double>& out = result.params.emplace_back();
        const double decay = units_[u].params[p].decay ? config_.weight_decay : 0;
        moments.m.resize(owned_.data[u][p].size());
        moments.v.resize(owned_.data[u][p].size());
        for (size_t i = 0; i < moments.m.size(); i++) {
          const double g = double(owned_.grad[u][p][i]) * scale;
          moments.m[i] = 0.9 * moments.m[i] + 0.1 * g;
          moments.v[i] = 0.95 * moments.v[i] + 0.05 * g * g;
          const double m_hat = moments.m[i] / (1 - std::pow(0.9, count));
          const double v_hat = moments.v[i] / (1 - std::pow(0.95, count));
          const double before = double(owned_.data[u][p][i]);
          out.push_back(before - lr * decay * before - lr * m_hat / (std::sqrt(v_hat) + 1e-8));
        }
      }
    }
  }

  const TrainConfig config_;
  const std::vector<UnitSpec> units_;
  OwnedParams<float> owned_;
  std::unique_ptr<Matmul<float>> matmul_;
  Model<float> model_;
  Activations<float> kept_;
  WindowSampler sampler_;
  std::vector<std::vector<Moments>> moments_;
};

}  // namespace weft::trainer

#endif  // WEFT_TESTS_TRAINER_REFERENCE_STEP_H_
