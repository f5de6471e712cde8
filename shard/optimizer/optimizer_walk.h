// How an optimizer goes through its arrays: a register of each at a time, with one more for what is left.
//
//   ForEachRegister<Lanes>(arrays, [=](const RegisterPlace& place) { ... load, compute, store ... });
//
// Invariants:
// 1. A new value depends on the old values at the same place only, whatever the position, count and width:
//    what does not fill a register goes through the same body with other elements beside.
// 2. Nothing outside [0, count) of any array is read or written.
//
// Internal linkage throughout, see comm/kernels/lanes.h.
#pragma once

#include "comm/kernels/default_rounding.h"
#include "comm/kernels/lanes.h"
#include "shard/optimizer/optimizer_arguments.h"

namespace weft {
namespace {

// The elements of one register in every array.
struct RegisterPlace {
  float* weights;
  float* first_moment;
  float* second_moment;
  const char* gradients;
  char* cast;
};

constexpr size_t BytesOf(weft_dtype_t dtype) {
  if (dtype == WEFT_FLOAT64) return 8;
  return dtype == WEFT_FLOAT32 ? 4 : 2;
}

// OptimizerArrays in the form of a loop: arrays that an optimizer does not have stay nullptr.
class Walk {
 public:
  WEFT_INLINE explicit Walk(const OptimizerArrays& arrays)
      : arrays_(arrays),
        gradient_bytes_(BytesOf(arrays.gradient_dtype)),
        cast_bytes_(BytesOf(arrays.cast_dtype)) {}

  WEFT_INLINE RegisterPlace At(size_t i) const {
    return {arrays_.weights + i, From(arrays_.first_moment, i), From(arrays_.second_moment, i),
            From(static_cast<const char*>(arrays_.gradients), i * gradient_bytes_),
            From(static_cast<char*>(arrays_.cast), i * cast_bytes_)};
  }

  WEFT_INLINE size_t gradient_bytes() const { return gradient_bytes_; }

  WEFT_INLINE size_t cast_bytes() const { return cast_bytes_; }

 private:
  template <typename T>
  WEFT_INLINE static T* From(T* array, size_t i) {
    return array == nullptr ? nullptr : array + i;
  }

  const OptimizerArrays arrays_;  // a copy: no store of the loop can change it
  size_t gradient_bytes_;
  size_t cast_bytes_;
};

// A register's worth of every array. Its first elements are copies of the arrays' last.
template <typename Lanes>
class Remainder {
 public:
  Remainder(const OptimizerArrays& arrays, size_t first)
      : walk_(arrays), place_(walk_.At(first)), count_(arrays.count - first) {
    Copy(weights_, place_.weights, sizeof(float));
    Copy(first_moment_, place_.first_moment, sizeof(float));
    Copy(second_moment_, place_.second_moment, sizeof(float));
    Copy(gradients_, place_.gradients, walk_.gradient_bytes());
  }

  RegisterPlace place() {
    return {weights_, place_.first_moment == nullptr ? nullptr : first_moment_,
            place_.second_moment == nullptr ? nullptr : second_moment_, gradients_,
            place_.cast == nullptr ? nullptr : cast_};
  }

  void CopyBack() const {
    Copy(place_.weights, weights_, sizeof(float));
    Copy(place_.first_moment, first_moment_, sizeof(float));
    Copy(place_.second_moment, second_moment_, sizeof(float));
    Copy(place_.cast, cast_, walk_.cast_bytes());
  }

 private:
  // Unless the arrays do not have it.
  void Copy(void* to, const void* from, size_t element_bytes) const {
    if (to != nullptr && from != nullptr) __builtin_memcpy(to, from, count_ * element_bytes);
  }

  const Walk walk_;
  const RegisterPlace place_;
  const size_t count_;
  float weights_[Lanes::kWidth] = {};
  float first_moment_[Lanes::kWidth] = {};
  float second_moment_[Lanes::kWidth] = {};
  char gradients_[8 * Lanes::kWidth] = {};
  char cast_[4 * Lanes::kWidth] = {};
};

// Calls update(place) for all elements, a register at a time.
template <typename Lanes, typename Update>
WEFT_INLINE void ForEachRegister(const OptimizerArrays& arrays, Update update) {
  const DefaultRounding rounding;
  const Walk walk(arrays);
  size_t i = 0;
  for (; i + Lanes::kWidth <= arrays.count; i += Lanes::kWidth)
    update(walk.At(i));
  if (i == arrays.count) return;
  Remainder<Lanes> remainder(arrays, i);
  update(remainder.place());
  remainder.CopyBack();
}

}  // namespace
}  // namespace weft
