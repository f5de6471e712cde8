#include "trainer/gpt_block.h"

namespace weft::trainer {

template <typename T>
GptBlock<T>::GptBlock(const ModelConfig& config, Matmul<T>& matmul)
    : config_(config), matmul_(matmul), ops_(GetOps<T>()) {}

template <typename T>
AttentionShape GptBlock<T>::AttentionOf(size_t batch) const {
  return {batch, config_.seq, config_.heads, config_.width / config_.heads};
}

template <typename T>
void GptBlock<T>::Norm1(UnitParams<T>& params, const T* in, const BlockActivations<T>& kept,
                        size_t rows) const {
  ops_.layer_norm(in, params.Vector(kNorm1Gain), params.Vector(kNorm1Bias), kept.norm1, kept.mean1,
                  kept.rstd1, rows, config_.width);
}

template <typename T>
void GptBlock<T>::Norm2(UnitParams<T>& params, const BlockActivations<T>& kept, size_t rows) const {
  ops_.layer_norm(kept.middle, params.Vector(kNorm2Gain), params.Vector(kNorm2Bias), kept.norm2,
                  kept.mean2, kept.rstd2, rows, config_.width);
}

template <typename T>
void GptBlock<T>::ForwardAttention(UnitParams<T>& params, const T* in,
                                   const BlockActivations<T>& kept, size_t batch) const {
  const size_t c = config_.width;
  const size_t rows = batch * config_.seq;
  Norm1(params, in, kept, rows);
  matmul_.Forward(kept.norm1, params.Matrix(kQkv), params.Vector(kQkvBias), kept.qkv,
                  {rows, c, 3 * c}, true);
  ops_.attention(kept.qkv, kept.mixed, kept.lse, AttentionOf(batch));
  matmul_.Forward(kept.mixed, params.Matrix(kProjection), params.Vector(kProjectionBias),
                  kept.middle, {rows, c, c});
  ops_.add(kept.middle, in, kept.middle, rows * c);
}

template <typename T>
void GptBlock<T>::ForwardHidden(UnitParams<T>& params, const BlockActivations<T>& kept,
                                size_t rows) const {
  const size_t c = config_.width;
  Norm2(params, kept, rows);
  matmul_.Forward(kept.norm2, params.Matrix(kUp), params.Vector(kUpBias), kept.hidden,
                  {rows, c, 4 * c}, true);
  ops_.gelu(kept.hidden, kept.active, rows * 4 * c);
}

template <typename T>
void GptBlock<T>::Forward(UnitParams<T>& params, const T* in, const BlockActivations<T>& kept,
                          T* out, size_t batch) const {
  const size_t c = config_.width;
  const size_t rows = batch * config_.seq;
  ForwardAttention(params, in, kept, batch);
  ForwardHidden(params, kept, rows);
  matmul_.Forward(kept.active, params.Matrix(kDown), params.Vector(kDownBias), out,
                  {rows, 4 * c, c});
  ops_.add(out, kept.middle, out, rows * c);
}

template <typename T>
void GptBlock<T>::Again(UnitParams<T>& params, const T* in, const BlockActivations<T>& kept,
                        Recompute recompute, size_t batch) const {
  const size_t rows = batch * config_.seq;
  switch (recompute) {
    case Recompute::kNone:
      return;
    case Recompute::kSelective:
      Norm1(params, in, kept, rows);
      Norm2(params, kept, rows);
      return ops_.gelu(kept.hidden, kept.active, rows * 4 * config_.width);
    case Recompute::kFull:
      ForwardAttention(params, in, kept, batch);
      return ForwardHidden(params, kept, rows);
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

template <typename T>
void GptBlock<T>::BackwardMlp(UnitParams<T>& params, const BlockActivations<T>& kept,
                              GradientBuffers<T>& gradients, size_t rows) const {
  const size_t c = config_.width;
  T* const wide = gradients.wide.data();
  BackwardLinear(params, kDown, kept.active, gradients.residual.data(), wide, {rows, 4 * c, c});
  ops_.gelu_backward(kept.hidden, wide, wide, rows * 4 * c);
  BackwardLinear(params, kUp, kept.norm2, wide, gradients.norm.data(), {rows, c, 4 * c}, true);
  BackwardNorm(params, kNorm2Gain, kept.middle, kept.mean2, kept.rstd2, gradients, rows, c);
}

template <typename T>
void GptBlock<T>::BackwardAttention(UnitParams<T>& params, const T* in,
                                    const BlockActivations<T>& kept, GradientBuffers<T>& gradients,
                                    size_t batch) const {
  const size_t c = config_.width;
  const size_t rows = batch * config_.seq;
  BackwardLinear(params, kProjection, kept.mixed, gradients.residual.data(), gradients.norm.data(),
                 {rows, c, c});
  ops_.attention_backward(kept.qkv, kept.mixed, kept.lse, gradients.norm.data(),
                          gradients.qkv.data(), AttentionOf(batch));
  BackwardLinear(params, kQkv, kept.norm1, gradients.qkv.data(), gradients.norm.data(),
                 {rows, c, 3 * c}, true);
  BackwardNorm(params, kNorm1Gain, in, kept.mean1, kept.rstd1, gradients, rows, c);
}

template <typename T>
void GptBlock<T>::Backward(UnitParams<T>& params, const T* in, const BlockActivations<T>& kept,
                           GradientBuffers<T>& gradients, size_t batch) const {
  BackwardMlp(params, kept, gradients, batch * config_.seq);
  BackwardAttention(params, in, kept, gradients, batch);
}

template void BackwardNorm<float>(UnitParams<float>&, size_t, const float*, const float*,
                                  const float*, GradientBuffers<float>&, size_t, size_t);
template void BackwardNorm<double>(UnitParams<double>&, size_t, const double*, const double*,
                                   const double*, GradientBuffers<double>&, size_t, size_t);
template class GptBlock<float>;
template class GptBlock<double>;

}  // namespace weft::trainer
