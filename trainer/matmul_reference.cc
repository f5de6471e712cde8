#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/matmul.h"
#include "trainer/ops.h"

namespace weft::trainer {
namespace {

// An operand by its strides, so that one product serves all three layouts.
template <typename T>
struct View {
  const T* at;
  size_t row;
  size_t column;
};

template <typename T>
class ReferenceMatmul : public Matmul<T> {
 public:
  explicit ReferenceMatmul(Precision precision) : precision_(precision) {}

  void Forward(const T* x, Numbers weights, const T* bias, T* y, MatmulShape s,
               bool w_transposed) override {
    const T* const w = Whole(weights, s);
    for (size_t i = 0; i < s.m; i++) {
      for (size_t j = 0; j < s.n; j++)
        y[i * s.n + j] = bias == nullptr ? T(0) : bias[j];
    }
    const View<T> weight = w_transposed ? View<T>{w, 1, s.k} : View<T>{w, s.n, 1};
    Product({x, s.k, 1}, weight, y, s.m, s.k, s.n);
  }

  void BackwardInput(const T* dy, Numbers weights, T* dx, MatmulShape s,
                     bool w_transposed) override {
    const T* const w = Whole(weights, s);
    for (size_t i = 0; i < s.m * s.k; i++)
      dx[i] = 0;
    const View<T> weight = w_transposed ? View<T>{w, s.k, 1} : View<T>{w, 1, s.n};
    Product({dy, s.n, 1}, weight, dx, s.m, s.n, s.k);
  }

  void BackwardWeight(const T* x, const T* dy, T* dw, MatmulShape s, bool w_transposed) override {
    if (w_transposed) {
      Product({dy, 1, s.n}, {x, s.k, 1}, dw, s.n, s.m, s.k);
    } else {
      Product({x, 1, s.k}, {dy, s.n, 1}, dw, s.k, s.m, s.n);
    }
  }

 private:
  const T* Whole(Numbers weights, MatmulShape s) {
    if (weights.type == kNumberTypeOf<T>) return static_cast<const T*>(weights.data);
    whole_.resize(s.k * s.n);
    GetOps<T>().widen(weights, whole_.data(), whole_.size());
    return whole_.data();
  }

  // Dense copy of an operand, rounded to 16 bits where that is asked for.
  std::vector<T> Packed(View<T> from, size_t rows, size_t columns) const {
    std::vector<T> to(rows * columns);
    for (size_t i = 0; i < rows; i++) {
      for (size_t j = 0; j < columns; j++) {
        to[i * columns + j] = from.at[i * from.row + j * from.column];
      }
    }
    if (precision_ == Precision::kFp32) return to;
    const Ops<T>& ops = GetOps<T>();
    const bool bf16 = precision_ == Precision::kBf16;
    std::vector<uint16_t> half(to.size());
    (bf16 ? ops.to_bf16 : ops.to_fp16)(to.data(), half.data(), to.size());
    ops.widen({half.data(), bf16 ? NumberType::kBf16 : NumberType::kFp16}, to.data(), to.size());
    return to;
  }

  // c[m, n] += a[m, k] b[k, n]
  void Product(View<T> a, View<T> b, T* c, size_t m, size_t k, size_t n) const {
    const std::vector<T> left = Packed(a, m, k);
    const std::vector<T> right = Packed(b, k, n);
    for (size_t i = 0; i < m; i++) {
      for (size_t p = 0; p < k; p++) {
        const T x = left[i * k + p];
        for (size_t j = 0; j < n; j++)
          c[i * n + j] += x * right[p * n + j];
      }
    }
  }

  Precision precision_;
  std::vector<T> whole_;
};

}  // namespace

const char* NameOf(Precision precision) {
  if (precision == Precision::kBf16) return "bf16";
  return precision == Precision::kFp16 ? "fp16" : "fp32";
}

Precision FastestPrecision() {
  __builtin_cpu_init();
  const bool native = __builtin_cpu_supports("avx512bf16");
  return native && PrecisionSupported(Precision::kBf16) ? Precision::kBf16 : Precision::kFp32;
}

template <typename T>
std::unique_ptr<Matmul<T>> MakeReferenceMatmul(Precision precision) {
  return std::make_unique<ReferenceMatmul<T>>(precision);
}

template std::unique_ptr<Matmul<float>> MakeReferenceMatmul<float>(Precision);
template std::unique_ptr<Matmul<double>> MakeReferenceMatmul<double>(Precision);

template <>
std::unique_ptr<Matmul<double>> MakeMatmul<double>(Precision precision) {
  return MakeReferenceMatmul<double>(precision);
}

#ifdef WEFT_SANITIZE

// oneDNN's generated code cannot be instrumented, and its OpenMP runtime confuses ThreadSanitizer.
bool PrecisionSupported(Precision) {
  return true;
}

template <>
std::unique_ptr<Matmul<float>> MakeMatmul<float>(Precision precision) {
  return MakeReferenceMatmul<float>(precision);
}

#endif

}  // namespace weft::trainer
