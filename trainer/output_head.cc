#include "trainer/output_head.h"

#include <algorithm>

namespace weft::trainer {

template <typename T>
OutputHead<T>::OutputHead(const ModelConfig& config, size_t batch, Matmul<T>& matmul)
    : config_(config), matmul_(matmul), ops_(GetOps<T>()), tile_(HeadTileCount(config, batch)) {}

template <typename T>
const T* OutputHead<T>::Logits(Numbers weight, const T* hidden) {
  matmul_.Forward(hidden, weight, nullptr, tile_.data(),
                  {1, config_.width, config_.padded_vocabulary()}, true);
  return tile_.data();
}

template <typename T>
double OutputHead<T>::Loss(Numbers weight, const T* hidden, const Token* targets, size_t rows) {
  const size_t columns = config_.padded_vocabulary();
  double loss = 0;
  for (size_t first = 0; first < rows; first += kHeadTileRows) {
    const size_t count = std::min(kHeadTileRows, rows - first);
    matmul_.Forward(hidden + first * config_.width, weight, nullptr, tile_.data(),
                    {count, config_.width, columns}, true);
    loss +=
        ops_.cross_entropy(tile_.data(), targets + first, 0, count, config_.vocabulary, columns);
  }
  return loss;
}

template <typename T>
double OutputHead<T>::Backward(Numbers weight, const T* hidden, const Token* targets, size_t rows,
                               double scale, T* weight_gradient, T* hidden_gradient) {
  const size_t columns = config_.padded_vocabulary();
  double loss = 0;
  for (size_t first = 0; first < rows; first += kHeadTileRows) {
    const size_t count = std::min(kHeadTileRows, rows - first);
    const MatmulShape shape = {count, config_.width, columns};
    const T* const x = hidden + first * config_.width;
    matmul_.Forward(x, weight, nullptr, tile_.data(), shape, true);
    loss += ops_.cross_entropy(tile_.data(), targets + first, scale, count, config_.vocabulary,
                               columns);
    matmul_.BackwardWeight(x, tile_.data(), weight_gradient, shape, true);
    matmul_.BackwardInput(tile_.data(), weight, hidden_gradient + first * config_.width, shape,
                          true);
  }
  return loss;
}

size_t HeadTileCount(const ModelConfig& config, size_t batch) {
  return std::min(kHeadTileRows, batch * config.seq) * config.padded_vocabulary();
}

template class OutputHead<float>;
template class OutputHead<double>;

}  // namespace weft::trainer
