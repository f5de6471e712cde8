#include "trainer/gpt_block.h"

namespace weft::trainer {

template <typename T>
GptBlock<T>::GptBlock(const ModelConfig& config, Matmul<T>& matmul)
    : Block<T>(config.seq),
      width_(config.width),
      hidden_(config.hidden_width()),
      layers_(config, matmul),
      attention_(config, {kNorm1Gain, kQkv, kProjection}, matmul),
      ops_(GetOps<T>()) {}

template <typename T>
void GptBlock<T>::Norm2(const BlockUse<T>& use) const {
  layers_.Norm(use.params, kNorm2Gain, use.kept.middle, use.kept.norm2, use.kept.mean2,
               use.kept.rstd2, use.rows);
}

template <typename T>
void GptBlock<T>::ForwardHidden(const BlockUse<T>& use) const {
  Norm2(use);
  layers_.Linear(use, kUp, use.kept.norm2, use.kept.hidden, {use.rows, width_, hidden_});
  ops_.gelu(use.kept.hidden, use.kept.active, use.rows, hidden_);
}

template <typename T>
void GptBlock<T>::RunForward(const BlockUse<T>& use) const {
  attention_.Forward(use);
  ForwardHidden(use);
  layers_.AddLinear(use, kDown, use.kept.active, DropoutSite::kMlp, use.kept.middle, use.out(),
                    hidden_);
}

template <typename T>
void GptBlock<T>::ComputeAgain(const BlockUse<T>& use) const {
  switch (use.all.recompute()) {
    case Recompute::kNone:
      return;
    case Recompute::kSelective:
      attention_.Norm(use);
      Norm2(use);
      return ops_.gelu(use.kept.hidden, use.kept.active, use.rows, hidden_);
    case Recompute::kFull:
      attention_.Forward(use);
      return ForwardHidden(use);
  }
}

template <typename T>
void GptBlock<T>::RunBackward(const BlockUse<T>& use, GradientBuffers<T>& gradients) const {
  const BlockActivations<T>& kept = use.kept;
  const MutableNumbers wide = gradients.wide();
  const Numbers dy = layers_.BackwardAdd(use, kDown, DropoutSite::kMlp, gradients);
  layers_.BackwardProducts(use, kDown, kept.active, dy, wide, {use.rows, hidden_, width_});
  ops_.gelu_backward(kept.hidden, wide, wide, use.params.Grad(kUpBias), use.rows, hidden_);
  layers_.BackwardProducts(use, kUp, kept.norm2, wide, gradients.norm(),
                           {use.rows, width_, hidden_}, true);
  layers_.BackwardNorm(use.params, kNorm2Gain, kept.middle, kept.mean2, kept.rstd2, gradients,
                       use.rows);
  attention_.Backward(use, gradients);
}

template class GptBlock<float>;
template class GptBlock<double>;

}  // namespace weft::trainer
