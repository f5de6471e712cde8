// One table says how large each matrix of a block is and from which level on it is computed again, for the memory and for the plan.
#include "trainer/activations.h"

#include <array>

namespace weft::trainer {
namespace {

template <typename T>
struct Matrix {
  T* BlockActivations<T>::*at;
  size_t columns;
  Recompute again_from;  // this level on
};

template <typename T>
std::array<Matrix<T>, 12> MatricesOf(const ModelConfig& config) {
  using Block = BlockActivations<T>;
  const size_t c = config.width;
  constexpr Recompute kSelective = Recompute::kSelective, kFull = Recompute::kFull;
  return {{{&Block::norm1, c, kSelective},
           {&Block::mean1, 1, kFull},
           {&Block::rstd1, 1, kFull},
           {&Block::qkv, 3 * c, kFull},
           {&Block::lse, config.heads, kFull},
           {&Block::mixed, c, kFull},
           {&Block::middle, c, kFull},
           {&Block::norm2, c, kSelective},
           {&Block::mean2, 1, kFull},
           {&Block::rstd2, 1, kFull},
           {&Block::hidden, 4 * c, kFull},
           {&Block::active, 4 * c, kSelective}}};
}

}  // namespace

template <typename T>
Activations<T>::Activations(const ModelConfig& config, size_t batch, Recompute recompute)
    : recompute_(recompute), blocks_(config.layers) {
  const size_t rows = batch * config.seq;
  for (size_t layer = 0; layer <= config.layers; layer++)
    residual_.push_back(Take(rows * config.width));
  for (const Matrix<T>& matrix : MatricesOf<T>(config)) {
    T* shared = nullptr;
    for (BlockActivations<T>& block : blocks_) {
      if (shared == nullptr || recompute < matrix.again_from) shared = Take(rows * matrix.columns);
      block.*matrix.at = shared;
    }
  }
  norm_ = Take(rows * config.width);
  mean_ = Take(rows);
  rstd_ = Take(rows);
}

template <typename T>
T* Activations<T>::Take(size_t count) {
  memory_.emplace_back(count);
  return memory_.back().data();
}

size_t ActivationCount(const ModelConfig& config, size_t batch, Recompute recompute) {
  size_t of_a_row = (config.layers + 1) * config.width + config.width + 2;
  for (const Matrix<float>& matrix : MatricesOf<float>(config))
    of_a_row += (recompute < matrix.again_from ? config.layers : 1) * matrix.columns;
  return batch * config.seq * of_a_row;
}

template <typename T>
GradientBuffers<T>::GradientBuffers(const ModelConfig& config, size_t batch) {
  const size_t rows = batch * config.seq;
  residual.resize(rows * config.width);
  norm.resize(rows * config.width);
  wide.resize(rows * 4 * config.width);
  qkv.resize(rows * 3 * config.width);
}

size_t GradientBufferCount(const ModelConfig& config, size_t batch) {
  return batch * config.seq * 9 * config.width;
}

template class Activations<float>;
template class Activations<double>;
template struct GradientBuffers<float>;
template struct GradientBuffers<double>;

}  // namespace weft::trainer
