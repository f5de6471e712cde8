// Types of numbers in memory that the trainer tells apart while it runs: weights may have 16 bits where everything else has 32.
//
// Thread-safety: values.
#ifndef WEFT_TRAINER_NUMBER_TYPE_H_
#define WEFT_TRAINER_NUMBER_TYPE_H_

#include <cstddef>

namespace weft::trainer {

enum class NumberType { kFloat32, kFloat64, kBf16, kFp16 };

constexpr size_t BytesOf(NumberType type) {
  if (type == NumberType::kFloat64) return 8;
  return type == NumberType::kFloat32 ? 4 : 2;
}

// That of float or double.
template <typename T>
constexpr NumberType kNumberTypeOf = sizeof(T) == sizeof(double) ? NumberType::kFloat64
                                                                 : NumberType::kFloat32;

// Numbers of some type that somebody else owns.
struct Numbers {
  const void* data = nullptr;
  NumberType type = NumberType::kFloat32;
};

template <typename T>
constexpr Numbers NumbersOf(const T* data) {
  return {data, kNumberTypeOf<T>};
}

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_NUMBER_TYPE_H_
