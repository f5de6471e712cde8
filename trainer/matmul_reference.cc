#include <algorithm>
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

  NumberType input_type() const override {
    return sizeof(T) == sizeof(float) ? InputTypeOf(precision_) : kNumberTypeOf<T>;
  }

  void Forward(Numbers inputs, Numbers weights, Addends<T> addends, MutableNumbers y, MatmulShape s,
               bool w_transposed) override {
    const std::vector<T> x = Whole(inputs, s.m, s.k), w = Whole(weights, s.k, s.n);
    std::vector<T> sums(s.m * s.n);
    for (size_t i = 0; i < sums.size(); i++)
      sums[i] = addends.bias == nullptr ? T(0) : addends.bias[i % s.n];
    const View<T> weight = w_transposed ? View<T>{w.data(), 1, s.k} : View<T>{w.data(), s.n, 1};
    Product({x.data(), s.k, 1}, weight, sums.data(), s.m, s.k, s.n);
    if (addends.matrix != nullptr)
      GetOps<T>().add(sums.data(), addends.matrix, sums.data(), sums.size());
    Give(sums, y, s.n);
  }

  void BackwardInput(Numbers gradients, Numbers weights, MutableNumbers dx, MatmulShape s,
                     bool w_transposed, bool adds) override {
    const std::vector<T> dy = Whole(gradients, s.m, s.n), w = Whole(weights, s.k, s.n);
    std::vector<T> sums = adds ? Whole(dx, s.m, s.k) : std::vector<T>(s.m * s.k);
    const View<T> weight = w_transposed ? View<T>{w.data(), s.k, 1} : View<T>{w.data(), 1, s.n};
    Product({dy.data(), s.n, 1}, weight, sums.data(), s.m, s.n, s.k);
    Give(sums, dx, s.k);
  }

  void BackwardWeight(Numbers inputs, Numbers gradients, WeightGradient<T> dw, MatmulShape s,
                      bool w_transposed) override {
    const std::vector<T> x = Whole(inputs, s.m, s.k), dy = Whole(gradients, s.m, s.n);
    if (dw.unset) std::fill_n(dw.data, s.k * s.n, T(0));
    if (w_transposed) {
      Product({dy.data(), 1, s.n}, {x.data(), s.k, 1}, dw.data, s.n, s.m, s.k);
    } else {
      Product({x.data(), 1, s.k}, {dy.data(), s.n, 1}, dw.data, s.k, s.m, s.n);
    }
  }

 private:
  // Dense, in T.
  static std::vector<T> Whole(Numbers x, size_t rows, size_t columns) {
    std::vector<T> whole(rows * columns);
    for (size_t i = 0; i < rows; i++)
      GetOps<T>().widen(x.Rows(i, columns), whole.data() + i * columns, columns);
    return whole;
  }

  static void Give(const std::vector<T>& sums, MutableNumbers to, size_t columns) {
    for (size_t i = 0; i * columns < sums.size(); i++) {
      const T* const row = sums.data() + i * columns;
      const size_t at = i * to.StrideOf(columns);
      if (to.type == NumberType::kBf16) {
        GetOps<T>().to_bf16(row, static_cast<uint16_t*>(to.data) + at, columns);
      } else {
        std::copy_n(row, columns, static_cast<T*>(to.data) + at);
      }
    }
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

  const Precision precision_;
};

}  // namespace

const char* NameOf(Precision precision) {
  if (precision == Precision::kBf16) return "bf16";
  return precision == Precision::kFp16 ? "fp16" : "fp32";
}

size_t MatmulBytes(Precision precision, NumberType weights, const LargestOperands& largest,
                   size_t threads) {
  constexpr size_t kHalf = sizeof(uint16_t), kWhole = sizeof(float);
  const size_t widened = weights == NumberType::kFloat32 ? 0 : kWhole * largest.weights;
  switch (precision) {
    case Precision::kFp32:
      return widened;
    case Precision::kBf16: {
      const size_t rounded = weights == NumberType::kBf16 ? 0 : kHalf * largest.weights;
      const size_t sums = kWhole * largest.activations * threads;
      return rounded + sums + (weights == NumberType::kFp16 ? widened : 0);
    }
    case Precision::kFp16:
      break;
  }
  // Rounded, and widened again; weights of 16 bits are as they are.
  const size_t of_weights = widened > 0 ? widened : (kHalf + kWhole) * largest.weights;
  return of_weights + (kHalf + kWhole) * std::max(largest.activations, largest.logits);
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
