#include "shard/optimizer/loss_scale.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {

absl::Status CheckLossScaleOptions(const LossScaleOptions& options) {
  const bool ordered = options.least > 0 && options.least <= options.initial &&
                       options.initial <= options.greatest && std::isfinite(options.greatest);
  if (ordered && options.growth_steps >= 1 && options.hysteresis >= 1) return absl::OkStatus();
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("loss scale: initial ", options.initial, ", least ", options.least,
                          ", greatest ", options.greatest, ", growth_steps ", options.growth_steps,
                          ", hysteresis ", options.hysteresis,
                          "; give 0 < least <= initial <= greatest, all finite, and at least ",
                          "1 for both counts"));
}

LossScale::LossScale(const LossScaleOptions& options)
    : options_(options), value_(options.initial), overflows_left_(options.hysteresis) {
  WEFT_CHECK(CheckLossScaleOptions(options).ok());
}

LossScale LossScale::Static(double value) {
  return LossScale({.initial = value, .least = value, .greatest = value});
}

absl::Status LossScale::CheckState(const State& state) const {
  if (!std::isfinite(state.value) || state.value <= 0) {
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat("loss_scale is ", state.value,
                                                   "; use a positive number that is finite"));
  }
  const bool is_static = options_.least == options_.greatest;
  if (!is_static && (state.value < options_.least || state.value > options_.greatest)) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("loss_scale is ", state.value, ", and this context's is dynamic, from ",
                            options_.least, " to ", options_.greatest,
                            "; use a number between them, or an optimizer config with a static "
                            "loss scale"));
  }
  if (state.good_steps >= 0 && state.overflows_left >= 0) return absl::OkStatus();
  return MakeError(
      WEFT_INVALID_ARGUMENT,
      StrCat("loss_scale_good_steps is ", state.good_steps, ", loss_scale_overflows_left ",
             state.overflows_left, "; use what weft_shard_state_scalars_get gave, 0 or more"));
}

void LossScale::SetState(const State& state) {
  if (options_.least == options_.greatest) *this = Static(state.value);
  value_ = state.value;
  good_steps_ = state.good_steps;
  overflows_left_ = state.overflows_left;
}

bool LossScale::Update(bool found_inf) {
  if (found_inf) {
    good_steps_ = 0;
    overflows_left_ = std::max<int64_t>(0, overflows_left_ - 1);
    if (overflows_left_ == 0) value_ = std::max(value_ / 2, options_.least);
    return true;
  }
  if (++good_steps_ < options_.growth_steps) return false;
  good_steps_ = 0;
  overflows_left_ = options_.hysteresis;
  value_ = std::min(value_ * 2, options_.greatest);
  return false;
}

}  // namespace weft
