#include "trainer/output_head.h"

#include <algorithm>

namespace weft::trainer {

template <typename T>
OutputHead<T>::OutputHead(const ModelConfig& config, size_t batch, Matmul<T>& matmul)
    : config_(config), matmul_(matmul), ops_(GetOps<T>()), tile_(HeadTileCount(config, batch)) {}

template <typename T>
const T* OutputHead<T>::Logits(Numbers weight, Numbers hidden) {
  matmul_.Forward(hidden, weight, {}, tile_.data(), {1, config_.width, config_.padded_vocabulary()},
                  true);
  return tile_.data();
}

template <typename T>
double OutputHead<T>::Loss(Numbers weight, Numbers hidden, const Token* targets, size_t rows) {
  const size_t columns = config_.padded_vocabulary();
  double loss = 0;
  for (size_t first = 0; first < rows; first += kHeadTileRows) {
    const size_t count = std::min(kHeadTileRows, rows - first);
    matmul_.Forward(hidden.Rows(first, config_.width), weight, {}, tile_.data(),
                    {count, config_.width, columns}, true);
    loss += ops_.cross_entropy(tile_.data(), targets + first, 0, kNumberTypeOf<T>, count,
                               config_.vocabulary, columns);
  }
  return loss;
}

// Gradients of the logits take the place of the logits, in the type that the products read.
template <typename T>
double OutputHead<T>::Backward(Numbers weight, Numbers hidden, const Token* targets, size_t rows,
                               double scale, WeightGradient<T> weight_gradient,
                               T* hidden_gradient) {
  const size_t columns = config_.padded_vocabulary();
  const NumberType type = matmul_.input_type();
  const Numbers gradient = {tile_.data(), type, columns * sizeof(T) / BytesOf(type)};
  double loss = 0;
  for (size_t first = 0; first < rows; first += kHeadTileRows) {
    const size_t count = std::min(kHeadTileRows, rows - first);
    const MatmulShape shape = {count, config_.width, columns};
    const Numbers x = hidden.Rows(first, config_.width);
    matmul_.Forward(x, weight, {}, tile_.data(), shape, true);
    loss += ops_.cross_entropy(tile_.data(), targets + first, scale, type, count,
                               config_.vocabulary, columns);
    matmul_.BackwardWeight(x, gradient, weight_gradient, shape, true);
    weight_gradient.unset = false;
    matmul_.BackwardInput(gradient, weight, hidden_gradient + first * config_.width, shape, true);
  }
  return loss;
}

size_t HeadTileCount(const ModelConfig& config, size_t batch) {
  return std::min(kHeadTileRows, batch * config.seq) * config.padded_vocabulary();
}

template class OutputHead<float>;
template class OutputHead<double>;

}  // namespace weft::trainer
