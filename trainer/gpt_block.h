// A block of GPT-2: attention and a perceptron, each after a norm and added to the residual stream.
//
//   const GptBlock<float> block(config, matmul);
//   block.Forward(params, in, activations, out, batch);
//   block.Backward(params, in, activations, gradients, batch);    // gradients.residual becomes that of `in`
//
// Backward is written by hand, and its order is that of communication: a gradient is announced as soon as it is complete, so
// that it is reduced while the rest is computed. That is why a weight's gradient comes before that of its input.
//
// Thread-safety: an object belongs to the thread of its Matmul.
#ifndef WEFT_TRAINER_GPT_BLOCK_H_
#define WEFT_TRAINER_GPT_BLOCK_H_

#include <cstddef>

#include "trainer/activations.h"
#include "trainer/matmul.h"
#include "trainer/ops.h"
#include "trainer/unit_params.h"

namespace weft::trainer {

template <typename T>
class GptBlock {
 public:
  GptBlock(const ModelConfig& config, Matmul<T>& matmul);

  // `in` and `out` are [batch, seq, width].
  void Forward(UnitParams<T>& params, const T* in, const BlockActivations<T>& kept, T* out,
               size_t batch) const;
  // Before Backward: what Forward left, as far as other blocks have overwritten it since.
  void Again(UnitParams<T>& params, const T* in, const BlockActivations<T>& kept,
             Recompute recompute, size_t batch) const;
  // gradients.residual: that of Forward's `out`, and afterwards that of `in`.
  void Backward(UnitParams<T>& params, const T* in, const BlockActivations<T>& kept,
                GradientBuffers<T>& gradients, size_t batch) const;

 private:
  void Norm1(UnitParams<T>& params, const T* in, const BlockActivations<T>& kept,
             size_t rows) const;
  void Norm2(UnitParams<T>& params, const BlockActivations<T>& kept, size_t rows) const;
  void ForwardAttention(UnitParams<T>& params, const T* in, const BlockActivations<T>& kept,
                        size_t batch) const;
  void ForwardHidden(UnitParams<T>& params, const BlockActivations<T>& kept, size_t rows) const;
  void BackwardMlp(UnitParams<T>& params, const BlockActivations<T>& kept,
                   GradientBuffers<T>& gradients, size_t rows) const;
  void BackwardAttention(UnitParams<T>& params, const T* in, const BlockActivations<T>& kept,
                         GradientBuffers<T>& gradients, size_t batch) const;
  void BackwardLinear(UnitParams<T>& params, size_t weight, const T* x, const T* dy, T* dx,
                      MatmulShape shape, bool w_transposed = false) const;
  AttentionShape AttentionOf(size_t batch) const;

  const ModelConfig config_;
  Matmul<T>& matmul_;
  const Ops<T>& ops_;
};

// The gain's and the bias' gradient (the bias is the parameter after the gain), and that of the input, which is added to
// gradients.residual; gradients.norm is that of the output.
template <typename T>
void BackwardNorm(UnitParams<T>& params, size_t gain, const T* x, const T* mean, const T* rstd,
                  GradientBuffers<T>& gradients, size_t rows, size_t width);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_GPT_BLOCK_H_
