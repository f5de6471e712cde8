// What forward leaves for backward: of one micro-batch. A model owns none, so that several
// micro-batches may be under way at once.
//
//   Activations<float> activations(config, batch, Recompute::kFull, model.input_type());
//   model.Forward(inputs, batch, activations);
//   loss = model.Backward(inputs, targets, batch, scale, activations);
//
// What backward computes again needs no memory of its own in each block: all blocks write it to the
// same place. The numbers are the same, since nothing else is computed (Chen et al. 2016, "Training
// Deep Nets with Sublinear Memory Cost"; selective: Korthikanti et al. 2022, of which attention
// needs nothing here, as it keeps the sums of its rows only).
//
// What only products and what stands between them read has the type of the products' inputs, so
// that no product rounds it again; the residual stream and its norms' numbers have T. Rows of those
// matrices are a cache line longer than their columns, since the gradient of a weight reads them
// across the rows, which else fall into few sets of the cache.
//
// Owns its memory and allocates in the constructor only. Thread-safety: an object belongs to one
// thread.
#ifndef WEFT_TRAINER_ACTIVATIONS_H_
#define WEFT_TRAINER_ACTIVATIONS_H_

#include <cstddef>
#include <vector>

#include "trainer/aligned_vector.h"
#include "trainer/dropout.h"
#include "trainer/model_units.h"
#include "trainer/number_type.h"

namespace weft::trainer {

// What backward computes again: nothing; norms and GELU or SwiGLU, which cost little; all of a
// block but its input.
enum class Recompute { kNone, kSelective, kFull };

// Numbers between the rows of a matrix that products read.
size_t InputStride(size_t columns, NumberType type);

// Of one block, beside what goes into it: matrices of batch * seq rows, in the order of their
// making. Of GPT-2 gate is empty, of Llama the means are.
template <typename T>
struct BlockActivations {
  MutableNumbers norm1, qkv, mixed, norm2, gate, hidden, active;  // for products
  T *mean1 = nullptr, *rstd1, *lse, *middle, *mean2 = nullptr, *rstd2;
};

template <typename T>
class Activations {
 public:
  // `batch` is the largest count of sequences. `inputs`: Model<T>::input_type.
  Activations(const ModelConfig& config, size_t batch, Recompute recompute,
              NumberType inputs = kNumberTypeOf<T>);
  Activations(const Activations&) = delete;
  Activations& operator=(const Activations&) = delete;

  Recompute recompute() const { return recompute_; }

  NumberType inputs() const { return inputs_; }

  // What goes into each block, and out of the last one.
  T* residual(size_t layer) { return residual_[layer]; }

  const BlockActivations<T>& block(size_t layer) const { return blocks_[layer]; }

  // What dropout left out in forward, for backward.
  const Dropout& dropout() const { return dropout_; }

  void set_dropout(const Dropout& dropout) { dropout_ = dropout; }

  // Of the final norm; for products.
  MutableNumbers norm() const { return norm_; }

  T* mean() { return mean_; }

  T* rstd() { return rstd_; }

 private:
  void* TakeBytes(size_t bytes);
  T* Take(size_t count);
  MutableNumbers TakeInput(size_t rows, size_t columns);

  const Recompute recompute_;
  const NumberType inputs_;
  Dropout dropout_;
  std::vector<AlignedVector<std::byte>> memory_;
  std::vector<T*> residual_;
  std::vector<BlockActivations<T>> blocks_;
  MutableNumbers norm_;
  T *mean_, *rstd_;
};

// Bytes of Activations<float>.
size_t ActivationBytes(const ModelConfig& config, size_t batch, Recompute recompute,
                       NumberType inputs);

// Gradients in flight. They hold nothing between two calls of Backward, so a model has one such
// object. What products read has the type of their inputs.
template <typename T>
class GradientBuffers {
 public:
  GradientBuffers(const ModelConfig& config, size_t batch, NumberType inputs);
  GradientBuffers(const GradientBuffers&) = delete;
  GradientBuffers& operator=(const GradientBuffers&) = delete;

  NumberType inputs() const { return inputs_; }

  // [rows, width] of T: of the residual stream, and of what a norm gave.
  T* residual() { return residual_.data(); }

  T* norm() { return norm_.data(); }

  // For products, [rows, width]: of what goes into a sum with the residual stream.
  MutableNumbers output() { return Input(output_, width_); }

  // Of what is inside of a perceptron, [rows, hidden_width], or what goes out of attention, [rows,
  // width].
  MutableNumbers wide() { return Input(wide_, hidden_); }

  MutableNumbers mixed() { return Input(wide_, width_); }

  // Of Llama: that of the gates, [rows, hidden_width].
  MutableNumbers gate() { return Input(gate_, hidden_); }

  // [rows, qkv_columns]
  MutableNumbers qkv() { return Input(qkv_, qkv_columns_); }

 private:
  MutableNumbers Input(AlignedVector<std::byte>& memory, size_t columns) const;

  const size_t width_, hidden_, qkv_columns_;
  const NumberType inputs_;
  AlignedVector<T> residual_, norm_;
  AlignedVector<std::byte> output_, wide_, gate_, qkv_;
};

size_t GradientBufferBytes(const ModelConfig& config, size_t batch, NumberType inputs);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_ACTIVATIONS_H_
