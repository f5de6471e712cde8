#include "tests/shard/gradient_step.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/status.h"
#include "comm/kernels/dtype.h"

namespace weft {

absl::Status RunGradientStep(Context& context, const std::vector<ModelParam>& model,
                             const std::function<absl::Status(int unit)>& give) {
  const int last = UnitsOf(model).back();
  WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
  WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
  for (int unit = 0; unit <= last; ++unit) {
    WEFT_RETURN_IF_ERROR(context.PreForward(unit));
    WEFT_RETURN_IF_ERROR(context.PostForward(unit));
  }
  for (int unit = last; unit >= 0; --unit) {
    WEFT_RETURN_IF_ERROR(context.PreBackward(unit));
    WEFT_RETURN_IF_ERROR(give(unit));
    WEFT_RETURN_IF_ERROR(context.PostBackward(unit));
  }
  WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
  return context.Finish().status();
}

std::function<absl::Status(int unit)> InfiniteGradient(Context& context) {
  return [&context](int unit) -> absl::Status {
    if (unit != 0) return absl::OkStatus();
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context.View(0));
    if (view.grad != nullptr) {
      static_cast<float*>(view.grad)[3] = std::numeric_limits<float>::infinity();
    }
    return absl::OkStatus();
  };
}

weft_shard_update_t UpdateWith(double learning_rate, double norm_max) {
  return {.struct_size = sizeof(weft_shard_update_t),
          .learning_rate = learning_rate,
          .norm_max = norm_max};
}

std::vector<std::vector<double>> ClippedGradients(const std::vector<ModelParam>& model,
                                                  const Scenario& scenario, int step,
                                                  double norm_max) {
  const std::vector<Elements> bits = ExpectedGradients(model, scenario, step);
  std::vector<std::vector<double>> gradients(model.size());
  for (size_t p = 0; p < model.size(); ++p) {
    for (const uint64_t element : bits[p])
      gradients[p].push_back(DecodeFloat(model[p].dtype, element));
  }
  if (norm_max == 0) return gradients;
  const double factor = std::min(1.0, norm_max / (WholeNorm(gradients) + 1e-6));
  for (std::vector<double>& of_param : gradients) {
    for (double& gradient : of_param)
      gradient *= factor;
  }
  return gradients;
}

double WholeNorm(const std::vector<std::vector<double>>& gradients) {
  double squares = 0;
  for (const std::vector<double>& of_param : gradients) {
    for (const double gradient : of_param)
      squares += gradient * gradient;
  }
  return std::sqrt(squares);
}

}  // namespace weft
