// Parameters and gradients of a model in plain vectors, for tests that need no ranks.
#ifndef WEFT_TESTS_TRAINER_OWNED_PARAMS_H_
#define WEFT_TESTS_TRAINER_OWNED_PARAMS_H_

#include <cstddef>
#include <vector>

#include "trainer/model_units.h"
#include "trainer/unit_params.h"

namespace weft::trainer {

template <typename T>
class OwnedParams : public UnitHooks<T> {
 public:
  explicit OwnedParams(const std::vector<UnitSpec>& units) {
    for (const UnitSpec& unit : units) {
      auto& d = data.emplace_back();
      auto& g = grad.emplace_back();
      for (const ParamSpec& param : unit.params) {
        d.emplace_back(param.Count());
        g.emplace_back(param.Count());
      }
    }
    views_.resize(units.size());
  }

  UnitView<T> PreForward(size_t unit) override { return View(unit); }

  void PostForward(size_t) override {}

  UnitView<T> PreBackward(size_t unit) override { return View(unit); }

  void PostBackward(size_t) override {}

  void GradReady(size_t, size_t) override {}

  std::vector<std::vector<std::vector<T>>> data, grad;  // by unit and param

 private:
  UnitView<T> View(size_t unit) {
    views_[unit].clear();
    for (size_t p = 0; p < data[unit].size(); p++) {
      views_[unit].push_back({data[unit][p].data(), grad[unit][p].data(), data[unit][p].size()});
    }
    return views_[unit];
  }

  std::vector<std::vector<ParamView<T>>> views_;
};

}  // namespace weft::trainer

#endif  // WEFT_TESTS_TRAINER_OWNED_PARAMS_H_
