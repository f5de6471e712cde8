// The first half of a block: a norm, queries, keys and values, attention, and a projection that is
// added to the residual stream. Llama turns queries and keys by their positions (rotation.h); in
// GPT-2 the token's position is in the residual stream.
//
//   const SelfAttention<float> attention(config, matmul);
//   attention.Forward(use);        // use.in() to use.kept.middle
//
// Thread-safety: an object belongs to the thread of its Matmul.
#ifndef WEFT_TRAINER_SELF_ATTENTION_H_
#define WEFT_TRAINER_SELF_ATTENTION_H_

#include <cstddef>
#include <vector>

#include "trainer/block_layers.h"
#include "trainer/block_use.h"
#include "trainer/model_units.h"
#include "trainer/ops.h"

namespace weft::trainer {

template <typename T>
class SelfAttention {
 public:
  SelfAttention(const ModelConfig& config, Matmul<T>& matmul);

  void Forward(const BlockUse<T>& use) const;
  // The norm alone, for backward.
  void Norm(const BlockUse<T>& use) const;
  // gradients.residual(): that of use.kept.middle, and afterwards that of use.in().
  void Backward(const BlockUse<T>& use, GradientBuffers<T>& gradients) const;

 private:
  AttentionShape ShapeFor(size_t batch) const;
  DropoutMask Mask(const BlockUse<T>& use) const;

  const ModelConfig config_;
  const BlockPlaces at_;
  const BlockLayers<T> layers_;
  const Ops<T>& ops_;
  const std::vector<T> rotation_;  // empty: there is none
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_SELF_ATTENTION_H_
