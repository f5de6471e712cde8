#include "trainer/optimizer.h"

#include <cmath>

namespace weft::trainer {

Adamw::Adamw(const std::vector<UnitSpec>& units, std::vector<std::vector<ParamView<float>>> views) {
  for (size_t u = 0; u < units.size(); u++) {
    for (size_t p = 0; p < units[u].params.size(); p++) {
      const ParamView<float>& view = views[u][p];
      slots_.push_back({view, units[u].params[p].decay, std::vector<float>(view.count),
                        std::vector<float>(view.count)});
    }
  }
}

double Adamw::Step(double lr, double clip, double weight_decay) {
  const Ops<float>& ops = GetOps<float>();
  double squares = 0;
  for (const Slot& slot : slots_)
    squares += ops.sum_squares(slot.view.grad, slot.view.count);
  const double norm = std::sqrt(squares);
  AdamwStep step;
  step_++;
  step.lr = lr;
  step.grad_scale = clip > 0 && norm > clip ? clip / norm : 1;
  step.correction1 = 1 - std::pow(step.beta1, double(step_));
  step.correction2 = 1 - std::pow(step.beta2, double(step_));
  for (Slot& slot : slots_) {
    step.weight_decay = slot.decay ? weight_decay : 0;
    ops.adamw(slot.view.data, slot.view.grad, slot.m.data(), slot.v.data(), slot.view.count, step);
  }
  return norm;
}

}  // namespace weft::trainer
