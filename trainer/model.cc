// Backward is written by hand, and its order is that of communication: a gradient is announced as soon as it is complete, so
// that it is reduced while the rest is computed. That is why a weight's gradient comes before that of its input. Params may lie
// elsewhere at each use of their unit; views_ is emptied when a use ends, so that a late access fails at once.
#include "trainer/model.h"

#include <algorithm>
#include <cmath>

#include "trainer/random.h"

namespace weft::trainer {
namespace {

// Positions of the parameters within their units.
enum Embedding : size_t { kTokens, kPositions };

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

enum Final : size_t { kFinalGain, kFinalBias };

constexpr size_t kEmbeddingUnit = 0;
// Narrow models in short runs: about 1 / sqrt(width) instead of GPT-2's 0.02, and a position table
// that starts as sinusoids, so that a head can find a neighbour by a rotation. Together they save
// more than half of the tokens to the same loss; docs/trainer.md has the measurements.
constexpr double kDeviation = 0.08;
constexpr double kPositionAmplitude = 0.2;
constexpr double kPositionBase = 1000;

ParamSpec Matrix(const std::string& name, size_t rows, size_t columns, double deviation) {
  return {name, {int64_t(rows), int64_t(columns)}, 0, deviation, true};
}

ParamSpec PositionTable(size_t rows, size_t columns) {
  return {"wpe", {int64_t(rows), int64_t(columns)}, 0, 0, true, kPositionAmplitude};
}

template <typename T>
void FillSinusoids(const ParamSpec& spec, T* data) {
  const size_t width = size_t(spec.shape[1]);
  for (size_t i = 0; i < spec.Count(); i++) {
    const size_t column = i % width;
    const double frequency =
        std::pow(kPositionBase, -double(column / 2) / std::max(1.0, double(width / 2)));
    const double angle = double(i / width) * frequency;
    data[i] = T(spec.sinusoid * (column % 2 == 0 ? std::sin(angle) : std::cos(angle)));
  }
}

ParamSpec Vector(const std::string& name, size_t count, double value) {
  return {name, {int64_t(count)}, value, 0, false};
}

}  // namespace

size_t ParamSpec::Count() const {
  size_t count = 1;
  for (int64_t n : shape)
    count *= size_t(n);
  return count;
}

std::vector<UnitSpec> ModelUnits(const ModelConfig& config) {
  const size_t c = config.width;
  // GPT-2 scales what is added to the residual stream by the number of such additions.
  const double residual = kDeviation / std::sqrt(2.0 * double(config.layers));
  std::vector<UnitSpec> units;
  units.push_back({"embedding",
                   {Matrix("wte", config.vocabulary, c, kDeviation), PositionTable(config.seq, c)},
                   /*ends_forward=*/true});
  for (size_t i = 0; i < config.layers; i++) {
    const std::string at = "block." + std::to_string(i);
    units.push_back(
        {at,
         {Vector(at + ".ln1.weight", c, 1), Vector(at + ".ln1.bias", c, 0),
          Matrix(at + ".attn.qkv.weight", 3 * c, c, kDeviation),
          Vector(at + ".attn.qkv.bias", 3 * c, 0), Matrix(at + ".attn.proj.weight", c, c, residual),
          Vector(at + ".attn.proj.bias", c, 0), Vector(at + ".ln2.weight", c, 1),
          Vector(at + ".ln2.bias", c, 0), Matrix(at + ".mlp.up.weight", 4 * c, c, kDeviation),
          Vector(at + ".mlp.up.bias", 4 * c, 0),
          Matrix(at + ".mlp.down.weight", 4 * c, c, residual),
          Vector(at + ".mlp.down.bias", c, 0)}});
  }
  units.push_back({"final", {Vector("lnf.weight", c, 1), Vector("lnf.bias", c, 0)}});
  return units;
}

size_t ParameterCount(const std::vector<UnitSpec>& units) {
  size_t count = 0;
  for (const UnitSpec& unit : units) {
    for (const ParamSpec& param : unit.params)
      count += param.Count();
  }
  return count;
}

double FlopsPerToken(const ModelConfig& config) {
  const double c = double(config.width);
  const double linear = double(config.layers) * 12 * c * c + c * double(config.vocabulary);
  const double attention = double(config.layers) * c * double(config.seq);  // causal half of QK, PV
  return 6 * (linear + attention);
}

// As Model's constructor takes them: of each block, then of the final norm, the head and the gradients in flight.
size_t ActivationCount(const ModelConfig& config, size_t batch) {
  const size_t c = config.width;
  const size_t of_blocks = config.layers * (16 * c + 4 + config.heads);
  const size_t of_the_rest = 11 * c + 2 + config.vocabulary;
  return batch * config.seq * (of_blocks + of_the_rest);
}

template <typename T>
void InitParam(const ParamSpec& spec, uint64_t seed, size_t param_index, T* data) {
  const size_t count = spec.Count();
  if (spec.sinusoid != 0) return FillSinusoids(spec, data);
  if (spec.deviation == 0) {
    for (size_t i = 0; i < count; i++)
      data[i] = T(spec.mean);
    return;
  }
  const uint64_t key = Mix(Mix(seed) + param_index);
  for (size_t i = 0; i < count; i++) {
    data[i] = T(spec.mean + spec.deviation * NormalAt(key, i));
  }
}

template <typename T>
Model<T>::Model(const ModelConfig& config, size_t batch, Matmul<T>& matmul, UnitHooks<T>& hooks)
    : config_(config),
      matmul_(matmul),
      hooks_(hooks),
      ops_(GetOps<T>()),
      views_(config.layers + 2),
      blocks_(config.layers) {
  const size_t rows = batch * config.seq;
  const size_t c = config.width;
  for (Block& b : blocks_) {
    for (auto* v : {&b.in, &b.norm1, &b.mixed, &b.middle, &b.norm2})
      v->resize(rows * c);
    for (auto* v : {&b.mean1, &b.rstd1, &b.mean2, &b.rstd2})
      v->resize(rows);
    for (auto* v : {&b.hidden, &b.active})
      v->resize(rows * 4 * c);
    b.qkv.resize(rows * 3 * c);
    b.lse.resize(rows * config.heads);
  }
  for (auto* v : {&last_, &norm_, &dres_, &dnorm_})
    v->resize(rows * c);
  for (auto* v : {&mean_, &rstd_})
    v->resize(rows);
  logits_.resize(rows * config.vocabulary);
  dwide_.resize(rows * 4 * c);
  dqkv_.resize(rows * 3 * c);
}

template <typename T>
void Model<T>::EnterForward(size_t unit) {
  views_[unit] = hooks_.PreForward(unit);
}

template <typename T>
void Model<T>::LeaveForward(size_t unit) {
  views_[unit] = {};
  hooks_.PostForward(unit);
}

template <typename T>
void Model<T>::EnterBackward(size_t unit) {
  views_[unit] = hooks_.PreBackward(unit);
}

template <typename T>
void Model<T>::LeaveBackward(size_t unit) {
  views_[unit] = {};
  hooks_.PostBackward(unit);
}

template <typename T>
void Model<T>::ForwardBlock(size_t layer, size_t batch, T* out) {
  const size_t unit = layer + 1;
  const size_t c = config_.width;
  const size_t rows = batch * config_.seq;
  Block& b = blocks_[layer];
  EnterForward(unit);
  ops_.layer_norm(b.in.data(), Data(unit, kNorm1Gain), Data(unit, kNorm1Bias), b.norm1.data(),
                  b.mean1.data(), b.rstd1.data(), rows, c);
  matmul_.Forward(b.norm1.data(), Data(unit, kQkv), Data(unit, kQkvBias), b.qkv.data(),
                  {rows, c, 3 * c}, true);
  ops_.attention(b.qkv.data(), b.mixed.data(), b.lse.data(),
                 {batch, config_.seq, config_.heads, c / config_.heads});
  matmul_.Forward(b.mixed.data(), Data(unit, kProjection), Data(unit, kProjectionBias),
                  b.middle.data(), {rows, c, c});
  ops_.add(b.middle.data(), b.in.data(), b.middle.data(), rows * c);

  ops_.layer_norm(b.middle.data(), Data(unit, kNorm2Gain), Data(unit, kNorm2Bias), b.norm2.data(),
                  b.mean2.data(), b.rstd2.data(), rows, c);
  matmul_.Forward(b.norm2.data(), Data(unit, kUp), Data(unit, kUpBias), b.hidden.data(),
                  {rows, c, 4 * c}, true);
  ops_.gelu(b.hidden.data(), b.active.data(), rows * 4 * c);
  matmul_.Forward(b.active.data(), Data(unit, kDown), Data(unit, kDownBias), out, {rows, 4 * c, c});
  ops_.add(out, b.middle.data(), out, rows * c);
  LeaveForward(unit);
}

template <typename T>
void Model<T>::ForwardToLogits(const uint8_t* inputs, size_t batch) {
  const size_t c = config_.width;
  const size_t rows = batch * config_.seq;
  const size_t final_unit = config_.layers + 1;
  const auto in = [&](size_t layer) {
    return layer < config_.layers ? blocks_[layer].in.data() : last_.data();
  };
  EnterForward(kEmbeddingUnit);
  ops_.embed(inputs, Data(kEmbeddingUnit, kTokens), Data(kEmbeddingUnit, kPositions), in(0), batch,
             config_.seq, c);
  LeaveForward(kEmbeddingUnit);
  for (size_t layer = 0; layer < config_.layers; layer++) {
    ForwardBlock(layer, batch, in(layer + 1));
  }
  EnterForward(final_unit);
  ops_.layer_norm(last_.data(), Data(final_unit, kFinalGain), Data(final_unit, kFinalBias),
                  norm_.data(), mean_.data(), rstd_.data(), rows, c);
  LeaveForward(final_unit);
  EnterForward(kEmbeddingUnit);
  matmul_.Forward(norm_.data(), Data(kEmbeddingUnit, kTokens), nullptr, logits_.data(),
                  {rows, c, config_.vocabulary}, true);
  LeaveForward(kEmbeddingUnit);
}

template <typename T>
double Model<T>::Forward(const uint8_t* inputs, const uint8_t* targets, size_t batch,
                         double grad_scale) {
  ForwardToLogits(inputs, batch);
  return ops_.cross_entropy(logits_.data(), targets, grad_scale, batch * config_.seq,
                            config_.vocabulary);
}

template <typename T>
double Model<T>::Score(const uint8_t* inputs, const uint8_t* targets, size_t batch, size_t skip) {
  ForwardToLogits(inputs, batch);
  double loss = 0;
  for (size_t b = 0; b < batch; b++) {
    const size_t row = b * config_.seq + skip;
    loss += ops_.cross_entropy(logits_.data() + row * config_.vocabulary, targets + row, 0,
                               config_.seq - skip, config_.vocabulary);
  }
  return loss;
}

template <typename T>
const T* Model<T>::Logits(const uint8_t* inputs) {
  ForwardToLogits(inputs, 1);
  return logits_.data();
}

// The gain's and the bias' gradient (the bias is the parameter after the gain), and that of the input, which is added
// to the residual stream's.
template <typename T>
void Model<T>::BackwardNorm(size_t unit, size_t gain, const std::vector<T>& x,
                            const std::vector<T>& mean, const std::vector<T>& rstd, size_t rows) {
  ops_.layer_norm_backward(dnorm_.data(), x.data(), Data(unit, gain), mean.data(), rstd.data(),
                           dres_.data(), Grad(unit, gain), Grad(unit, gain + 1), rows,
                           config_.width);
  hooks_.GradReady(unit, gain);
  hooks_.GradReady(unit, gain + 1);
}

// The weight's and the bias' gradient (the bias is the parameter after the weight) and, through
// `dx`, that of the input.
template <typename T>
void Model<T>::BackwardLinear(size_t unit, size_t weight, const T* x, const T* dy, T* dx,
                              MatmulShape shape, bool w_transposed) {
  matmul_.BackwardWeight(x, dy, Grad(unit, weight), shape, w_transposed);
  hooks_.GradReady(unit, weight);
  ops_.column_sum(dy, Grad(unit, weight + 1), shape.m, shape.n);
  hooks_.GradReady(unit, weight + 1);
  matmul_.BackwardInput(dy, Data(unit, weight), dx, shape, w_transposed);
}

template <typename T>
void Model<T>::BackwardMlp(size_t layer, size_t rows) {
  const size_t unit = layer + 1;
  const size_t c = config_.width;
  Block& b = blocks_[layer];
  BackwardLinear(unit, kDown, b.active.data(), dres_.data(), dwide_.data(), {rows, 4 * c, c});
  ops_.gelu_backward(b.hidden.data(), dwide_.data(), dwide_.data(), rows * 4 * c);
  BackwardLinear(unit, kUp, b.norm2.data(), dwide_.data(), dnorm_.data(), {rows, c, 4 * c}, true);
  BackwardNorm(unit, kNorm2Gain, b.middle, b.mean2, b.rstd2, rows);
}

template <typename T>
void Model<T>::BackwardAttention(size_t layer, size_t batch) {
  const size_t unit = layer + 1;
  const size_t c = config_.width;
  const size_t rows = batch * config_.seq;
  Block& b = blocks_[layer];
  BackwardLinear(unit, kProjection, b.mixed.data(), dres_.data(), dnorm_.data(), {rows, c, c});
  ops_.attention_backward(b.qkv.data(), b.mixed.data(), b.lse.data(), dnorm_.data(), dqkv_.data(),
                          {batch, config_.seq, config_.heads, c / config_.heads});
  BackwardLinear(unit, kQkv, b.norm1.data(), dqkv_.data(), dnorm_.data(), {rows, c, 3 * c}, true);
  BackwardNorm(unit, kNorm1Gain, b.in, b.mean1, b.rstd1, rows);
}

template <typename T>
void Model<T>::BackwardBlock(size_t layer, size_t batch) {
  EnterBackward(layer + 1);
  BackwardMlp(layer, batch * config_.seq);
  BackwardAttention(layer, batch);
  LeaveBackward(layer + 1);
}

template <typename T>
void Model<T>::Backward(const uint8_t* inputs, size_t batch) {
  const size_t c = config_.width;
  const size_t rows = batch * config_.seq;
  const size_t final_unit = config_.layers + 1;
  EnterBackward(kEmbeddingUnit);
  const MatmulShape head = {rows, c, config_.vocabulary};
  matmul_.BackwardWeight(norm_.data(), logits_.data(), Grad(kEmbeddingUnit, kTokens), head, true);
  matmul_.BackwardInput(logits_.data(), Data(kEmbeddingUnit, kTokens), dnorm_.data(), head, true);
  LeaveBackward(kEmbeddingUnit);

  EnterBackward(final_unit);
  for (size_t i = 0; i < rows * c; i++)
    dres_[i] = 0;
  BackwardNorm(final_unit, kFinalGain, last_, mean_, rstd_, rows);
  LeaveBackward(final_unit);

  for (size_t layer = config_.layers; layer-- > 0;)
    BackwardBlock(layer, batch);

  EnterBackward(kEmbeddingUnit);
  ops_.embed_backward(inputs, dres_.data(), Grad(kEmbeddingUnit, kTokens),
                      Grad(kEmbeddingUnit, kPositions), batch, config_.seq, c);
  hooks_.GradReady(kEmbeddingUnit, kTokens);
  hooks_.GradReady(kEmbeddingUnit, kPositions);
  LeaveBackward(kEmbeddingUnit);
}

template void InitParam<float>(const ParamSpec&, uint64_t, size_t, float*);
template void InitParam<double>(const ParamSpec&, uint64_t, size_t, double*);
template class Model<float>;
template class Model<double>;

}  // namespace weft::trainer
