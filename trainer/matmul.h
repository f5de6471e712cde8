// The three matrix products of a linear layer y[m, n] = x[m, k] w[k, n] + bias[n].
//
//   auto matmul = MakeMatmul<float>(Precision::kBf16);
//   matmul->Forward(x, w, bias, y, {m, k, n});
//   matmul->BackwardInput(dy, w, dx, {m, k, n});     // dx = dy w^T
//   matmul->BackwardWeight(x, dy, dw, {m, k, n});    // dw += x^T dy
//
// float runs on oneDNN, with one primitive per shape made on first use; double, and every build with
// sanitizers, on a plain loop. kBf16 and kFp16 round both inputs to 16 bits and add in float32; kFp16 is
// emulated. Weights may have
// 16 bits: they are multiplied where they lie if the product rounds to their type, else widened first, which is exact.
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

template <typename T>
class Matmul {
 public:
  virtual ~Matmul() = default;
  // bias may be null. With `w_transposed`, w is stored [n, k].
  virtual void Forward(const T* x, Numbers w, const T* bias, T* y, MatmulShape shape,
                       bool w_transposed = false) = 0;
  virtual void BackwardInput(const T* dy, Numbers w, T* dx, MatmulShape shape,
                             bool w_transposed = false) = 0;
  virtual void BackwardWeight(const T* x, const T* dy, T* dw, MatmulShape shape,
                              bool w_transposed = false) = 0;
};

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
