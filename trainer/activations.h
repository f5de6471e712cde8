// What forward leaves for backward: of one micro-batch. A model owns none, so that several micro-batches may be under way at once.
//
//   Activations<float> activations(config, batch);
//   model.Forward(inputs, targets, batch, scale, activations);
//   model.Backward(inputs, batch, activations);
//
// Owns its memory and allocates in the constructor only. Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_ACTIVATIONS_H_
#define WEFT_TRAINER_ACTIVATIONS_H_

#include <cstddef>
#include <vector>

#include "trainer/model_units.h"

namespace weft::trainer {

// Of one block, beside what goes into it: matrices of rows = batch * seq, in the order of their making.
template <typename T>
struct BlockActivations {
  std::vector<T> norm1, mean1, rstd1, qkv, lse, mixed;
  std::vector<T> middle, norm2, mean2, rstd2, hidden, active;

  BlockActivations(const ModelConfig& config, size_t rows);
};

template <typename T>
struct Activations {
  // `batch` is the largest count of sequences.
  Activations(const ModelConfig& config, size_t batch);

  std::vector<std::vector<T>> residual;  // what goes into each block, and out of the last one
  std::vector<BlockActivations<T>> blocks;
  std::vector<T> norm, mean, rstd;  // of the final norm
  std::vector<T> logits;            // after Forward with a gradient: that of the logits
};

// Gradients in flight. They hold nothing between two calls of Backward, so a model has one such object.
template <typename T>
struct GradientBuffers {
  GradientBuffers(const ModelConfig& config, size_t batch);

  std::vector<T> residual, norm, wide, qkv;
};

// How many numbers both have for so many sequences.
size_t ActivationCount(const ModelConfig& config, size_t batch);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_ACTIVATIONS_H_
