// The GPT-2 architecture: embeddings, pre-norm blocks, final norm, output head tied to the token
// embedding, cross-entropy. Forward and backward are written out by hand.
//
//   const auto units = ModelUnits(config);                 // what is stored, by unit
//   Model<float> model(config, batch, views, *matmul, hooks);
//   double loss = model.Forward(inputs, targets, 1.0 / token_count) ;   // sum over the tokens
//   model.Backward(inputs);                                 // gradients are added to the views
//
// The model owns activations only. Parameters and gradients belong to whoever made the views, in the
// trainer to a weft shard context, which learns through UnitHooks when a unit is needed and when a
// gradient is complete.
//
// Thread-safety: an object belongs to one thread. The views must outlive it.
#ifndef WEFT_TRAINER_MODEL_H_
#define WEFT_TRAINER_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/matmul.h"
#include "trainer/ops.h"

namespace weft::trainer {

struct ModelConfig {
  size_t vocabulary = 256;
  size_t seq = 128;
  size_t width = 128;
  size_t layers = 5;
  size_t heads = 4;
};

// One tensor to be stored. Elements are drawn from a normal distribution around `mean`, or are the
// sines and cosines of the positions (rows) at falling frequencies.
struct ParamSpec {
  std::string name;
  std::vector<int64_t> shape;
  double mean = 0;
  double deviation = 0;
  bool decay = false;   // weight decay: matrices only
  double sinusoid = 0;  // amplitude; 0: normal distribution

  size_t Count() const;
};

// What is gathered and reduced together: the embeddings, each block, the final norm.
struct UnitSpec {
  std::string name;
  std::vector<ParamSpec> params;
};

// All units in the order in which forward uses them.
std::vector<UnitSpec> ModelUnits(const ModelConfig& config);
size_t ParameterCount(const std::vector<UnitSpec>& units);
// Floating-point operations of forward and backward for one token.
double FlopsPerToken(const ModelConfig& config);

template <typename T>
struct ParamView {
  T* data = nullptr;
  T* grad = nullptr;
  size_t count = 0;
};

// Initial values; they depend on the seed, the position of the parameter and the element only.
template <typename T>
void InitParam(const ParamSpec& spec, uint64_t seed, size_t param_index, T* data);

// Called around the use of each unit. The embedding unit is used twice: its pre_backward comes
// first and its post_backward last, because the output head shares its token table.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void PreForward(size_t unit) = 0;
  virtual void PostForward(size_t unit) = 0;
  virtual void PreBackward(size_t unit) = 0;
  virtual void GradReady(size_t unit, size_t param) = 0;
  virtual void PostBackward(size_t unit) = 0;
};

template <typename T>
class Model {
 public:
  // views[unit][param] as ModelUnits lists them; `batch` is the largest count of sequences.
  Model(const ModelConfig& config, size_t batch, std::vector<std::vector<ParamView<T>>> views,
        Matmul<T>& matmul, UnitHooks& hooks);

  // Returns the sum of -log p(target) over batch * seq tokens (both arrays are [batch, seq]).
  // grad_scale is the weight of one token's loss in the gradient.
  double Forward(const uint8_t* inputs, const uint8_t* targets, size_t batch, double grad_scale);
  // As Forward without backward, but the first `skip` tokens of each sequence are context only.
  double Score(const uint8_t* inputs, const uint8_t* targets, size_t batch, size_t skip);
  // The logits of one sequence of `seq` tokens, [seq, vocabulary]; valid until the next call.
  const T* Logits(const uint8_t* inputs);
  void Backward(const uint8_t* inputs, size_t batch);

 private:
  // Activations of one block that the way back needs.
  struct Block {
    std::vector<T> in, norm1, mean1, rstd1, qkv, lse, mixed;
    std::vector<T> middle, norm2, mean2, rstd2, hidden, active;
  };

  void ForwardToLogits(const uint8_t* inputs, size_t batch);
  void ForwardBlock(size_t layer, size_t batch, T* out);
  void BackwardBlock(size_t layer, size_t batch);
  void BackwardMlp(size_t layer, size_t rows);
  void BackwardAttention(size_t layer, size_t batch);
  void BackwardLinear(size_t unit, size_t weight, const T* x, const T* dy, T* dx,
                      MatmulShape shape);

  const T* Data(size_t unit, size_t param) const { return views_[unit][param].data; }

  T* Grad(size_t unit, size_t param) const { return views_[unit][param].grad; }

  const ModelConfig config_;
  const std::vector<std::vector<ParamView<T>>> views_;
  Matmul<T>& matmul_;
  UnitHooks& hooks_;
  const Ops<T>& ops_;
  std::vector<Block> blocks_;
  std::vector<T> last_, norm_, mean_, rstd_, logits_;  // final norm and head
  std::vector<T> dres_, dnorm_, dwide_, dqkv_;         // gradients in flight
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_H_
