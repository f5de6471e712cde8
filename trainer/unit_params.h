// The parameters and gradients of a model, by unit, as the model meets them: whoever owns them implements UnitHooks, in the
// trainer a weft shard context, which learns through them when a unit is needed and when a gradient is complete. Where
// they lie may change from use to use: the hook that opens a use says it.
//
//   UnitParams<float> params(hooks);
//   params.EnterForward(unit);
//   ... params.Matrix(kQkv), params.Vector(kQkvBias) ...
//   params.LeaveForward();
//
// Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_UNIT_PARAMS_H_
#define WEFT_TRAINER_UNIT_PARAMS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/matmul.h"
#include "trainer/number_type.h"

namespace weft::trainer {

// Where a parameter and its gradient are while their unit is in use.
template <typename T>
struct ParamView {
  Numbers data;
  T* grad = nullptr;
  size_t count = 0;
  bool grad_unset = false;  // grad holds nothing yet: it is written, not added to
};

// The parameters of a unit, as ModelUnits lists them.
template <typename T>
using UnitView = std::span<const ParamView<T>>;

// Called around the use of each unit. An embedding unit to which the output head is tied is used twice: at both ends of
// forward, and of backward, which announces its gradients at the second use.
template <typename T>
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  // The unit's parameters, where they are until PostForward.
  virtual UnitView<T> PreForward(size_t unit) = 0;
  virtual void PostForward(size_t unit) = 0;
  // Parameters and gradients, where they are until PostBackward.
  virtual UnitView<T> PreBackward(size_t unit) = 0;
  virtual void GradReady(size_t unit, size_t param) = 0;
  virtual void PostBackward(size_t unit) = 0;
};

// The unit that is in use: one at a time.
template <typename T>
class UnitParams {
 public:
  explicit UnitParams(UnitHooks<T>& hooks) : hooks_(hooks) {}

  void EnterForward(size_t unit);
  void LeaveForward();
  void EnterBackward(size_t unit);
  void LeaveBackward();

  // As it lies there, in its own type.
  Numbers Matrix(size_t param) const { return view_[param].data; }

  // A vector, as T's: a copy where its own type has fewer bits.
  const T* Vector(size_t param);

  // Of a vector or a table, which gradients are added to.
  T* Grad(size_t param) const { return view_[param].grad; }

  // Of a matrix.
  WeightGradient<T> MatrixGrad(size_t param) const {
    return {view_[param].grad, view_[param].grad_unset};
  }

  // That nothing more is added to it.
  void GradReady(size_t param) { hooks_.GradReady(unit_, param); }

 private:
  UnitHooks<T>& hooks_;
  size_t unit_ = 0;
  UnitView<T> view_;                     // empty between uses, so that a late access fails at once
  std::vector<std::vector<T>> widened_;  // by param, of this use; empty: not asked for yet
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_UNIT_PARAMS_H_
