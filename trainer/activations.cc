#include "trainer/activations.h"

namespace weft::trainer {

template <typename T>
BlockActivations<T>::BlockActivations(const ModelConfig& config, size_t rows) {
  const size_t c = config.width;
  for (auto* v : {&norm1, &mixed, &middle, &norm2})
    v->resize(rows * c);
  for (auto* v : {&mean1, &rstd1, &mean2, &rstd2})
    v->resize(rows);
  for (auto* v : {&hidden, &active})
    v->resize(rows * 4 * c);
  qkv.resize(rows * 3 * c);
  lse.resize(rows * config.heads);
}

template <typename T>
Activations<T>::Activations(const ModelConfig& config, size_t batch) {
  const size_t rows = batch * config.seq;
  for (size_t layer = 0; layer < config.layers; layer++) {
    residual.emplace_back(rows * config.width);
    blocks.emplace_back(config, rows);
  }
  residual.emplace_back(rows * config.width);
  norm.resize(rows * config.width);
  mean.resize(rows);
  rstd.resize(rows);
  logits.resize(rows * config.padded_vocabulary());
}

template <typename T>
GradientBuffers<T>::GradientBuffers(const ModelConfig& config, size_t batch) {
  const size_t rows = batch * config.seq;
  residual.resize(rows * config.width);
  norm.resize(rows * config.width);
  wide.resize(rows * 4 * config.width);
  qkv.resize(rows * 3 * config.width);
}

size_t ActivationCount(const ModelConfig& config, size_t batch) {
  const size_t c = config.width;
  const size_t of_blocks = config.layers * (16 * c + 4 + config.heads);
  const size_t of_the_rest = 2 * c + 2 + config.padded_vocabulary();
  const size_t of_gradients = 9 * c;
  return batch * config.seq * (of_blocks + of_the_rest + of_gradients);
}

template struct BlockActivations<float>;
template struct BlockActivations<double>;
template struct Activations<float>;
template struct Activations<double>;
template struct GradientBuffers<float>;
template struct GradientBuffers<double>;

}  // namespace weft::trainer
