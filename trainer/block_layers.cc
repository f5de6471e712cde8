#include "trainer/block_layers.h"

namespace weft::trainer {

template <typename T>
BlockLayers<T>::BlockLayers(const ModelConfig& config, Matmul<T>& matmul)
    : has_biases_(config.architecture == Architecture::kGpt2),
      norm_epsilon_(config.norm_epsilon),
      width_(config.width),
      seq_(config.seq),
      matmul_(matmul),
      ops_(GetOps<T>()) {}

template <typename T>
void BlockLayers<T>::Ready(UnitParams<T>& params, size_t param) const {
  params.GradReady(param);
  if (has_biases_) params.GradReady(param + 1);
}

template <typename T>
void BlockLayers<T>::Norm(UnitParams<T>& params, size_t gain, const T* x, MutableNumbers out,
                          T* mean, T* rstd, size_t rows) const {
  if (has_biases_) {
    ops_.layer_norm(x, params.Vector(gain), params.Vector(gain + 1), out, mean, rstd, rows, width_);
  } else {
    ops_.rms_norm(x, params.Vector(gain), norm_epsilon_, out, rstd, rows, width_);
  }
}

template <typename T>
void BlockLayers<T>::BackwardNorm(UnitParams<T>& params, size_t gain, const T* x, const T* mean,
                                  const T* rstd, GradientBuffers<T>& gradients, size_t rows) const {
  if (has_biases_) {
    ops_.layer_norm_backward(gradients.norm(), x, params.Vector(gain), mean, rstd,
                             gradients.residual(), params.Grad(gain), params.Grad(gain + 1), rows,
                             width_);
  } else {
    ops_.rms_norm_backward(gradients.norm(), x, params.Vector(gain), rstd, gradients.residual(),
                           params.Grad(gain), rows, width_);
  }
  Ready(params, gain);
}

template <typename T>
void BlockLayers<T>::Linear(const BlockUse<T>& use, size_t weight, Numbers x, MutableNumbers y,
                            MatmulShape shape) const {
  matmul_.Forward(x, use.params.Matrix(weight), {Bias(use.params, weight)}, y, shape, true);
}

template <typename T>
void BlockLayers<T>::AddLinear(const BlockUse<T>& use, size_t weight, Numbers x, DropoutSite site,
                               const T* input, T* out, size_t columns) const {
  const DropoutMask mask = use.all.dropout().At(use.layer, site, seq_);
  const bool drops = mask.threshold > 0;
  matmul_.Forward(x, use.params.Matrix(weight), {Bias(use.params, weight), drops ? nullptr : input},
                  out, {use.rows, columns, width_});
  if (!drops) return;
  ops_.dropout(out, out, use.rows, width_, mask);
  ops_.add(out, input, out, use.rows * width_);
}

template <typename T>
Numbers BlockLayers<T>::BackwardAdd(const BlockUse<T>& use, size_t weight, DropoutSite site,
                                    GradientBuffers<T>& gradients) const {
  const DropoutMask mask = use.all.dropout().At(use.layer, site, seq_);
  const T* dy = gradients.residual();
  if (mask.threshold > 0) {
    ops_.dropout(dy, gradients.norm(), use.rows, width_, mask);
    dy = gradients.norm();
  }
  T* const bias = has_biases_ ? use.params.Grad(weight + 1) : nullptr;
  if (gradients.inputs() != kNumberTypeOf<T>) {
    ops_.narrow(dy, gradients.output(), bias, use.rows, width_);
    return gradients.output();
  }
  if (has_biases_) ops_.column_sum(dy, bias, use.rows, width_);
  return dy;
}

template <typename T>
void BlockLayers<T>::BackwardProducts(const BlockUse<T>& use, size_t weight, Numbers x, Numbers dy,
                                      MutableNumbers dx, MatmulShape shape, bool w_transposed,
                                      bool adds) const {
  matmul_.BackwardWeight(x, dy, use.params.MatrixGrad(weight), shape, w_transposed);
  Ready(use.params, weight);
  matmul_.BackwardInput(dy, use.params.Matrix(weight), dx, shape, w_transposed, adds);
}

template class BlockLayers<float>;
template class BlockLayers<double>;

}  // namespace weft::trainer
