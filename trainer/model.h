// A model of the GPT-2 architecture (model_units.h): forward, cross-entropy and backward, written out by hand.
//
//   Model<float> model(config, batch, *matmul, hooks);
//   Activations<float> activations(config, batch);
//   double loss = model.Forward(inputs, targets, batch, 1.0 / token_count, activations);  // sum over the tokens
//   model.Backward(inputs, batch, activations);              // gradients are added to the views
//
// The model owns neither parameters and gradients, which belong to whoever implements UnitHooks, nor activations.
//
// Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_MODEL_H_
#define WEFT_TRAINER_MODEL_H_

#include <cstddef>

#include "trainer/activations.h"
#include "trainer/gpt_block.h"
#include "trainer/matmul.h"
#include "trainer/model_units.h"
#include "trainer/ops.h"
#include "trainer/tokenizer/token.h"
#include "trainer/unit_params.h"

namespace weft::trainer {

template <typename T>
class Model {
 public:
  // `batch` is the largest count of sequences.
  Model(const ModelConfig& config, size_t batch, Matmul<T>& matmul, UnitHooks<T>& hooks);

  // Returns the sum of -log p(target) over batch * seq tokens (both arrays are [batch, seq]).
  // grad_scale is the weight of one token's loss in the gradient.
  double Forward(const Token* inputs, const Token* targets, size_t batch, double grad_scale,
                 Activations<T>& kept);
  // As Forward without backward, but the first `skip` tokens of each sequence are context only.
  double Score(const Token* inputs, const Token* targets, size_t batch, size_t skip,
               Activations<T>& kept);
  // The logits of one sequence of `seq` tokens, [seq, padded_vocabulary], which stand in `kept`.
  const T* Logits(const Token* inputs, Activations<T>& kept);
  // After Forward with the same inputs and activations.
  void Backward(const Token* inputs, size_t batch, const Activations<T>& kept);

 private:
  void ForwardToLogits(const Token* inputs, size_t batch, Activations<T>& kept);
  void ForwardHead(size_t rows, Activations<T>& kept, size_t weight);
  void BackwardHead(size_t rows, const Activations<T>& kept, size_t weight);
  void BackwardFinal(size_t rows, const Activations<T>& kept);

  size_t FinalUnit() const { return config_.layers + 1; }

  const ModelConfig config_;
  Matmul<T>& matmul_;
  const Ops<T>& ops_;
  const GptBlock<T> block_;
  UnitParams<T> params_;
  GradientBuffers<T> gradients_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_H_
