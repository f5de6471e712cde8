// A block of a model: attention and a perceptron, each after a norm and added to the residual
// stream.
//
//   const Block<float> block(config, matmul);
//   block.Forward(params, activations, layer, batch);   // residual(layer) to residual(layer + 1)
//   block.Backward(params, activations, gradients, layer, batch);
//
// Backward is written by hand, and its order is that of communication: a gradient is announced as
// soon as it is complete, so that it is reduced while the rest is computed. That is why a weight's
// gradient comes before that of its input.
//
// Thread-safety: an object belongs to the thread of its Matmul.
#ifndef WEFT_TRAINER_BLOCK_H_
#define WEFT_TRAINER_BLOCK_H_

#include <cstddef>
#include <memory>

#include "trainer/block_use.h"
#include "trainer/matmul.h"
#include "trainer/model_units.h"
#include "trainer/perceptron.h"
#include "trainer/self_attention.h"

namespace weft::trainer {

template <typename T>
class Block {
 public:
  Block(const ModelConfig& config, Matmul<T>& matmul);

  // Of layer `layer` for `batch` sequences, whose unit is in use.
  void Forward(UnitParams<T>& params, Activations<T>& kept, size_t layer, size_t batch) const;
  // gradients.residual(): that of what goes out of the block, and afterwards that of what goes into
  // it.
  void Backward(UnitParams<T>& params, Activations<T>& kept, GradientBuffers<T>& gradients,
                size_t layer, size_t batch) const;

 private:
  BlockUse<T> UseOf(UnitParams<T>& params, Activations<T>& all, size_t layer, size_t batch) const;
  // What Forward left, as far as other blocks have overwritten it since (Recompute).
  void ComputeAgain(const BlockUse<T>& use) const;

  const size_t seq_;
  const SelfAttention<T> attention_;
  const std::unique_ptr<const Perceptron<T>> perceptron_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_BLOCK_H_
