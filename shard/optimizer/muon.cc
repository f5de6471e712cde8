// What is done element by element is SGD's kernel, called with other arrays: u is what it makes of weights that are zero, and the last
// line is its decoupled decay with X for a gradient. So every type of param and gradient is rounded as SGD rounds it.
#include "shard/optimizer/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "comm/kernels/default_rounding.h"
#include "comm/kernels/dtype.h"
#include "shard/optimizer/exact_sum.h"
#include "shard/optimizer/optimizer_kernels.h"
#include "shard/optimizer/piece.h"
#include "shard/optimizer/sum_squares.h"

namespace weft {
namespace {

constexpr int kIterations = 5;
constexpr float kA = 3.4445F;
constexpr float kB = -4.7750F;
constexpr float kC = 2.0315F;

// Of the built-in product: what a block of b has room for in a second-level cache, 128 KiB.
constexpr size_t kBlockDepth = 64;
constexpr size_t kBlockCols = 512;
constexpr size_t kRowsPerPiece = 16;

// to [cols, rows], in tiles that stay in the first-level cache.
void Transpose(const float* from, size_t rows, size_t cols, float* to) {
  constexpr size_t kTile = 32;
  for (size_t row = 0; row < rows; row += kTile) {
    for (size_t col = 0; col < cols; col += kTile) {
      for (size_t i = row; i < std::min(row + kTile, rows); ++i) {
        for (size_t j = col; j < std::min(col + kTile, cols); ++j)
          to[j * rows + i] = from[i * cols + j];
      }
    }
  }
}

// out += row * block: `row` has `count` elements, and `block` a row of `width` for each of them, `stride` apart.
void AddRowTimesBlock(const float* row, size_t count, const float* block, size_t stride,
                      size_t width, float* out) {
  for (size_t at = 0; at < count; ++at) {
    const float factor = row[at];
    const float* const of_block = block + at * stride;
    for (size_t j = 0; j < width; ++j)
      out[j] += factor * of_block[j];
  }
}

void Multiply(ThreadTeam& team, const MatrixProduct& product, const float* a, const float* b,
              float* c, const Matrix& of_c, size_t k) {
  if (product.product == nullptr) return MultiplyPlainly(team, a, b, c, of_c.rows, of_c.cols, k);
  product.product(a, b, c, of_c.rows, of_c.cols, k, product.user);
}

void UpdateBySgdPieces(Isa isa, ThreadTeam& team, const SgdStep& step,
                       const OptimizerArrays& arrays) {
  team.ForEach(PieceCount(0, arrays.count), [&](size_t index, int) {
    const Piece piece = PieceOf(0, arrays.count, index);
    OptimizerArrays part = arrays;
    part.weights += piece.begin;
    if (part.first_moment != nullptr) part.first_moment += piece.begin;
    part.gradients =
        static_cast<const char*>(arrays.gradients) + piece.begin * DtypeSize(arrays.gradient_dtype);
    if (part.cast != nullptr) {
      part.cast = static_cast<char*>(arrays.cast) + piece.begin * DtypeSize(arrays.cast_dtype);
    }
    part.count = piece.count;
    UpdateSgd(isa, step, part);
  });
}

// X = u / max(|u|, 1e-7), in place.
void Normalise(Isa isa, size_t count, float* x) {
  ExactSum squares;
  AddSquares(isa, WEFT_FLOAT32, x, count, 0, squares);
  const double divisor = std::max(std::sqrt(squares.Value()), 1e-7);
  for (size_t i = 0; i < count; ++i)
    x[i] = static_cast<float>(x[i] / divisor);
}

// The iterations on `x`, a matrix that is no higher than wide. The others are scratch: `transposed` and `more` as large as x, `a` and
// `b` of its rows squared.
void Orthogonalise(ThreadTeam& team, const MatrixProduct& product, const Matrix& shape, float* x,
                   float* transposed, float* more, float* a, float* b) {
  const Matrix square = {shape.rows, shape.rows};
  for (int i = 0; i < kIterations; ++i) {
    Transpose(x, shape.rows, shape.cols, transposed);
    Multiply(team, product, x, transposed, a, square, shape.cols);
    Multiply(team, product, a, a, b, square, shape.rows);
    for (size_t at = 0; at < square.count(); ++at)
      b[at] = kB * a[at] + kC * b[at];
    Multiply(team, product, b, x, more, shape, shape.rows);
    for (size_t at = 0; at < shape.count(); ++at)
      x[at] = kA * x[at] + more[at];
  }
}

}  // namespace

size_t MuonScratchFloats(const Matrix& shape) {
  const size_t side = std::min(shape.rows, shape.cols);
  return 3 * shape.count() + 2 * side * side;
}

void UpdateMuon(Isa isa, ThreadTeam& team, const MatrixProduct& product, const MuonOptions& options,
                double gradient_factor, const Matrix& shape, const OptimizerArrays& arrays,
                float* scratch) {
  const DefaultRounding rounding;
  const bool high = shape.rows > shape.cols;
  const Matrix wide = high ? Matrix{shape.cols, shape.rows} : shape;
  float* const update = scratch;
  float* const second = update + shape.count();
  float* const third = second + shape.count();
  float* const a = third + shape.count();
  float* const b = a + wide.rows * wide.rows;
  std::fill_n(update, shape.count(), 0.0F);
  UpdateBySgdPieces(isa, team,
                    {.gradient_factor = gradient_factor * (1 - options.momentum),
                     .coupled_decay = 0,
                     .decay = 0,
                     .momentum = options.momentum,
                     .step_size = -1,
                     .nesterov = options.nesterov},
                    {.weights = update,
                     .first_moment = arrays.first_moment,
                     .gradients = arrays.gradients,
                     .gradient_dtype = arrays.gradient_dtype,
                     .count = shape.count()});
  Normalise(isa, shape.count(), update);
  if (high) {
    Transpose(update, shape.rows, shape.cols, second);
    Orthogonalise(team, product, wide, second, update, third, a, b);
    Transpose(second, wide.rows, wide.cols, update);
  } else {
    Orthogonalise(team, product, wide, update, second, third, a, b);
  }
  const double ratio = static_cast<double>(shape.rows) / static_cast<double>(shape.cols);
  OptimizerArrays weights = arrays;
  weights.first_moment = nullptr;
  weights.second_moment = nullptr;
  weights.gradients = update;
  weights.gradient_dtype = WEFT_FLOAT32;
  weights.count = shape.count();
  UpdateBySgdPieces(isa, team,
                    {.gradient_factor = 1,
                     .coupled_decay = 0,
                     .decay = 1 - options.learning_rate * options.weight_decay,
                     .momentum = 0,
                     .step_size = options.learning_rate * std::sqrt(std::max(1.0, ratio)),
                     .nesterov = false},
                    weights);
}

void MultiplyPlainly(ThreadTeam& team, const float* a, const float* b, float* c, size_t m, size_t n,
                     size_t k) {
  team.ForEach((m + kRowsPerPiece - 1) / kRowsPerPiece, [&](size_t piece, int) {
    const size_t begin = piece * kRowsPerPiece;
    const size_t end = std::min(begin + kRowsPerPiece, m);
    std::fill(c + begin * n, c + end * n, 0.0F);
    for (size_t cols = 0; cols < n; cols += kBlockCols) {
      const size_t width = std::min(kBlockCols, n - cols);
      for (size_t depth = 0; depth < k; depth += kBlockDepth) {
        const size_t depth_count = std::min(kBlockDepth, k - depth);
        const float* const block = b + depth * n + cols;
        for (size_t i = begin; i < end; ++i)
          AddRowTimesBlock(a + i * k + depth, depth_count, block, n, width, c + i * n + cols);
      }
    }
  });
}

}  // namespace weft
