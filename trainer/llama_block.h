// A block of Llama (block.h; Touvron et al. 2023): norms by the root of the mean square (Zhang and Sennrich 2019), rotary positions,
// heads that share keys and values (Ainslie et al. 2023), a gated perceptron (SwiGLU, Shazeer 2020), and no biases.
//
// Thread-safety: an object belongs to the thread of its Matmul.
#ifndef WEFT_TRAINER_LLAMA_BLOCK_H_
#define WEFT_TRAINER_LLAMA_BLOCK_H_

#include "trainer/block.h"
#include "trainer/block_layers.h"
#include "trainer/self_attention.h"

namespace weft::trainer {

template <typename T>
class LlamaBlock : public Block<T> {
 public:
  LlamaBlock(const ModelConfig& config, Matmul<T>& matmul);

 private:
  void RunForward(const BlockUse<T>& use) const override;
  void ComputeAgain(const BlockUse<T>& use) const override;
  void RunBackward(const BlockUse<T>& use, GradientBuffers<T>& gradients) const override;
  void Norm2(const BlockUse<T>& use) const;
  void Activate(const BlockUse<T>& use) const;
  void ForwardHidden(const BlockUse<T>& use) const;

  const size_t width_, hidden_;
  const BlockLayers<T> layers_;
  const SelfAttention<T> attention_;
  const Ops<T>& ops_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_LLAMA_BLOCK_H_
