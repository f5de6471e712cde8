#include "shard/optimizer/optimizer_config.h"

#include "fmt/format.h"

namespace weft {
namespace {

std::string FormulaText(const OptimizerConfig& config) {
  switch (config.kind) {
    case WEFT_OPTIMIZER_ADAMW:
      return fmt::format("betas {} {}, epsilon {}, decay {}", config.adamw.beta1,
                         config.adamw.beta2, config.adamw.epsilon, config.adamw.weight_decay);
    case WEFT_OPTIMIZER_SGD:
      return fmt::format("momentum {}{}, decay {}{}", config.sgd.momentum,
                         config.sgd.nesterov ? " nesterov" : "", config.sgd.weight_decay,
                         config.sgd.decoupled ? " decoupled" : "");
    case WEFT_OPTIMIZER_LION:
      return fmt::format("betas {} {}, decay {}", config.lion.beta1, config.lion.beta2,
                         config.lion.weight_decay);
    case WEFT_OPTIMIZER_LAMB:
      return fmt::format("betas {} {}, epsilon {}, decay {}", config.lamb.beta1, config.lamb.beta2,
                         config.lamb.epsilon, config.lamb.weight_decay);
    case WEFT_OPTIMIZER_LARS:
      return fmt::format("momentum {}, decay {}, trust {}", config.lars.momentum,
                         config.lars.weight_decay, config.lars.coefficient);
    case WEFT_OPTIMIZER_MUON:
      return fmt::format("momentum {}{}, decay {}", config.muon.momentum,
                         config.muon.nesterov ? " nesterov" : "", config.muon.weight_decay);
    case WEFT_OPTIMIZER_OWN:
      return "the caller's";
  }
  return "";
}

std::string LossScaleText(const OptimizerConfig& config) {
  if (!config.dynamic_scale) return fmt::format("loss scale {}", config.static_scale);
  return fmt::format("loss scale from {} within {} and {} every {} steps, hysteresis {}",
                     config.scale.initial, config.scale.least, config.scale.greatest,
                     config.scale.growth_steps, config.scale.hysteresis);
}

std::string NonfiniteText(const OptimizerConfig& config) {
  switch (config.nonfinite) {
    case WEFT_NONFINITE_WARN:
      return "";
    case WEFT_NONFINITE_SKIP:
      return ", gradients that are not finite skipped silently";
    case WEFT_NONFINITE_FAIL:
      return fmt::format(", gradients that are not finite {} steps in a row fail",
                         config.nonfinite_steps);
  }
  return "";
}

}  // namespace

std::string OptimizerText(const OptimizerConfig& config) {
  return fmt::format("kind {}, {}, {}{}{}", static_cast<int>(config.kind), FormulaText(config),
                     LossScaleText(config), NonfiniteText(config),
                     config.product.product == nullptr ? "" : ", product of the caller's");
}

}  // namespace weft
