#include "trainer/unit_params.h"

#include "trainer/ops.h"

namespace weft::trainer {

template <typename T>
void UnitParams<T>::EnterForward(size_t unit) {
  view_ = hooks_.PreForward(unit);
  unit_ = unit;
}

template <typename T>
void UnitParams<T>::LeaveForward() {
  view_ = {};
  widened_.clear();
  hooks_.PostForward(unit_);
}

template <typename T>
void UnitParams<T>::EnterBackward(size_t unit) {
  view_ = hooks_.PreBackward(unit);
  unit_ = unit;
}

template <typename T>
void UnitParams<T>::LeaveBackward() {
  view_ = {};
  widened_.clear();
  hooks_.PostBackward(unit_);
}

template <typename T>
const T* UnitParams<T>::Vector(size_t param) {
  const ParamView<T>& view = view_[param];
  if (view.data.type == kNumberTypeOf<T>) return static_cast<const T*>(view.data.data);
  widened_.resize(view_.size());
  std::vector<T>& values = widened_[param];
  if (values.empty()) {
    values.resize(view.count);
    GetOps<T>().widen(view.data, values.data(), view.count);
  }
  return values.data();
}

template class UnitParams<float>;
template class UnitParams<double>;

}  // namespace weft::trainer
