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
    : options_(options), state_{.value = options.initial, .overflows_left = options.hysteresis} {
  WEFT_CHECK(CheckLossScaleOptions(options).ok());
}

LossScale LossScale::Static(double value) {
  return LossScale({.initial = value, .least = value, .greatest = value});
}

bool LossScale::Update(bool found_inf) {
  if (found_inf) {
    state_.good_steps = 0;
    state_.overflows_left = std::max<int64_t>(0, state_.overflows_left - 1);
    if (state_.overflows_left == 0) state_.value = std::max(state_.value / 2, options_.least);
    return true;
  }
  if (++state_.good_steps < options_.growth_steps) return false;
  state_.good_steps = 0;
  state_.overflows_left = options_.hysteresis;
  state_.value = std::min(state_.value * 2, options_.greatest);
  return false;
}

}  // namespace weft
