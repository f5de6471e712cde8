// The GPT-2 architecture: embeddings, pre-norm blocks, final norm, output head tied to the token
// embedding, cross-entropy. Forward and backward are written out by hand.
//
//   const auto units = ModelUnits(config);                 // what is stored, by unit
//   Model<float> model(config, batch, *matmul, hooks);
//   double loss = model.Forward(inputs, targets, batch, 1.0 / token_count);  // sum over the tokens
//   model.Backward(inputs, batch);                          // gradients are added to the views
//
// The model owns activations only. Parameters and gradients belong to whoever implements UnitHooks, in
// the trainer to a weft shard context, which learns through them when a unit is needed and when a
// gradient is complete. Where they lie may change from use to use: the hook that opens a use says it.
//
// Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_MODEL_H_
#define WEFT_TRAINER_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <span>
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
  bool ends_forward = false;  // it is used once more, at the end of forward: the head is tied to it
};

// All units in the order in which forward uses them. The heads of a block are rows of attn.qkv, [heads, 3, head_dim] x width (and
// of its bias), and of attn.proj; hidden units are rows of mlp.up and mlp.down; tokens are rows of wte. So what a rank of
// tensor parallelism has of a parameter is one interval of its elements.
std::vector<UnitSpec> ModelUnits(const ModelConfig& config);
size_t ParameterCount(const std::vector<UnitSpec>& units);
// Floating-point operations of forward and backward for one token.
double FlopsPerToken(const ModelConfig& config);

// How many numbers a Model of so many sequences keeps for itself.
size_t ActivationCount(const ModelConfig& config, size_t batch);

// Where a parameter and its gradient are while their unit is in use.
template <typename T>
struct ParamView {
  T* data = nullptr;
  T* grad = nullptr;
  size_t count = 0;
};

// The parameters of a unit, as ModelUnits lists them.
template <typename T>
using UnitView = std::span<const ParamView<T>>;

// Initial values; they depend on the seed, the position of the parameter and the element only.
template <typename T>
void InitParam(const ParamSpec& spec, uint64_t seed, size_t param_index, T* data);

// Called around the use of each unit. The embedding unit is used twice, because the output head shares its token
// table: at both ends of forward, and of backward, which announces its gradients at the second use.
template <typename T>
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  // The unit's parameters, where they are until PostForward.
  virtual UnitView<T> PreForward(size_t unit) = 0;
  virtual void PostForward(size_t unit) = 0;
  // Parameters and gradients, where they are until PostBackward.
  virtual UnitView<T> PreBackward(size_t unit) = 0;
  virtual void GradReady(size_t unit, size_t param) = 0;
  virtual void PostBackward(size_t unit) = 0;
};

template <typename T>
class Model {
 public:
  // `batch` is the largest count of sequences.
  Model(const ModelConfig& config, size_t batch, Matmul<T>& matmul, UnitHooks<T>& hooks);

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

  void EnterForward(size_t unit);
  void LeaveForward(size_t unit);
  void EnterBackward(size_t unit);
  void LeaveBackward(size_t unit);
  void ForwardToLogits(const uint8_t* inputs, size_t batch);
  void ForwardBlock(size_t layer, size_t batch, T* out);
  void BackwardBlock(size_t layer, size_t batch);
  void BackwardMlp(size_t layer, size_t rows);
  void BackwardAttention(size_t layer, size_t batch);
  void BackwardNorm(size_t unit, size_t gain, const std::vector<T>& x, const std::vector<T>& mean,
                    const std::vector<T>& rstd, size_t rows);
  void BackwardLinear(size_t unit, size_t weight, const T* x, const T* dy, T* dx, MatmulShape shape,
                      bool w_transposed = false);

  const T* Data(size_t unit, size_t param) const { return views_[unit][param].data; }

  T* Grad(size_t unit, size_t param) const { return views_[unit][param].grad; }

  const ModelConfig config_;
  Matmul<T>& matmul_;
  UnitHooks<T>& hooks_;
  const Ops<T>& ops_;
  std::vector<UnitView<T>> views_;  // by unit; empty while the unit is not in use
  std::vector<Block> blocks_;
  std::vector<T> last_, norm_, mean_, rstd_, logits_;  // final norm and head
  std::vector<T> dres_, dnorm_, dwide_, dqkv_;         // gradients in flight
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_H_
