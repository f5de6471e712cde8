#include "trainer/llama_block.h"

namespace weft::trainer {

template <typename T>
LlamaBlock<T>::LlamaBlock(const ModelConfig& config, Matmul<T>& matmul)
    : Block<T>(config.seq),
      width_(config.width),
      hidden_(config.hidden_width()),
      layers_(config, matmul),
      attention_(config, {kLlamaNorm1, kLlamaQkv, kLlamaProjection}, matmul),
      ops_(GetOps<T>()) {}

template <typename T>
void LlamaBlock<T>::Norm2(const BlockUse<T>& use) const {
  layers_.Norm(use.params, kLlamaNorm2, use.kept.middle, use.kept.norm2, use.kept.mean2,
               use.kept.rstd2, use.rows);
}

template <typename T>
void LlamaBlock<T>::Activate(const BlockUse<T>& use) const {
  ops_.swiglu(use.kept.gate, use.kept.hidden, use.kept.active, use.rows, hidden_);
}

template <typename T>
void LlamaBlock<T>::ForwardHidden(const BlockUse<T>& use) const {
  const MatmulShape shape = {use.rows, width_, hidden_};
  Norm2(use);
  layers_.Linear(use, kLlamaGate, use.kept.norm2, use.kept.gate, shape);
  layers_.Linear(use, kLlamaUp, use.kept.norm2, use.kept.hidden, shape);
  Activate(use);
}

template <typename T>
void LlamaBlock<T>::RunForward(const BlockUse<T>& use) const {
  attention_.Forward(use);
  ForwardHidden(use);
  layers_.AddLinear(use, kLlamaDown, use.kept.active, DropoutSite::kMlp, use.kept.middle, use.out(),
                    hidden_);
}

template <typename T>
void LlamaBlock<T>::ComputeAgain(const BlockUse<T>& use) const {
  switch (use.all.recompute()) {
    case Recompute::kNone:
      return;
    case Recompute::kSelective:
      attention_.Norm(use);
      Norm2(use);
      return Activate(use);
    case Recompute::kFull:
      attention_.Forward(use);
      return ForwardHidden(use);
  }
}

template <typename T>
void LlamaBlock<T>::RunBackward(const BlockUse<T>& use, GradientBuffers<T>& gradients) const {
  const BlockActivations<T>& kept = use.kept;
  const MutableNumbers dup = gradients.wide(), dgate = gradients.gate();
  const MatmulShape up = {use.rows, width_, hidden_};
  const Numbers dy = layers_.BackwardAdd(use, kLlamaDown, DropoutSite::kMlp, gradients);
  layers_.BackwardProducts(use, kLlamaDown, kept.active, dy, dup, {use.rows, hidden_, width_});
  ops_.swiglu_backward(kept.gate, kept.hidden, dup, dgate, dup, use.rows, hidden_);
  layers_.BackwardProducts(use, kLlamaUp, kept.norm2, dup, gradients.norm(), up, true);
  layers_.BackwardProducts(use, kLlamaGate, kept.norm2, dgate, gradients.norm(), up, true,
                           /*adds=*/true);
  layers_.BackwardNorm(use.params, kLlamaNorm2, kept.middle, kept.mean2, kept.rstd2, gradients,
                       use.rows);
  attention_.Backward(use, gradients);
}

template class LlamaBlock<float>;
template class LlamaBlock<double>;

}  // namespace weft::trainer
