// What a model is made of: its shape, the parameters that are stored, by unit, and how these begin.
// No numbers are computed here, so a plan of a run needs no more than this.
//
//   const std::vector<UnitSpec> units = ModelUnits(config);
//   InitParam(units[u].params[p], seed, index, values);
//
// The architecture is GPT-2's: token and position embeddings, pre-norm blocks, a final norm, an
// output head that is the token embedding again or a matrix of its own. Or Llama's, whose blocks
// are other ones (perceptron.h), and which has no positions but in attention.
//
// Thread-safety: values.
#ifndef WEFT_TRAINER_MODEL_UNITS_H_
#define WEFT_TRAINER_MODEL_UNITS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::trainer {

// How the table of positions begins: as sines and cosines at falling frequencies, which short runs
// of narrow models learn from faster, or as GPT-2's, normal with a deviation of 0.01.
enum class Positions { kSinusoids, kNormal };

enum class Architecture { kGpt2, kLlama };

// Of a block's linear layer, in -> out.
struct LinearShape {
  size_t in = 0;
  size_t out = 0;
  bool transposed = false;  // it is stored [out, in]
};

constexpr double kGpt2NormEpsilon = 1e-5;

struct ModelConfig {
  size_t vocabulary = 256;  // tokens are below it
  size_t seq = 128;
  size_t width = 128;
  size_t layers = 5;
  size_t heads = 4;
  bool tied_head = true;
  Positions positions = Positions::kSinusoids;
  // Of matrices at first. Narrow models in short runs: about 1 / sqrt(width) instead of GPT-2's
  // 0.02. With the sinusoids it saves more than half of the tokens to the same loss;
  // docs/trainer.md has the measurements.
  double deviation = 0.08;
  size_t vocabulary_multiple = 128;  // rows of the token table are a multiple of it
  Architecture architecture = Architecture::kGpt2;
  // Of Llama alone.
  size_t kv_heads = 0;  // heads of keys and values, a divisor of heads; 0: as many
  size_t hidden = 0;    // width of the perceptron; 0: 8/3 of the width, up to a multiple of 64
  double rope_theta = 10000;  // base of the rotary positions
  double norm_epsilon = kGpt2NormEpsilon;

  bool operator==(const ModelConfig&) const = default;

  // Rows of the token table, and columns of logits; those from `vocabulary` on belong to no token.
  size_t padded_vocabulary() const {
    return (vocabulary + vocabulary_multiple - 1) / vocabulary_multiple * vocabulary_multiple;
  }

  size_t head_dim() const { return width / heads; }

  size_t key_heads() const { return kv_heads == 0 ? heads : kv_heads; }

  // Of a token's queries, keys and values.
  size_t qkv_columns() const { return (heads + 2 * key_heads()) * head_dim(); }

  size_t hidden_width() const {
    if (architecture == Architecture::kGpt2) return 4 * width;
    constexpr size_t kMultiple = 64;
    constexpr size_t kThreeOfThem = 3 * kMultiple;
    return hidden != 0 ? hidden : (8 * width + kThreeOfThem - 1) / kThreeOfThem * kMultiple;
  }

  // That of the output head within the last unit, where it is not tied.
  size_t head_param() const { return architecture == Architecture::kGpt2 ? 2 : 1; }
};

// With the numbers that `config` leaves to its other ones: of Llama kv_heads and hidden.
ModelConfig WithModelDefaults(ModelConfig config);

// Positions of the parameters within their units. Llama has no kPositions.
enum EmbeddingParam : size_t { kTokens, kPositions };

// Of GPT-2.
enum BlockParam : size_t {
  kNorm1Gain,
  kNorm1Bias,
  kQkv,
  kQkvBias,
  kProjection,
  kProjectionBias,
  kNorm2Gain,
  kNorm2Bias,
  kUp,
  kUpBias,
  kDown,
  kDownBias,
};

enum LlamaBlockParam : size_t {
  kLlamaNorm1,
  kLlamaQkv,
  kLlamaProjection,
  kLlamaNorm2,
  kLlamaGate,
  kLlamaUp,
  kLlamaDown,
};

// Where a block's gains and weights stand. In GPT-2 the bias of each is the parameter after it, and
// there is no gate.
struct BlockPlaces {
  size_t norm1, qkv, projection, norm2, gate, up, down;
};

constexpr BlockPlaces BlockPlacesOf(Architecture architecture) {
  if (architecture == Architecture::kGpt2)
    return {kNorm1Gain, kQkv, kProjection, kNorm2Gain, SIZE_MAX, kUp, kDown};
  return {kLlamaNorm1, kLlamaQkv, kLlamaProjection, kLlamaNorm2, kLlamaGate, kLlamaUp, kLlamaDown};
}

// Llama has no bias. The head (ModelConfig::head_param) is there if it is not tied.
enum FinalParam : size_t { kFinalGain, kFinalBias };

// One tensor to be stored. Elements are drawn from a normal distribution around `mean`, or are the
// sines and cosines of the positions (rows) at falling frequencies.
struct ParamSpec {
  std::string name;
  std::vector<int64_t> shape;
  double mean = 0;
  double deviation = 0;
  bool decay = false;       // weight decay: matrices only
  double sinusoid = 0;      // amplitude; 0: normal distribution
  size_t padding_rows = 0;  // the last rows, which stay 0
  // The first that its gradient has in a step is a matrix product.
  bool multiplied = false;

  size_t Count() const;
};

// What is gathered and reduced together: the embeddings, each block, the final norm.
struct UnitSpec {
  std::string name;
  std::vector<ParamSpec> params;
  bool ends_forward = false;  // it is used once more, at the end of forward: the head is tied to it
};

// All units in the order in which forward uses them. The heads of a block are rows of attn.qkv,
// [heads, 3, head_dim] x width (and of its bias), and of attn.proj; hidden units are rows of
// mlp.gate, mlp.up and mlp.down; tokens are rows of wte. So what a rank of tensor parallelism has
// of a parameter is one interval of its elements. Where heads share keys and values attn.qkv is
// [kv_heads, heads / kv_heads + 2, head_dim] x width: queries, then the key and the value that they
// share.
std::vector<UnitSpec> ModelUnits(const ModelConfig& config);
// Of one block, in the order of forward.
std::vector<LinearShape> BlockLinears(const ModelConfig& config);
size_t ParameterCount(const std::vector<UnitSpec>& units);
// Floating-point operations of forward and backward for one token.
double FlopsPerToken(const ModelConfig& config);

// Initial values; they depend on the seed, the position of the parameter and the element only.
template <typename T>
void InitParam(const ParamSpec& spec, uint64_t seed, size_t param_index, T* data);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_UNITS_H_
