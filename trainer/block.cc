#include "trainer/block.h"

namespace weft::trainer {

template <typename T>
Block<T>::Block(const ModelConfig& config, Matmul<T>& matmul)
    : seq_(config.seq),
      attention_(config, matmul),
      perceptron_(MakePerceptron<T>(config, matmul)) {}

template <typename T>
BlockUse<T> Block<T>::UseOf(UnitParams<T>& params, Activations<T>& all, size_t layer,
                            size_t batch) const {
  return {params, all, all.block(layer), layer, batch, batch * seq_};
}

template <typename T>
void Block<T>::Forward(UnitParams<T>& params, Activations<T>& kept, size_t layer,
                       size_t batch) const {
  const BlockUse<T> use = UseOf(params, kept, layer, batch);
  attention_.Forward(use);
  perceptron_->Forward(use);
}

template <typename T>
void Block<T>::ComputeAgain(const BlockUse<T>& use) const {
  switch (use.all.recompute()) {
    case Recompute::kNone:
      return;
    case Recompute::kSelective:
      attention_.Norm(use);
      return perceptron_->NormAndActivate(use);
    case Recompute::kFull:
      attention_.Forward(use);
      return perceptron_->ForwardHidden(use);
  }
}

template <typename T>
void Block<T>::Backward(UnitParams<T>& params, Activations<T>& kept, GradientBuffers<T>& gradients,
                        size_t layer, size_t batch) const {
  const BlockUse<T> use = UseOf(params, kept, layer, batch);
  ComputeAgain(use);
  perceptron_->Backward(use, gradients);
  attention_.Backward(use, gradients);
}

template class Block<float>;
template class Block<double>;

}  // namespace weft::trainer
