#include "trainer/model_units.h"

#include <algorithm>
#include <cmath>

#include "trainer/random.h"

namespace weft::trainer {
namespace {

constexpr double kSinusoidAmplitude = 0.2;
constexpr double kSinusoidBase = 1000;
constexpr double kPositionDeviation = 0.01;  // GPT-2's

ParamSpec Matrix(const std::string& name, size_t rows, size_t columns, double deviation) {
  return {.name = name,
          .shape = {int64_t(rows), int64_t(columns)},
          .deviation = deviation,
          .decay = true,
          .multiplied = true};
}

ParamSpec Vector(const std::string& name, size_t count, double value) {
  return {name, {int64_t(count)}, value, 0, false};
}

ParamSpec TokenTable(const std::string& name, const ModelConfig& config) {
  ParamSpec table = Matrix(name, config.padded_vocabulary(), config.width, config.deviation);
  table.padding_rows = config.padded_vocabulary() - config.vocabulary;
  return table;
}

ParamSpec PositionTable(const ModelConfig& config) {
  ParamSpec table = Matrix("wpe", config.seq, config.width, kPositionDeviation);
  table.multiplied = false;
  if (config.positions == Positions::kNormal) return table;
  table.deviation = 0;
  table.sinusoid = kSinusoidAmplitude;
  return table;
}

template <typename T>
void FillSinusoids(const ParamSpec& spec, T* data) {
  const size_t width = size_t(spec.shape[1]), pairs = width / 2;
  for (size_t i = 0; i < spec.Count(); i++) {
    const size_t row = i / width, column = i % width, pair = column / 2;
    const double frequency = std::pow(kSinusoidBase, -double(pair) / std::max(1.0, double(pairs)));
    const double angle = double(row) * frequency;
    data[i] = T(spec.sinusoid * (column % 2 == 0 ? std::sin(angle) : std::cos(angle)));
  }
}

// GPT-2 scales what is added to the residual stream by the number of such additions; llama2.c does
// the same.
double ResidualDeviation(const ModelConfig& config) {
  return config.deviation / std::sqrt(2.0 * double(config.layers));
}

UnitSpec LlamaBlockUnit(const ModelConfig& config, size_t layer) {
  const size_t c = config.width, hidden = config.hidden_width();
  const double first = config.deviation, residual = ResidualDeviation(config);
  const std::string at = "block." + std::to_string(layer);
  return {at,
          {Vector(at + ".norm1.weight", c, 1),
           Matrix(at + ".attn.qkv.weight", config.qkv_columns(), c, first),
           Matrix(at + ".attn.proj.weight", c, c, residual), Vector(at + ".norm2.weight", c, 1),
           Matrix(at + ".mlp.gate.weight", hidden, c, first),
           Matrix(at + ".mlp.up.weight", hidden, c, first),
           Matrix(at + ".mlp.down.weight", hidden, c, residual)}};
}

UnitSpec BlockUnit(const ModelConfig& config, size_t layer) {
  if (config.architecture == Architecture::kLlama) return LlamaBlockUnit(config, layer);
  const size_t c = config.width;
  const double residual = ResidualDeviation(config);
  const std::string at = "block." + std::to_string(layer);
  return {
      at,
      {Vector(at + ".ln1.weight", c, 1), Vector(at + ".ln1.bias", c, 0),
       Matrix(at + ".attn.qkv.weight", 3 * c, c, config.deviation),
       Vector(at + ".attn.qkv.bias", 3 * c, 0), Matrix(at + ".attn.proj.weight", c, c, residual),
       Vector(at + ".attn.proj.bias", c, 0), Vector(at + ".ln2.weight", c, 1),
       Vector(at + ".ln2.bias", c, 0), Matrix(at + ".mlp.up.weight", 4 * c, c, config.deviation),
       Vector(at + ".mlp.up.bias", 4 * c, 0), Matrix(at + ".mlp.down.weight", 4 * c, c, residual),
       Vector(at + ".mlp.down.bias", c, 0)}};
}

}  // namespace

size_t ParamSpec::Count() const {
  size_t count = 1;
  for (int64_t n : shape)
    count *= size_t(n);
  return count;
}

ModelConfig WithModelDefaults(ModelConfig config) {
  if (config.architecture == Architecture::kGpt2) return config;
  config.kv_heads = config.key_heads();
  config.hidden = config.hidden_width();
  return config;
}

std::vector<UnitSpec> ModelUnits(const ModelConfig& config) {
  const size_t c = config.width;
  const bool llama = config.architecture == Architecture::kLlama;
  std::vector<UnitSpec> units;
  units.push_back({"embedding", {TokenTable("wte", config)}, config.tied_head});
  units.back().params[0].multiplied = config.tied_head;
  if (!llama) units.back().params.push_back(PositionTable(config));
  for (size_t layer = 0; layer < config.layers; layer++)
    units.push_back(BlockUnit(config, layer));
  units.push_back({"final", {Vector(llama ? "norm.weight" : "lnf.weight", c, 1)}});
  if (!llama) units.back().params.push_back(Vector("lnf.bias", c, 0));
  if (!config.tied_head) units.back().params.push_back(TokenTable("head.weight", config));
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

std::vector<LinearShape> BlockLinears(const ModelConfig& config) {
  const size_t c = config.width, hidden = config.hidden_width();
  std::vector<LinearShape> all = {
      {c, config.qkv_columns(), true}, {c, c, false}, {c, hidden, true}, {hidden, c, false}};
  if (config.architecture == Architecture::kLlama) all.insert(all.begin() + 2, all[2]);  // the gate
  return all;
}

double FlopsPerToken(const ModelConfig& config) {
  const double c = double(config.width);
  double linear = c * double(config.padded_vocabulary());
  for (const LinearShape& shape : BlockLinears(config))
    linear += double(config.layers) * double(shape.in) * double(shape.out);
  const double attention = double(config.layers) * c * double(config.seq);  // causal half of QK, PV
  return 6 * (linear + attention);
}

template <typename T>
void InitParam(const ParamSpec& spec, uint64_t seed, size_t param_index, T* data) {
  const size_t count = spec.Count();
  if (spec.sinusoid != 0) return FillSinusoids(spec, data);
  const size_t filled = count - spec.padding_rows * (count / size_t(spec.shape[0]));
  const uint64_t key = Mix(Mix(seed) + param_index);
  for (size_t i = 0; i < filled; i++)
    data[i] = T(spec.deviation == 0 ? spec.mean : spec.mean + spec.deviation * NormalAt(key, i));
  std::fill(data + filled, data + count, T(0));
}

template void InitParam<float>(const ParamSpec&, uint64_t, size_t, float*);
template void InitParam<double>(const ParamSpec&, uint64_t, size_t, double*);

}  // namespace weft::trainer
