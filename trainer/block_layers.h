// What blocks of both architectures are made of, forward and backward: norms, linear layers, and
// their sums with the residual stream. A gain or weight is named by its place in the unit. In GPT-2
// a bias is the parameter after it; Llama has none, and its norm has no mean.
//
//   const BlockLayers<float> layers(config, matmul);
//   layers.Norm(use.params, kNorm1Gain, use.in(), kept.norm1, kept.mean1, kept.rstd1, use.rows);
//
// Thread-safety: an object belongs to the thread of its Matmul.
#ifndef WEFT_TRAINER_BLOCK_LAYERS_H_
#define WEFT_TRAINER_BLOCK_LAYERS_H_

#include <cstddef>

#include "trainer/block_use.h"
#include "trainer/matmul.h"
#include "trainer/ops.h"

namespace weft::trainer {

template <typename T>
class BlockLayers {
 public:
  BlockLayers(const ModelConfig& config, Matmul<T>& matmul);

  void Norm(UnitParams<T>& params, size_t gain, const T* x, MutableNumbers out, T* mean, T* rstd,
            size_t rows) const;
  // The gradients of its parameters, and that of the input, which is added to gradients.residual();
  // gradients.norm() is that of the output.
  void BackwardNorm(UnitParams<T>& params, size_t gain, const T* x, const T* mean, const T* rstd,
                    GradientBuffers<T>& gradients, size_t rows) const;

  // y = x w + bias, where w is stored [n, k].
  void Linear(const BlockUse<T>& use, size_t weight, Numbers x, MutableNumbers y,
              MatmulShape shape) const;
  // out = input + what the layer and then dropout give; w is stored [columns, width].
  void AddLinear(const BlockUse<T>& use, size_t weight, Numbers x, DropoutSite site, const T* input,
                 T* out, size_t columns) const;
  // The gradient of that layer's output, from the residual stream's, and of its bias.
  // gradients.norm() is free here.
  Numbers BackwardAdd(const BlockUse<T>& use, size_t weight, DropoutSite site,
                      GradientBuffers<T>& gradients) const;
  // The gradient of a weight, and through `dx` that of the input, which with `adds` is added. That
  // of the bias is there already.
  void BackwardProducts(const BlockUse<T>& use, size_t weight, Numbers x, Numbers dy,
                        MutableNumbers dx, MatmulShape shape, bool w_transposed = false,
                        bool adds = false) const;

 private:
  const T* Bias(UnitParams<T>& params, size_t weight) const {
    return has_biases_ ? params.Vector(weight + 1) : nullptr;
  }

  // That a gain's or weight's gradient is complete, and its bias's.
  void Ready(UnitParams<T>& params, size_t param) const;

  const bool has_biases_;  // GPT-2's
  const double norm_epsilon_;
  const size_t width_, seq_;
  Matmul<T>& matmul_;
  const Ops<T>& ops_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_BLOCK_LAYERS_H_
