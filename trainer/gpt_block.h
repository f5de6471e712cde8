// A block of GPT-2 (block.h): norms with means and biases, biases of all layers, a perceptron with GELU.
//
// Thread-safety: an object belongs to the thread of its Matmul.
#ifndef WEFT_TRAINER_GPT_BLOCK_H_
#define WEFT_TRAINER_GPT_BLOCK_H_

#include "trainer/block.h"
#include "trainer/block_layers.h"
#include "trainer/self_attention.h"

namespace weft::trainer {

template <typename T>
class GptBlock : public Block<T> {
 public:
  GptBlock(const ModelConfig& config, Matmul<T>& matmul);

 private:
  void RunForward(const BlockUse<T>& use) const override;
  void ComputeAgain(const BlockUse<T>& use) const override;
  void RunBackward(const BlockUse<T>& use, GradientBuffers<T>& gradients) const override;
  void Norm2(const BlockUse<T>& use) const;
  void ForwardHidden(const BlockUse<T>& use) const;

  const size_t width_, hidden_;
  const BlockLayers<T> layers_;
  const SelfAttention<T> attention_;
  const Ops<T>& ops_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_GPT_BLOCK_H_
