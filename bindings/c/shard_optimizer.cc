// The C interface of include/weft/shard_step.h over shard/: optimizers.
#include <algorithm>
#include <cmath>

#include "weft/shard_step.h"

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/shard_handles.h"
#include "shard/context/context.h"

namespace weft::shard_calls {
namespace {

// 0 means the default, a negative number 0.
double Or(double value, double fallback) {
  return value == 0 ? fallback : std::max(value, 0.0);
}

absl::Status ReadLossScale(const char* call, const weft_optimizer_config_t& given,
                           OptimizerConfig& config) {
  config.dynamic_scale = given.dynamic_loss_scale != 0;
  config.static_scale = Or(given.loss_scale, 1);
  config.scale.initial = Or(given.loss_scale, config.scale.initial);
  if (given.loss_scale_growth_steps != 0) config.scale.growth_steps = given.loss_scale_growth_steps;
  if (given.loss_scale_hysteresis != 0) config.scale.hysteresis = given.loss_scale_hysteresis;
  if (std::isfinite(config.static_scale) && config.static_scale > 0) return absl::OkStatus();
  return Invalid(call, StrCat("loss_scale is ", given.loss_scale, "; use a positive number"));
}

absl::Status ReadThreads(const char* call, int threads, OptimizerConfig& config) {
  constexpr int kThreadsMax = 256;
  if (threads < 0 || threads > kThreadsMax) {
    return Invalid(call, StrCat("threads is ", threads, "; use 0 (one) to ", kThreadsMax));
  }
  config.threads = std::max(threads, 1);
  return absl::OkStatus();
}

absl::Status ReadNonfinite(const char* call, const weft_optimizer_config_t& given,
                           OptimizerConfig& config) {
  const int policy = NumberOf(given.nonfinite);
  if (policy < WEFT_NONFINITE_WARN || policy > WEFT_NONFINITE_FAIL) {
    return Invalid(call, StrCat("nonfinite is ", policy, "; use a value of weft_nonfinite_t"));
  }
  if (given.nonfinite_steps < 0) {
    return Invalid(call, StrCat("nonfinite_steps is ", given.nonfinite_steps,
                                "; use the number of steps in a row that fail, 0 for one"));
  }
  if (given.nonfinite_steps > 0 && policy != WEFT_NONFINITE_FAIL) {
    return Invalid(call, StrCat("nonfinite_steps is ", given.nonfinite_steps,
                                ", but nothing fails; set nonfinite to WEFT_NONFINITE_FAIL"));
  }
  config.nonfinite = given.nonfinite;
  config.nonfinite_steps = std::max<int64_t>(given.nonfinite_steps, 1);
  return absl::OkStatus();
}

absl::StatusOr<OptimizerConfig> ReadOptimizer(const weft_optimizer_config_t* given) {
  constexpr char kCall[] = "shard_context_optimizer";
  weft_optimizer_config_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(kCall, given, &copy));
  const int kind = NumberOf(copy.kind);
  if (kind < WEFT_OPTIMIZER_ADAMW || kind > WEFT_OPTIMIZER_LARS) {
    return Invalid(kCall, StrCat("kind is ", kind, "; use a value of weft_optimizer_kind_t"));
  }
  for (const double number :
       {copy.beta1, copy.beta2, copy.epsilon, copy.weight_decay, copy.momentum, copy.trust}) {
    if (!std::isfinite(number)) return Invalid(kCall, "a number is not finite");
  }
  if (copy.beta1 >= 1 || copy.beta2 >= 1 || copy.momentum >= 1) {
    return Invalid(kCall, "beta1, beta2 and momentum must be below 1");
  }
  OptimizerConfig config;
  config.kind = copy.kind;
  const double decay = Or(copy.weight_decay, 0);
  config.adamw = {.beta1 = Or(copy.beta1, 0.9),
                  .beta2 = Or(copy.beta2, 0.999),
                  .epsilon = Or(copy.epsilon, 1e-8),
                  .weight_decay = decay};
  config.sgd = {
      .momentum = Or(copy.momentum, 0), .weight_decay = decay, .nesterov = copy.nesterov != 0};
  config.lion = {
      .beta1 = Or(copy.beta1, 0.9), .beta2 = Or(copy.beta2, 0.99), .weight_decay = decay};
  config.lamb = {.beta1 = Or(copy.beta1, 0.9),
                 .beta2 = Or(copy.beta2, 0.999),
                 .epsilon = copy.epsilon > 0 ? copy.epsilon : 1e-6,
                 .weight_decay = decay};
  config.lars = {.momentum = Or(copy.momentum, 0.9),
                 .weight_decay = decay,
                 .coefficient = Or(copy.trust, 1e-3)};
  WEFT_RETURN_IF_ERROR(ReadLossScale(kCall, copy, config));
  WEFT_RETURN_IF_ERROR(ReadThreads(kCall, copy.threads, config));
  WEFT_RETURN_IF_ERROR(ReadNonfinite(kCall, copy, config));
  return config;
}

absl::Status SetOptimizer(weft_shard_context_t context, const weft_optimizer_config_t* given) {
  WEFT_RETURN_IF_ERROR(Check("shard_context_optimizer", context));
  WEFT_ASSIGN_OR_RETURN(const OptimizerConfig config, ReadOptimizer(given));
  return context->context->SetOptimizer(config);
}

absl::Status OptimizerStep(weft_shard_context_t context, const weft_shard_update_t* update,
                           weft_shard_update_result_t* result) {
  constexpr char kCall[] = "shard_optimizer_step";
  WEFT_RETURN_IF_ERROR(Check(kCall, context));
  if (update == nullptr) {
    return Invalid(kCall, "update is NULL; pass a weft_shard_update_t with the learning rate");
  }
  if (result != nullptr) WEFT_RETURN_IF_ERROR(CheckAnswer(kCall, result));
  weft_shard_update_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(kCall, update, &copy));
  if (!std::isfinite(copy.learning_rate) || !std::isfinite(copy.norm_max) || copy.norm_max < 0) {
    return Invalid(kCall, StrCat("learning_rate is ", copy.learning_rate, ", norm_max ",
                                 copy.norm_max, "; use finite numbers, norm_max 0 or more"));
  }
  WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t made,
                        context->context->OptimizerStep(copy));
  if (result != nullptr) WriteAnswer(made, result);
  return absl::OkStatus();
}

}  // namespace
}  // namespace weft::shard_calls

namespace calls = weft::shard_calls;
using weft::Guarded;

extern "C" {

weft_result_t weft_shard_context_optimizer(weft_shard_context_t context,
                                           const weft_optimizer_config_t* config) {
  return Guarded([&] { return calls::SetOptimizer(context, config); });
}

weft_result_t weft_shard_loss_scale(weft_shard_context_t context, double* scale) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_loss_scale", context));
    WEFT_RETURN_IF_ERROR(calls::CheckOut("shard_loss_scale", scale, "scale"));
    WEFT_ASSIGN_OR_RETURN(*scale, context->context->LossScale());
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_optimizer_step(weft_shard_context_t context,
                                        const weft_shard_update_t* update,
                                        weft_shard_update_result_t* result) {
  return Guarded([&] { return calls::OptimizerStep(context, update, result); });
}

}  // extern "C"
