#include "trainer/model.h"

#include <algorithm>

namespace weft::trainer {
namespace {

constexpr size_t kEmbeddingUnit = 0;

}  // namespace

template <typename T>
Model<T>::Model(const ModelConfig& config, size_t batch, Matmul<T>& matmul, UnitHooks<T>& hooks)
    : config_(config),
      matmul_(matmul),
      ops_(GetOps<T>()),
      block_(config, matmul),
      params_(hooks),
      gradients_(config, batch) {}

// The weights of the head are those of the unit that is in use.
template <typename T>
void Model<T>::ForwardHead(size_t rows, Activations<T>& kept, size_t weight) {
  matmul_.Forward(kept.norm.data(), params_.Matrix(weight), nullptr, kept.logits.data(),
                  {rows, config_.width, config_.padded_vocabulary()}, true);
}

template <typename T>
void Model<T>::ForwardToLogits(const Token* inputs, size_t batch, Activations<T>& kept) {
  const size_t c = config_.width;
  const size_t rows = batch * config_.seq;
  params_.EnterForward(kEmbeddingUnit);
  ops_.embed(inputs, params_.Matrix(kTokens), params_.Matrix(kPositions), kept.residual[0].data(),
             batch, config_.seq, c);
  params_.LeaveForward();
  for (size_t layer = 0; layer < config_.layers; layer++) {
    params_.EnterForward(layer + 1);
    block_.Forward(params_, kept.residual[layer].data(), kept.blocks[layer],
                   kept.residual[layer + 1].data(), batch);
    params_.LeaveForward();
  }
  params_.EnterForward(FinalUnit());
  ops_.layer_norm(kept.residual.back().data(), params_.Vector(kFinalGain),
                  params_.Vector(kFinalBias), kept.norm.data(), kept.mean.data(), kept.rstd.data(),
                  rows, c);
  if (!config_.tied_head) ForwardHead(rows, kept, kHead);
  params_.LeaveForward();
  if (!config_.tied_head) return;
  params_.EnterForward(kEmbeddingUnit);
  ForwardHead(rows, kept, kTokens);
  params_.LeaveForward();
}

template <typename T>
double Model<T>::Forward(const Token* inputs, const Token* targets, size_t batch, double grad_scale,
                         Activations<T>& kept) {
  ForwardToLogits(inputs, batch, kept);
  return ops_.cross_entropy(kept.logits.data(), targets, grad_scale, batch * config_.seq,
                            config_.vocabulary, config_.padded_vocabulary());
}

template <typename T>
double Model<T>::Score(const Token* inputs, const Token* targets, size_t batch, size_t skip,
                       Activations<T>& kept) {
  ForwardToLogits(inputs, batch, kept);
  const size_t columns = config_.padded_vocabulary();
  double loss = 0;
  for (size_t b = 0; b < batch; b++) {
    const size_t row = b * config_.seq + skip;
    loss += ops_.cross_entropy(kept.logits.data() + row * columns, targets + row, 0,
                               config_.seq - skip, config_.vocabulary, columns);
  }
  return loss;
}

template <typename T>
const T* Model<T>::Logits(const Token* inputs, Activations<T>& kept) {
  ForwardToLogits(inputs, 1, kept);
  return kept.logits.data();
}

// Its gradient is complete where nothing else adds to it, which the caller knows.
template <typename T>
void Model<T>::BackwardHead(size_t rows, const Activations<T>& kept, size_t weight) {
  const MatmulShape shape = {rows, config_.width, config_.padded_vocabulary()};
  matmul_.BackwardWeight(kept.norm.data(), kept.logits.data(), params_.Grad(weight), shape, true);
  if (!config_.tied_head) params_.GradReady(weight);
  matmul_.BackwardInput(kept.logits.data(), params_.Matrix(weight), gradients_.norm.data(), shape,
                        true);
}

template <typename T>
void Model<T>::BackwardFinal(size_t rows, const Activations<T>& kept) {
  std::fill_n(gradients_.residual.begin(), rows * config_.width, T(0));
  BackwardNorm(params_, kFinalGain, kept.residual.back().data(), kept.mean.data(), kept.rstd.data(),
               gradients_, rows, config_.width);
}

template <typename T>
void Model<T>::Backward(const Token* inputs, size_t batch, const Activations<T>& kept) {
  const size_t rows = batch * config_.seq;
  if (config_.tied_head) {
    params_.EnterBackward(kEmbeddingUnit);
    BackwardHead(rows, kept, kTokens);
    params_.LeaveBackward();
  }
  params_.EnterBackward(FinalUnit());
  if (!config_.tied_head) BackwardHead(rows, kept, kHead);
  BackwardFinal(rows, kept);
  params_.LeaveBackward();

  for (size_t layer = config_.layers; layer-- > 0;) {
    params_.EnterBackward(layer + 1);
    block_.Backward(params_, kept.residual[layer].data(), kept.blocks[layer], gradients_, batch);
    params_.LeaveBackward();
  }

  params_.EnterBackward(kEmbeddingUnit);
  ops_.embed_backward(inputs, gradients_.residual.data(), params_.Grad(kTokens),
                      params_.Grad(kPositions), batch, config_.seq, config_.width);
  params_.GradReady(kTokens);
  params_.GradReady(kPositions);
  params_.LeaveBackward();
}

template class Model<float>;
template class Model<double>;

}  // namespace weft::trainer
