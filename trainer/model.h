// A model of one of the architectures (model_units.h): forward, cross-entropy and backward, written
// out by hand.
//
//   Model<float> model(config, batch, *matmul, hooks);
//   Activations<float> activations(config, batch, Recompute::kNone, model.input_type());
//   model.Forward(inputs, batch, activations);
//   double loss = model.Backward(inputs, targets, batch, 1.0 / token_count, activations);  // sum over the tokens
//
// Gradients are added to the views. The loss comes with backward, since logits and their gradients
// are taken together (output_head.h).
//
// The model owns neither parameters and gradients, which belong to whoever implements UnitHooks,
// nor activations.
//
// Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_MODEL_H_
#define WEFT_TRAINER_MODEL_H_

#include <cstddef>

#include "trainer/activations.h"
#include "trainer/block.h"
#include "trainer/block_layers.h"
#include "trainer/matmul.h"
#include "trainer/model_units.h"
#include "trainer/ops.h"
#include "trainer/output_head.h"
#include "trainer/tokenizer/token.h"
#include "trainer/unit_params.h"

namespace weft::trainer {

template <typename T>
class Model {
 public:
  // `batch` is the largest count of sequences.
  Model(const ModelConfig& config, size_t batch, Matmul<T>& matmul, UnitHooks<T>& hooks);

  // That of the activations' matrices.
  NumberType input_type() const { return gradients_.inputs(); }

  // inputs, and targets below, are [batch, seq].
  void Forward(const Token* inputs, size_t batch, Activations<T>& kept,
               const Dropout& dropout = {});
  // After Forward with the same inputs and activations. Returns the sum of -log p(target) over the
  // tokens, each of which has the weight `scale` in the gradients.
  double Backward(const Token* inputs, const Token* targets, size_t batch, double scale,
                  Activations<T>& kept);
  // Forward without dropout and backward: the sum, but the first `skip` tokens of each sequence are
  // context only.
  double Score(const Token* inputs, const Token* targets, size_t batch, size_t skip,
               Activations<T>& kept);
  // The logits after token `position` of one sequence of `seq` tokens, [padded_vocabulary]; valid
  // until the next call.
  const T* Logits(const Token* inputs, size_t position, Activations<T>& kept);

 private:
  // Runs `use` with the weights of the head, in forward.
  template <typename Use>
  void WithHead(const Use& use);
  void DropEmbedding(T* x, size_t rows, const Activations<T>& kept);
  void ForwardToHead(const Token* inputs, size_t batch, Activations<T>& kept);
  double BackwardHead(const Token* targets, size_t rows, double scale, Activations<T>& kept,
                      size_t weight);
  void BackwardFinal(size_t rows, Activations<T>& kept);

  bool has_positions() const { return config_.architecture == Architecture::kGpt2; }

  size_t FinalUnit() const { return config_.layers + 1; }

  const ModelConfig config_;
  const Ops<T>& ops_;
  const BlockLayers<T> layers_;  // of the final norm
  const Block<T> block_;
  OutputHead<T> head_;
  UnitParams<T> params_;
  GradientBuffers<T> gradients_;
};

// Bytes of a Model<float> and of the activations of one micro-batch. inputs: what
// Matmul<float>::input_type says.
size_t WorkingBytes(const ModelConfig& config, size_t batch, Recompute recompute,
                    NumberType inputs);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_H_
