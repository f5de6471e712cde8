// A block of a model: attention and a perceptron, each after a norm and added to the residual stream. GptBlock and LlamaBlock are the
// two kinds, and MakeBlock takes that of a model's architecture.
//
//   const std::unique_ptr<Block<float>> block = MakeBlock<float>(config, matmul);
//   block->Forward(params, activations, layer, batch);             // activations.residual(layer) to residual(layer + 1)
//   block->Backward(params, activations, gradients, layer, batch);
//
// Backward is written by hand, and its order is that of communication: a gradient is announced as soon as it is complete, so
// that it is reduced while the rest is computed. That is why a weight's gradient comes before that of its input.
//
// Thread-safety: an object belongs to the thread of its Matmul.
#ifndef WEFT_TRAINER_BLOCK_H_
#define WEFT_TRAINER_BLOCK_H_

#include <cstddef>
#include <memory>

#include "trainer/activations.h"
#include "trainer/matmul.h"
#include "trainer/model_units.h"
#include "trainer/unit_params.h"

namespace weft::trainer {

// One call of a block.
template <typename T>
struct BlockUse {
  UnitParams<T>& params;
  Activations<T>& all;
  const BlockActivations<T>& kept;  // of this block
  size_t layer, batch, rows;

  const T* in() const { return all.residual(layer); }

  T* out() const { return all.residual(layer + 1); }
};

template <typename T>
class Block {
 public:
  virtual ~Block() = default;

  // Of layer `layer` for `batch` sequences, whose unit is in use.
  void Forward(UnitParams<T>& params, Activations<T>& kept, size_t layer, size_t batch) const {
    RunForward(UseOf(params, kept, layer, batch));
  }

  // gradients.residual(): that of what goes out of the block, and afterwards that of what goes into it.
  void Backward(UnitParams<T>& params, Activations<T>& kept, GradientBuffers<T>& gradients,
                size_t layer, size_t batch) const {
    const BlockUse<T> use = UseOf(params, kept, layer, batch);
    ComputeAgain(use);
    RunBackward(use, gradients);
  }

 protected:
  explicit Block(size_t seq) : seq_(seq) {}

  virtual void RunForward(const BlockUse<T>& use) const = 0;
  // What Forward left, as far as other blocks have overwritten it since (Recompute).
  virtual void ComputeAgain(const BlockUse<T>& use) const = 0;
  virtual void RunBackward(const BlockUse<T>& use, GradientBuffers<T>& gradients) const = 0;

 private:
  BlockUse<T> UseOf(UnitParams<T>& params, Activations<T>& all, size_t layer, size_t batch) const {
    return {params, all, all.block(layer), layer, batch, batch * seq_};
  }

  const size_t seq_;
};

template <typename T>
std::unique_ptr<Block<T>> MakeBlock(const ModelConfig& config, Matmul<T>& matmul);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_BLOCK_H_
