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
void GptBlock<T>::Drop(const Use& use, DropoutSite site, T* x) const {
  const DropoutMask mask = use.all.dropout().At(use.layer, site, config_.seq);
  if (mask.threshold > 0) ops_.dropout(x, x, use.rows, config_.width, mask);
}

template <typename T>
const T* GptBlock<T>::DropGradient(const Use& use, DropoutSite site, const T* residual,
                                   T* room) const {
  const DropoutMask mask = use.all.dropout().At(use.layer, site, config_.seq);
  if (mask.threshold == 0) return residual;
  ops_.dropout(residual, room, use.rows, config_.width, mask);
  return room;
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
  matmul_.Forward(kept.norm1, use.params.Matrix(kQkv), use.params.Vector(kQkvBias), kept.qkv,
                  {use.rows, c, 3 * c}, true);
  ops_.attention(kept.qkv, kept.mixed, kept.lse, AttentionOf(use.batch), AttentionMask(use));
  matmul_.Forward(kept.mixed, use.params.Matrix(kProjection), use.params.Vector(kProjectionBias),
                  kept.middle, {use.rows, c, c});
  Drop(use, DropoutSite::kProjection, kept.middle);
  ops_.add(kept.middle, use.in(), kept.middle, use.rows * c);
}

template <typename T>
void GptBlock<T>::ForwardHidden(const Use& use) const {
  const size_t c = config_.width;
  Norm2(use);
  matmul_.Forward(use.kept.norm2, use.params.Matrix(kUp), use.params.Vector(kUpBias),
                  use.kept.hidden, {use.rows, c, 4 * c}, true);
  ops_.gelu(use.kept.hidden, use.kept.active, use.rows * 4 * c);
}

template <typename T>
void GptBlock<T>::Forward(UnitParams<T>& params, Activations<T>& kept, size_t layer,
                          size_t batch) const {
  const size_t c = config_.width;
  const Use use = UseOf(params, kept, layer, batch);
  T* const out = kept.residual(layer + 1);
  ForwardAttention(use);
  ForwardHidden(use);
  matmul_.Forward(use.kept.active, params.Matrix(kDown), params.Vector(kDownBias), out,
                  {use.rows, 4 * c, c});
  Drop(use, DropoutSite::kMlp, out);
  ops_.add(out, use.kept.middle, out, use.rows * c);
}

template <typename T>
void GptBlock<T>::ComputeAgain(const Use& use) const {
  switch (use.all.recompute()) {
    case Recompute::kNone:
      return;
    case Recompute::kSelective:
      Norm1(use);
      Norm2(use);
      return ops_.gelu(use.kept.hidden, use.kept.active, use.rows * 4 * config_.width);
    case Recompute::kFull:
      ForwardAttention(use);
      return ForwardHidden(use);
  }
}

template <typename T>
void BackwardNorm(UnitParams<T>& params, size_t gain, const T* x, const T* mean, const T* rstd,
                  GradientBuffers<T>& gradients, size_t rows, size_t width) {
  GetOps<T>().layer_norm_backward(gradients.norm.data(), x, params.Vector(gain), mean, rstd,
                                  gradients.residual.data(), params.Grad(gain),
                                  params.Grad(gain + 1), rows, width);
  params.GradReady(gain);
  params.GradReady(gain + 1);
}

// The weight's and the bias' gradient (the bias is the parameter after the weight) and, through
// `dx`, that of the input.
template <typename T>
void GptBlock<T>::BackwardLinear(UnitParams<T>& params, size_t weight, const T* x, const T* dy,
                                 T* dx, MatmulShape shape, bool w_transposed) const {
  matmul_.BackwardWeight(x, dy, params.Grad(weight), shape, w_transposed);
  params.GradReady(weight);
  ops_.column_sum(dy, params.Grad(weight + 1), shape.m, shape.n);
  params.GradReady(weight + 1);
  matmul_.BackwardInput(dy, params.Matrix(weight), dx, shape, w_transposed);
}

// gradients.norm is free until the second product writes it.
template <typename T>
void GptBlock<T>::BackwardMlp(const Use& use, GradientBuffers<T>& gradients) const {
  const size_t c = config_.width;
  const BlockActivations<T>& kept = use.kept;
  T* const wide = gradients.wide.data();
  const T* const dy =
      DropGradient(use, DropoutSite::kMlp, gradients.residual.data(), gradients.norm.data());
  BackwardLinear(use.params, kDown, kept.active, dy, wide, {use.rows, 4 * c, c});
  ops_.gelu_backward(kept.hidden, wide, wide, use.rows * 4 * c);
  BackwardLinear(use.params, kUp, kept.norm2, wide, gradients.norm.data(), {use.rows, c, 4 * c},
                 true);
  BackwardNorm(use.params, kNorm2Gain, kept.middle, kept.mean2, kept.rstd2, gradients, use.rows, c);
}

// gradients.qkv is free until attention writes it.
template <typename T>
void GptBlock<T>::BackwardAttention(const Use& use, GradientBuffers<T>& gradients) const {
  const size_t c = config_.width;
  const BlockActivations<T>& kept = use.kept;
  T* const dqkv = gradients.qkv.data();
  T* const dnorm = gradients.norm.data();
  const T* const dy = DropGradient(use, DropoutSite::kProjection, gradients.residual.data(), dqkv);
  BackwardLinear(use.params, kProjection, kept.mixed, dy, dnorm, {use.rows, c, c});
  ops_.attention_backward(kept.qkv, kept.mixed, kept.lse, dnorm, dqkv, AttentionOf(use.batch),
                          AttentionMask(use));
  BackwardLinear(use.params, kQkv, kept.norm1, dqkv, dnorm, {use.rows, c, 3 * c}, true);
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
