// What forward leaves for backward: of one micro-batch. A model owns none, so that several micro-batches may be under way at once.
//
//   Activations<float> activations(config, batch, Recompute::kFull);
//   model.Forward(inputs, batch, activations);
//   loss = model.Backward(inputs, targets, batch, scale, activations);
//
// What backward computes again needs no memory of its own in each block: all blocks write it to the same place. The numbers are
// the same, since nothing else is computed (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; selective:
// Korthikanti et al. 2022, of which attention needs nothing here, as it keeps the sums of its rows only).
//
// Owns its memory and allocates in the constructor only. Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_ACTIVATIONS_H_
#define WEFT_TRAINER_ACTIVATIONS_H_

#include <cstddef>
#include <vector>

#include "trainer/dropout.h"
#include "trainer/model_units.h"

namespace weft::trainer {

// What backward computes again: nothing; norms and GELU, which cost little; all of a block but its input.
enum class Recompute { kNone, kSelective, kFull };

// Of one block, beside what goes into it: matrices of batch * seq rows, in the order of their making.
template <typename T>
struct BlockActivations {
  T *norm1, *mean1, *rstd1, *qkv, *lse, *mixed;
  T *middle, *norm2, *mean2, *rstd2, *hidden, *active;
};

template <typename T>
class Activations {
 public:
  // `batch` is the largest count of sequences.
  Activations(const ModelConfig& config, size_t batch, Recompute recompute);
  Activations(const Activations&) = delete;
  Activations& operator=(const Activations&) = delete;

  Recompute recompute() const { return recompute_; }

  // What goes into each block, and out of the last one.
  T* residual(size_t layer) { return residual_[layer]; }

  const BlockActivations<T>& block(size_t layer) const { return blocks_[layer]; }

  // What dropout left out in forward, for backward.
  const Dropout& dropout() const { return dropout_; }

  void set_dropout(const Dropout& dropout) { dropout_ = dropout; }

  // Of the final norm.
  T* norm() { return norm_; }

  T* mean() { return mean_; }

  T* rstd() { return rstd_; }

 private:
  T* Take(size_t count);

  const Recompute recompute_;
  Dropout dropout_;
  std::vector<std::vector<T>> memory_;
  std::vector<T*> residual_;
  std::vector<BlockActivations<T>> blocks_;
  T *norm_, *mean_, *rstd_;
};

// How many numbers they have.
size_t ActivationCount(const ModelConfig& config, size_t batch, Recompute recompute);

// Gradients in flight. They hold nothing between two calls of Backward, so a model has one such object.
template <typename T>
struct GradientBuffers {
  GradientBuffers(const ModelConfig& config, size_t batch);

  std::vector<T> residual, norm, wide, qkv;
};

size_t GradientBufferCount(const ModelConfig& config, size_t batch);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_ACTIVATIONS_H_
