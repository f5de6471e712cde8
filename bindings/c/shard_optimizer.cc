// The C interface of include/weft/shard_step.h over shard/: optimizers; and of shard_norm.h.
#include <algorithm>
#include <cmath>
#include <utility>

#include "weft/shard_step.h"

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/shard_handles.h"
#include "shard/context/context.h"
#include "shard/optimizer/gradient_norm.h"
#include "shard/optimizer/norm_sum.h"

namespace weft::shard_calls {

absl::Status CheckOptimizerNumbers(const char* call, std::span<const NamedNumber> numbers,
                                   std::initializer_list<double> rates, const char* unset) {
  for (const auto& [name, number] : numbers) {
    if (!std::isfinite(number)) return Invalid(call, StrCat(name, " is not finite"));
    if (number < 0) {
      return Invalid(call,
                     StrCat(name, " is ", number, ", and must not be negative; for 0 in place of ",
                            unset, " set its bit in fields"));
    }
  }
  if (std::any_of(rates.begin(), rates.end(), [](double rate) { return rate >= 1; })) {
    return Invalid(call, "beta1, beta2 and momentum must be below 1");
  }
  return absl::OkStatus();
}

namespace {

double Or(double value, double fallback) {
  return value == 0 ? fallback : value;
}

absl::Status CheckNumbers(const char* call, const weft_optimizer_config_t& given) {
  constexpr uint32_t kFields = WEFT_OPTIMIZER_BETA1 | WEFT_OPTIMIZER_BETA2 |
                               WEFT_OPTIMIZER_EPSILON | WEFT_OPTIMIZER_MOMENTUM |
                               WEFT_OPTIMIZER_TRUST;
  if ((given.fields & ~kFields) != 0) {
    return Invalid(call, StrCat("fields has unknown bits: ", given.fields));
  }
  const NamedNumber numbers[] = {{"beta1", given.beta1},       {"beta2", given.beta2},
                                 {"epsilon", given.epsilon},   {"weight_decay", given.weight_decay},
                                 {"momentum", given.momentum}, {"trust", given.trust}};
  WEFT_RETURN_IF_ERROR(CheckOptimizerNumbers(
      call, numbers, {given.beta1, given.beta2, given.momentum}, "the default"));
  const bool no_epsilon = (given.fields & WEFT_OPTIMIZER_EPSILON) != 0 && given.epsilon == 0;
  if (no_epsilon && given.kind == WEFT_OPTIMIZER_LAMB) {
    return Invalid(call, "epsilon is 0; LAMB needs one above 0");
  }
  return absl::OkStatus();
}

absl::Status ReadLossScale(const char* call, const weft_optimizer_config_t& given,
                           OptimizerConfig& config) {
  config.dynamic_scale = given.dynamic_loss_scale != 0;
  config.static_scale = Or(given.loss_scale, 1);
  config.scale.initial = Or(given.loss_scale, config.scale.initial);
  for (const auto& [name, count] :
       {std::pair("loss_scale_growth_steps", given.loss_scale_growth_steps),
        std::pair("loss_scale_hysteresis", given.loss_scale_hysteresis)}) {
    if (count >= 0) continue;
    return Invalid(call,
                   StrCat(name, " is ", count, "; use a number above 0, or 0 for the default"));
  }
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
  WEFT_RETURN_IF_ERROR(
      CheckEnum(call, "nonfinite", given.nonfinite, WEFT_NONFINITE_FAIL, "weft_nonfinite_t"));
  if (given.nonfinite_steps < 0) {
    return Invalid(call, StrCat("nonfinite_steps is ", given.nonfinite_steps,
                                "; use the number of steps in a row that fail, 0 for one"));
  }
  if (given.nonfinite_steps > 0 && given.nonfinite != WEFT_NONFINITE_FAIL) {
    return Invalid(call, StrCat("nonfinite_steps is ", given.nonfinite_steps,
                                ", but nothing fails; set nonfinite to WEFT_NONFINITE_FAIL"));
  }
  config.nonfinite = given.nonfinite;
  config.nonfinite_steps = std::max<int64_t>(given.nonfinite_steps, 1);
  return absl::OkStatus();
}

// `given` is whole, see ReadConfig.
absl::StatusOr<OptimizerConfig> ReadOptimizer(const char* call,
                                              const weft_optimizer_config_t& given) {
  WEFT_RETURN_IF_ERROR(
      CheckEnum(call, "kind", given.kind, WEFT_OPTIMIZER_MUON, "weft_optimizer_kind_t"));
  WEFT_RETURN_IF_ERROR(CheckNumbers(call, given));
  const auto number = [&](double value, uint32_t field, double fallback) {
    return (given.fields & field) != 0 ? value : Or(value, fallback);
  };
  const double beta1 = number(given.beta1, WEFT_OPTIMIZER_BETA1, 0.9);
  const auto beta2 = [&](double fallback) {
    return number(given.beta2, WEFT_OPTIMIZER_BETA2, fallback);
  };
  const double decay = given.weight_decay;
  OptimizerConfig config;
  config.kind = given.kind;
  config.adamw = {.beta1 = beta1,
                  .beta2 = beta2(0.999),
                  .epsilon = number(given.epsilon, WEFT_OPTIMIZER_EPSILON, 1e-8),
                  .weight_decay = decay};
  config.sgd = {.momentum = given.momentum, .weight_decay = decay, .nesterov = given.nesterov != 0};
  config.lion = {.beta1 = beta1, .beta2 = beta2(0.99), .weight_decay = decay};
  config.lamb = {.beta1 = beta1,
                 .beta2 = beta2(0.999),
                 .epsilon = Or(given.epsilon, 1e-6),
                 .weight_decay = decay};
  config.lars = {.momentum = number(given.momentum, WEFT_OPTIMIZER_MOMENTUM, 0.9),
                 .weight_decay = decay,
                 .coefficient = number(given.trust, WEFT_OPTIMIZER_TRUST, 1e-3)};
  config.muon = {.momentum = number(given.momentum, WEFT_OPTIMIZER_MOMENTUM, 0.95),
                 .weight_decay = decay,
                 .nesterov = given.nesterov != 0};
  config.product = {.product = given.product, .user = given.product_user};
  WEFT_RETURN_IF_ERROR(ReadLossScale(call, given, config));
  WEFT_RETURN_IF_ERROR(ReadThreads(call, given.threads, config));
  WEFT_RETURN_IF_ERROR(ReadNonfinite(call, given, config));
  return config;
}

absl::Status CheckUpdateNumbers(const char* call, const weft_shard_update_t& update) {
  for (const auto& [name, number] : {NamedNumber("learning_rate", update.learning_rate),
                                     NamedNumber("norm_max", update.norm_max)}) {
    if (std::isfinite(number) && number >= 0) continue;
    return Invalid(call, StrCat(name, " is ", number, "; use a finite number, 0 or more"));
  }
  if (!std::isfinite(update.gradient_factor) || update.gradient_factor < 0) {
    return Invalid(call, StrCat("gradient_factor is ", update.gradient_factor,
                                "; use a finite number above 0, or 0 for 1"));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace weft::shard_calls

namespace calls = weft::shard_calls;
using weft::Guarded;

extern "C" {

weft_result_t weft_shard_context_optimizer(weft_shard_context_t context,
                                           const weft_optimizer_config_t* config) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_context_optimizer";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    weft_optimizer_config_t copy{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, config, &copy));
    WEFT_ASSIGN_OR_RETURN(const weft::OptimizerConfig read, calls::ReadOptimizer(kCall, copy));
    WEFT_RETURN_IF_ERROR(context->context->SetOptimizer(read));
    context->release_product = copy.release_user;
    context->product_user = copy.product_user;
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_loss_scale(weft_shard_context_t context, double* scale) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_loss_scale", context));
    WEFT_RETURN_IF_ERROR(calls::CheckOut("shard_loss_scale", scale, "scale"));
    WEFT_ASSIGN_OR_RETURN(*scale, context->context->optimizer().LossScale());
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_gradient_norm(weft_shard_context_t context, void* stream,
                                       weft_shard_norm_t* norm) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_gradient_norm";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, norm, "norm"));
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, norm));
    WEFT_RETURN_IF_ERROR(calls::CheckStream(kCall, stream));
    WEFT_ASSIGN_OR_RETURN(const weft_shard_norm_t made,
                          context->context->optimizer().GradientNorm());
    weft::WriteAnswer(made, norm);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_norm_add(weft_shard_norm_t* norm, const weft_shard_norm_t* other) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_norm_add";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, norm, "norm"));
    if (other == nullptr) return calls::Invalid(kCall, "other is NULL");
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, norm));
    weft_shard_norm_t sum{}, added{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, norm, &sum));
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, other, &added));
    WEFT_RETURN_IF_ERROR(weft::AddNorm(added, &sum));
    weft::WriteAnswer(sum, norm);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_norm_sum(weft_shard_norm_t* norm, weft_group_t group, void* stream) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_norm_sum";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, norm, "norm"));
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, norm));
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    WEFT_RETURN_IF_ERROR(calls::CheckStream(kCall, stream));
    weft_shard_norm_t part{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, norm, &part));
    const std::shared_ptr<weft::ProcessGroup> ranks = group->group.shared();
    WEFT_ASSIGN_OR_RETURN(const weft_shard_norm_t whole, weft::SumNorms(*ranks, part));
    weft::WriteAnswer(whole, norm);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_optimizer_step(weft_shard_context_t context,
                                        const weft_shard_update_t* update,
                                        weft_shard_update_result_t* result) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_optimizer_step";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    if (update == nullptr) {
      return calls::Invalid(kCall,
                            "update is NULL; pass a weft_shard_update_t with the learning rate");
    }
    if (result != nullptr) WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, result));
    weft_shard_update_t copy{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, update, &copy));
    WEFT_RETURN_IF_ERROR(calls::CheckStream(kCall, copy.stream));
    weft_shard_norm_t norm{};
    if (copy.norm != nullptr) {
      WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, copy.norm, &norm));
      copy.norm = &norm;
    }
    WEFT_RETURN_IF_ERROR(calls::CheckUpdateNumbers(kCall, copy));
    WEFT_ASSIGN_OR_RETURN(const weft_shard_update_result_t made,
                          context->context->OptimizerStep(copy));
    if (result != nullptr) weft::WriteAnswer(made, result);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_drop_gradients(weft_shard_context_t context, void* stream) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_drop_gradients";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    WEFT_RETURN_IF_ERROR(calls::CheckStream(kCall, stream));
    return context->context->DropGradients();
  });
}

}  // extern "C"
