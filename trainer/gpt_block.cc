#include "trainer/gpt_block.h"

namespace weft::trainer {

template <typename T>
GptBlock<T>::GptBlock(const ModelConfig& config, Matmul<T>& matmul)
    : config_(config), matmul_(matmul), ops_(GetOps<T>()) {}

template <typename T>
typename GptBlock<T>::Use GptBlock<T>::UseOf(UnitParams<T>& params, Activations<T>& all,
                                             size_t layer, size_t batch) const {
  return {params, all, all.block(layer), layer, batch, batch * config_.seq};
}

template <typename T>
AttentionShape GptBlock<T>::AttentionOf(size_t batch) const {
  return {batch, config_.seq, config_.heads, config_.width / config_.heads};
}

template <typename T>
DropoutMask GptBlock<T>::AttentionMask(const Use& use) const {
  return use.all.dropout().At(use.layer, DropoutSite::kAttention, config_.heads * config_.seq);
}

template <typename T>
void GptBlock<T>::AddLinear(const Use& use, size_t weight, Numbers x, DropoutSite site,
                            const T* input, T* out, size_t columns) const {
  const DropoutMask mask = use.all.dropout().At(use.layer, site, config_.seq);
  const bool drops = mask.threshold > 0;
  matmul_.Forward(x, use.params.Matrix(weight),
                  {use.params.Vector(weight + 1), drops ? nullptr : input}, out,
                  {use.rows, columns, config_.width});
  if (!drops) return;
  ops_.dropout(out, out, use.rows, config_.width, mask);
  ops_.add(out, input, out, use.rows * config_.width);
}

// gradients.norm() is free here.
template <typename T>
Numbers GptBlock<T>::BackwardAdd(const Use& use, size_t weight, DropoutSite site,
                                 GradientBuffers<T>& gradients) const {
  const DropoutMask mask = use.all.dropout().At(use.layer, site, config_.seq);
  const T* dy = gradients.residual();
  if (mask.threshold > 0) {
    ops_.dropout(dy, gradients.norm(), use.rows, config_.width, mask);
    dy = gradients.norm();
  }
  T* const bias = use.params.Grad(weight + 1);
  if (gradients.inputs() == kNumberTypeOf<T>) {
    ops_.column_sum(dy, bias, use.rows, config_.width);
    return dy;
  }
  ops_.narrow(dy, gradients.output(), bias, use.rows, config_.width);
  return gradients.output();
}

template <typename T>
void GptBlock<T>::Norm1(const Use& use) const {
  ops_.layer_norm(use.in(), use.params.Vector(kNorm1Gain), use.params.Vector(kNorm1Bias),
                  use.kept.norm1, use.kept.mean1, use.kept.rstd1, use.rows, config_.width);
}

template <typename T>
void GptBlock<T>::Norm2(const Use& use) const {
  ops_.layer_norm(use.kept.middle, use.params.Vector(kNorm2Gain), use.params.Vector(kNorm2Bias),
                  use.kept.norm2, use.kept.mean2, use.kept.rstd2, use.rows, config_.width);
}

template <typename T>
void GptBlock<T>::ForwardAttention(const Use& use) const {
  const size_t c = config_.width;
  const BlockActivations<T>& kept = use.kept;
  Norm1(use);
  matmul_.Forward(kept.norm1, use.params.Matrix(kQkv), {use.params.Vector(kQkvBias)}, kept.qkv,
                  {use.rows, c, 3 * c}, true);
  ops_.attention(kept.qkv, kept.mixed, kept.lse, AttentionOf(use.batch), AttentionMask(use));
  AddLinear(use, kProjection, kept.mixed, DropoutSite::kProjection, use.in(), kept.middle, c);
}

template <typename T>
void GptBlock<T>::ForwardHidden(const Use& use) const {
  const size_t c = config_.width;
  Norm2(use);
  matmul_.Forward(use.kept.norm2, use.params.Matrix(kUp), {use.params.Vector(kUpBias)},
                  use.kept.hidden, {use.rows, c, 4 * c}, true);
  ops_.gelu(use.kept.hidden, use.kept.active, use.rows, 4 * c);
}

template <typename T>
void GptBlock<T>::Forward(UnitParams<T>& params, Activations<T>& kept, size_t layer,
                          size_t batch) const {
  const Use use = UseOf(params, kept, layer, batch);
  ForwardAttention(use);
  ForwardHidden(use);
  AddLinear(use, kDown, use.kept.active, DropoutSite::kMlp, use.kept.middle,
            kept.residual(layer + 1), 4 * config_.width);
}

template <typename T>
void GptBlock<T>::ComputeAgain(const Use& use) const {
  switch (use.all.recompute()) {
    case Recompute::kNone:
      return;
    case Recompute::kSelective:
      Norm1(use);
      Norm2(use);
      return ops_.gelu(use.kept.hidden, use.kept.active, use.rows, 4 * config_.width);
    case Recompute::kFull:
      ForwardAttention(use);
      return ForwardHidden(use);
  }
}

template <typename T>
void BackwardNorm(UnitParams<T>& params, size_t gain, const T* x, const T* mean, const T* rstd,
                  GradientBuffers<T>& gradients, size_t rows, size_t width) {
  GetOps<T>().layer_norm_backward(gradients.norm(), x, params.Vector(gain), mean, rstd,
                                  gradients.residual(), params.Grad(gain), params.Grad(gain + 1),
                                  rows, width);
  params.GradReady(gain);
  params.GradReady(gain + 1);
}

// The gradient of the bias, the parameter after the weight, is there already.
template <typename T>
void GptBlock<T>::BackwardProducts(const Use& use, size_t weight, Numbers x, Numbers dy,
                                   MutableNumbers dx, MatmulShape shape, bool w_transposed) const {
  matmul_.BackwardWeight(x, dy, use.params.Grad(weight), shape, w_transposed);
  use.params.GradReady(weight);
  use.params.GradReady(weight + 1);
  matmul_.BackwardInput(dy, use.params.Matrix(weight), dx, shape, w_transposed);
}

template <typename T>
void GptBlock<T>::BackwardMlp(const Use& use, GradientBuffers<T>& gradients) const {
  const size_t c = config_.width;
  const BlockActivations<T>& kept = use.kept;
  const MutableNumbers wide = gradients.wide();
  const Numbers dy = BackwardAdd(use, kDown, DropoutSite::kMlp, gradients);
  BackwardProducts(use, kDown, kept.active, dy, wide, {use.rows, 4 * c, c});
  ops_.gelu_backward(kept.hidden, wide, wide, use.params.Grad(kUpBias), use.rows, 4 * c);
  BackwardProducts(use, kUp, kept.norm2, wide, gradients.norm(), {use.rows, c, 4 * c}, true);
  BackwardNorm(use.params, kNorm2Gain, kept.middle, kept.mean2, kept.rstd2, gradients, use.rows, c);
}

template <typename T>
void GptBlock<T>::BackwardAttention(const Use& use, GradientBuffers<T>& gradients) const {
  const size_t c = config_.width;
  const BlockActivations<T>& kept = use.kept;
  const MutableNumbers dqkv = gradients.qkv();
  const Numbers dy = BackwardAdd(use, kProjection, DropoutSite::kProjection, gradients);
  const MutableNumbers dmixed = gradients.mixed();
  BackwardProducts(use, kProjection, kept.mixed, dy, dmixed, {use.rows, c, c});
  ops_.attention_backward(kept.qkv, kept.mixed, kept.lse, dmixed, dqkv, AttentionOf(use.batch),
                          AttentionMask(use));
  ops_.column_sum(dqkv, use.params.Grad(kQkvBias), use.rows, 3 * c);
  BackwardProducts(use, kQkv, kept.norm1, dqkv, gradients.norm(), {use.rows, c, 3 * c}, true);
  BackwardNorm(use.params, kNorm1Gain, use.in(), kept.mean1, kept.rstd1, gradients, use.rows, c);
}

template <typename T>
void GptBlock<T>::Backward(UnitParams<T>& params, Activations<T>& kept,
                           GradientBuffers<T>& gradients, size_t layer, size_t batch) const {
  const Use use = UseOf(params, kept, layer, batch);
  ComputeAgain(use);
  BackwardMlp(use, gradients);
  BackwardAttention(use, gradients);
}

template void BackwardNorm<float>(UnitParams<float>&, size_t, const float*, const float*,
                                  const float*, GradientBuffers<float>&, size_t, size_t);
template void BackwardNorm<double>(UnitParams<double>&, size_t, const double*, const double*,
                                   const double*, GradientBuffers<double>&, size_t, size_t);
template class GptBlock<float>;
template class GptBlock<double>;

}  // namespace weft::trainer
