// A block of GPT-2: attention and a perceptron, each after a norm and added to the residual stream.
//
//   const GptBlock<float> block(config, matmul);
//   block.Forward(params, activations, layer, batch);              // activations.residual(layer) to residual(layer + 1)
//   block.Backward(params, activations, gradients, layer, batch);
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

  // Of layer `layer` for `batch` sequences, whose unit is in use.
  void Forward(UnitParams<T>& params, Activations<T>& kept, size_t layer, size_t batch) const;
  // gradients.residual(): that of what goes out of the block, and afterwards that of what goes into it.
  void Backward(UnitParams<T>& params, Activations<T>& kept, GradientBuffers<T>& gradients,
                size_t layer, size_t batch) const;

 private:
  // One call's.
  struct Use {
    UnitParams<T>& params;
    Activations<T>& all;
    const BlockActivations<T>& kept;  // of this block
    size_t layer, batch, rows;

    const T* in() const { return all.residual(layer); }
  };

  Use UseOf(UnitParams<T>& params, Activations<T>& all, size_t layer, size_t batch) const;
  void Norm1(const Use& use) const;
  void Norm2(const Use& use) const;
  void ForwardAttention(const Use& use) const;
  void ForwardHidden(const Use& use) const;
  // What Forward left, as far as other blocks have overwritten it since.
  void ComputeAgain(const Use& use) const;
  void BackwardMlp(const Use& use, GradientBuffers<T>& gradients) const;
  void BackwardAttention(const Use& use, GradientBuffers<T>& gradients) const;
  // out = input + what the layer and then dropout give. weight: of the params, before its bias.
  void AddLinear(const Use& use, size_t weight, Numbers x, DropoutSite site, const T* input, T* out,
                 size_t columns) const;
  // The gradient of that layer's output, from the residual stream's, and of its bias.
  Numbers BackwardAdd(const Use& use, size_t weight, DropoutSite site,
                      GradientBuffers<T>& gradients) const;
  // That of a weight, and through `dx` that of the input.
  void BackwardProducts(const Use& use, size_t weight, Numbers x, Numbers dy, MutableNumbers dx,
                        MatmulShape shape, bool w_transposed = false) const;
  DropoutMask AttentionMask(const Use& use) const;
  AttentionShape AttentionOf(size_t batch) const;

  const ModelConfig config_;
  Matmul<T>& matmul_;
  const Ops<T>& ops_;
};

// The gain's and the bias' gradient (the bias is the parameter after the gain), and that of the input, which is added to
// gradients.residual(); gradients.norm() is that of the output.
template <typename T>
void BackwardNorm(UnitParams<T>& params, size_t gain, const T* x, const T* mean, const T* rstd,
                  GradientBuffers<T>& gradients, size_t rows, size_t width);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_GPT_BLOCK_H_
