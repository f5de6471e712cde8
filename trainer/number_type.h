// Types of numbers in memory that the trainer tells apart while it runs: weights, and what a
// product of 16 bits reads, may have 16 bits where everything else has 32.
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

// Numbers of some type that somebody else owns: in a row, or in rows of a matrix that begin
// `stride` numbers apart.
struct Numbers {
  const void* data = nullptr;
  NumberType type = NumberType::kFloat32;
  size_t stride = 0;  // 0: that of a dense matrix

  constexpr Numbers() = default;

  constexpr Numbers(const void* numbers, NumberType of, size_t between_rows = 0)
      : data(numbers), type(of), stride(between_rows) {}

  // NOLINTBEGIN(google-explicit-constructor): implicit, as a string is a string_view
  constexpr Numbers(const float* numbers) : Numbers(numbers, NumberType::kFloat32) {}

  constexpr Numbers(const double* numbers) : Numbers(numbers, NumberType::kFloat64) {}

  // NOLINTEND(google-explicit-constructor)

  // Of a matrix with so many columns.
  constexpr size_t StrideOf(size_t columns) const { return stride == 0 ? columns : stride; }

  // The rows of such a matrix from `first` on.
  Numbers Rows(size_t first, size_t columns) const {
    const size_t bytes = first * StrideOf(columns) * BytesOf(type);
    return {static_cast<const std::byte*>(data) + bytes, type, stride};
  }
};

// As Numbers, to be written.
struct MutableNumbers {
  void* data = nullptr;
  NumberType type = NumberType::kFloat32;
  size_t stride = 0;

  constexpr MutableNumbers() = default;

  constexpr MutableNumbers(void* numbers, NumberType of, size_t between_rows = 0)
      : data(numbers), type(of), stride(between_rows) {}

  // NOLINTBEGIN(google-explicit-constructor): as above
  constexpr MutableNumbers(float* numbers) : MutableNumbers(numbers, NumberType::kFloat32) {}

  constexpr MutableNumbers(double* numbers) : MutableNumbers(numbers, NumberType::kFloat64) {}

  constexpr operator Numbers() const { return {data, type, stride}; }

  // NOLINTEND(google-explicit-constructor)

  constexpr size_t StrideOf(size_t columns) const { return stride == 0 ? columns : stride; }
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_NUMBER_TYPE_H_
