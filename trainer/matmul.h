// The three matrix products of a linear layer y[m, n] = x[m, k] w[k, n] + bias[n] + addend[m, n].
//
//   auto matmul = MakeMatmul<float>(Precision::kBf16);
//   matmul->Forward(x, w, {bias}, y, {m, k, n});
//   matmul->BackwardInput(dy, w, dx, {m, k, n});     // dx = dy w^T
//   matmul->BackwardWeight(x, dy, {dw}, {m, k, n});  // dw += x^T dy
//
// float runs on oneDNN, with one primitive per shape made on first use; double, and every build
// with sanitizers, on a plain loop. kBf16 and kFp16 round both inputs to 16 bits and add in
// float32; kFp16 is emulated. An input that has the type that is multiplied is read where it lies;
// another is rounded, or widened, which is exact, for each product anew. y and dx may have the type
// of the inputs beside T. All but weights and dw may have strides.
//
// Thread-safety: an object belongs to the thread that made it.
#ifndef WEFT_TRAINER_MATMUL_H_
#define WEFT_TRAINER_MATMUL_H_

#include <cstddef>
#include <memory>

#include "trainer/number_type.h"

namespace weft::trainer {

enum class Precision { kFp32, kBf16, kFp16 };

// "fp32".
const char* NameOf(Precision precision);

struct MatmulShape {
  size_t m = 0;
  size_t k = 0;
  size_t n = 0;
};

// What is added to a product; null: nothing.
template <typename T>
struct Addends {
  const T* bias = nullptr;    // [n]
  const T* matrix = nullptr;  // [m, n]
};

// A gradient of weights, to which a product is added; or which it becomes, where that holds nothing
// yet.
template <typename T>
struct WeightGradient {
  T* data = nullptr;
  bool unset = false;
};

template <typename T>
class Matmul {
 public:
  virtual ~Matmul() = default;
  // The type of inputs that are read where they lie.
  virtual NumberType input_type() const = 0;
  // With `w_transposed`, w is stored [n, k].
  virtual void Forward(Numbers x, Numbers w, Addends<T> addends, MutableNumbers y,
                       MatmulShape shape, bool w_transposed = false) = 0;
  // With `adds`, dx += , and dx has the type T.
  virtual void BackwardInput(Numbers dy, Numbers w, MutableNumbers dx, MatmulShape shape,
                             bool w_transposed = false, bool adds = false) = 0;
  virtual void BackwardWeight(Numbers x, Numbers dy, WeightGradient<T> dw, MatmulShape shape,
                              bool w_transposed = false) = 0;
};

// That of MakeMatmul<float>(precision).
constexpr NumberType InputTypeOf(Precision precision) {
  return precision == Precision::kBf16 ? NumberType::kBf16 : NumberType::kFloat32;
}

// The largest operands of a model's products, in numbers.
struct LargestOperands {
  size_t activations = 0;  // of a product's input or output inside of a block
  size_t logits = 0;       // of a tile
  size_t weights = 0;
};

// Bytes that MakeMatmul<float>(precision) comes to keep beside its operands: those in the type that
// is multiplied, and, of outputs of 16 bits, their sums.
size_t MatmulBytes(Precision precision, NumberType weights, const LargestOperands& largest,
                   size_t threads);

// Whether MakeMatmul<float>(precision) works on this machine.
bool PrecisionSupported(Precision precision);

// kBf16 where the CPU multiplies bfloat16 natively (AVX512_BF16, AMX), else kFp32.
Precision FastestPrecision();

template <typename T>
std::unique_ptr<Matmul<T>> MakeMatmul(Precision precision);

// The plain loops, for comparison.
template <typename T>
std::unique_ptr<Matmul<T>> MakeReferenceMatmul(Precision precision);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MATMUL_H_
