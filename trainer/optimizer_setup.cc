#include "trainer/optimizer_setup.h"

#include <cmath>

#include <fmt/core.h>

namespace weft::trainer {
namespace {

double Beta2Of(weft_optimizer_kind_t kind) {
  if (kind == WEFT_OPTIMIZER_LION) return 0.99;
  return kind == WEFT_OPTIMIZER_LAMB ? 0.999 : 0.95;
}

double MomentumOf(weft_optimizer_kind_t kind) {
  if (kind == WEFT_OPTIMIZER_LARS) return 0.9;
  return kind == WEFT_OPTIMIZER_MUON ? 0.95 : 0;
}

// Halves fit into float16 only from about 6e-8 to 65504.
bool NeedsLossScale(const TrainConfig& config) {
  return config.precision == Precision::kFp16 || config.param_type == NumberType::kFp16;
}

}  // namespace

void ChooseOptimizerNumbers(TrainConfig& config) {
  if (config.beta2 == kByKind) config.beta2 = Beta2Of(config.optimizer);
  if (config.momentum == kByKind) config.momentum = MomentumOf(config.optimizer);
  if (config.epsilon == kByKind)
    config.epsilon = config.optimizer == WEFT_OPTIMIZER_LAMB ? 1e-6 : 1e-8;
  if (config.loss_scale == kByKind) config.loss_scale = NeedsLossScale(config) ? 0 : 1;
}

weft_optimizer_config_t OptimizerOf(TrainConfig config) {
  ChooseOptimizerNumbers(config);
  weft_optimizer_config_t optimizer = {};
  optimizer.struct_size = sizeof optimizer;
  // What Muon cannot update is AdamW's.
  const bool muon = config.optimizer == WEFT_OPTIMIZER_MUON;
  optimizer.kind = muon ? WEFT_OPTIMIZER_ADAMW : config.optimizer;
  optimizer.beta1 = config.beta1;
  optimizer.beta2 = config.beta2;
  optimizer.epsilon = config.epsilon;
  optimizer.momentum = config.momentum;
  optimizer.nesterov = config.nesterov ? 1 : 0;
  optimizer.trust = config.trust;
  optimizer.fields = WEFT_OPTIMIZER_BETA1 | WEFT_OPTIMIZER_BETA2 | WEFT_OPTIMIZER_EPSILON |
                     WEFT_OPTIMIZER_MOMENTUM | WEFT_OPTIMIZER_TRUST;
  optimizer.weight_decay = config.weight_decay;
  optimizer.dynamic_loss_scale = config.loss_scale == 0 ? 1 : 0;
  optimizer.loss_scale =
      config.loss_scale == 0 ? std::ldexp(1.0, int(config.loss_scale_power)) : config.loss_scale;
  optimizer.loss_scale_growth_steps = int64_t(config.loss_scale_window);
  optimizer.loss_scale_hysteresis = int64_t(config.loss_scale_hysteresis);
  optimizer.threads = config.threads;
  optimizer.nonfinite = WEFT_NONFINITE_FAIL;
  optimizer.nonfinite_steps = int64_t(config.nonfinite_steps);
  return optimizer;
}

std::string DescribeLossScale(const TrainConfig& config) {
  if (config.loss_scale == 0)
    return fmt::format("dynamic from {:.0f}", std::ldexp(1.0, int(config.loss_scale_power)));
  return config.loss_scale == 1 ? "" : fmt::format("{:g}", config.loss_scale);
}

}  // namespace weft::trainer
