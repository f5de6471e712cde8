#include "trainer/gemm_rate.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

#include "trainer/activations.h"
#include "trainer/aligned_vector.h"

namespace weft::trainer {
namespace {

using Steady = std::chrono::steady_clock;

constexpr double kLargestFlops = 2e9;  // of one product, unless it has only kFewestRows
constexpr double kCheapFlops = 5e10;   // a core makes 50 to 200 G of them per second
constexpr size_t kFewestRows = 64;     // fewer are multiplied at a lower rate
// Of all bytes, so that elements are 0.0115, of any type.
constexpr std::byte kByte{0x3c};

enum class Direction { kForward, kBackwardInput, kBackwardWeight };

struct Product {
  MatmulShape shape;
  bool w_transposed = false;
  Direction direction = Direction::kForward;
  size_t count = 1;  // in a step
  double seconds = std::numeric_limits<double>::infinity();

  double Flops() const { return 2 * double(shape.m) * double(shape.k) * double(shape.n); }
};

// As blocks and model.cc make them.
std::vector<Product> ProductsOf(const ModelConfig& model, size_t rows) {
  std::vector<Product> forward;
  for (const LinearShape& s : BlockLinears(model))
    forward.push_back({{rows, s.in, s.out}, s.transposed, Direction::kForward, model.layers});
  forward.push_back({{rows, model.width, model.padded_vocabulary()}, true, Direction::kForward, 1});
  std::vector<Product> all;
  for (const Product& product : forward) {
    for (const Direction direction :
         {Direction::kForward, Direction::kBackwardInput, Direction::kBackwardWeight}) {
      all.push_back(product);
      all.back().direction = direction;
    }
  }
  return all;
}

// Columns of the widest matrix that goes into a block's product, and of the widest of all.
size_t WidestInput(const ModelConfig& model) {
  return std::max(model.width, model.hidden_width());
}

size_t Widest(const ModelConfig& model) {
  return std::max({WidestInput(model), model.qkv_columns(), model.padded_vocabulary()});
}

size_t RowsFor(const ModelConfig& model, size_t rows) {
  const double of_a_row = 2 * double(model.width) * double(Widest(model));
  const size_t most = size_t(std::min(kLargestFlops / of_a_row, double(rows)));
  return std::min(rows, std::max(most, kFewestRows));
}

// What the products read and write, as large as the largest of them and of the type and strides
// that a block's have; all but `dw` is the same for each product, so nothing grows.
class Operands {
 public:
  Operands(const ModelConfig& model, size_t rows, NumberType type) : type_(type) {
    const size_t widest = Widest(model);
    const size_t wide_bytes = rows * InputStride(widest, type) * BytesOf(type);
    x_.resize(rows * InputStride(WidestInput(model), type) * BytesOf(type), kByte);
    y_.resize(wide_bytes, kByte);
    out_.resize(wide_bytes);
    w_.resize(model.width * widest * sizeof(float), kByte);
    dw_.resize(model.width * widest);
  }

  static uint64_t Bytes(const ModelConfig& model, size_t rows) {
    const size_t widest = Widest(model);
    return sizeof(float) * (rows * (WidestInput(model) + 2 * widest) + 2 * model.width * widest);
  }

  void Multiply(const Product& p, Matmul<float>& matmul) {
    const MutableNumbers x = View(x_, p.shape.k), y = View(y_, p.shape.n);
    switch (p.direction) {
      case Direction::kForward:
        return matmul.Forward(x, Weights(), {}, View(out_, p.shape.n), p.shape, p.w_transposed);
      case Direction::kBackwardInput:
        return matmul.BackwardInput(y, Weights(), View(out_, p.shape.k), p.shape, p.w_transposed);
      case Direction::kBackwardWeight:
        return matmul.BackwardWeight(x, y, {dw_.data(), true}, p.shape, p.w_transposed);
    }
  }

 private:
  MutableNumbers View(AlignedVector<std::byte>& matrix, size_t columns) const {
    return {matrix.data(), type_, InputStride(columns, type_)};
  }

  Numbers Weights() const { return {w_.data(), NumberType::kFloat32}; }

  const NumberType type_;
  AlignedVector<std::byte> x_, y_, out_, w_;
  AlignedVector<float> dw_;
};

}  // namespace

bool GemmRateIsCheap(const ModelConfig& model, size_t rows, uint64_t memory_bytes) {
  rows = RowsFor(model, rows);
  double flops = 0;
  for (const Product& product : ProductsOf(model, rows))
    flops += 2 * product.Flops();
  return flops <= kCheapFlops && Operands::Bytes(model, rows) <= memory_bytes / 2;
}

GemmRate MeasureGemmRate(const ModelConfig& model, size_t rows, Matmul<float>& matmul,
                         double seconds) {
  GemmRate rate;
  rate.rows = RowsFor(model, rows);
  std::vector<Product> products = ProductsOf(model, rate.rows);
  Operands operands(model, rate.rows, matmul.input_type());
  const auto start = Steady::now();
  const auto seconds_since = [](Steady::time_point from) {
    return std::chrono::duration<double>(Steady::now() - from).count();
  };
  for (size_t pass = 0; pass < 2 || seconds_since(start) < seconds; pass++) {
    for (Product& product : products) {
      const auto begin = Steady::now();
      operands.Multiply(product, matmul);
      // The first pass makes the primitives.
      if (pass > 0) product.seconds = std::min(product.seconds, seconds_since(begin));
    }
  }
  double flops = 0, sum = 0;
  for (const Product& product : products) {
    flops += double(product.count) * product.Flops();
    sum += double(product.count) * product.seconds;
    rate.peak = std::max(rate.peak, product.Flops() / product.seconds);
  }
  rate.mean = flops / sum;
  return rate;
}

}  // namespace weft::trainer
