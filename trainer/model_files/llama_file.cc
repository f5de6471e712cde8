#include "trainer/model_files/llama_file.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "trainer/config.h"
#include "trainer/failure.h"
#include "trainer/model_files/llama_layout.h"
#include "trainer/model_files/transformers_folder.h"

namespace weft::trainer {
namespace {

using Json = nlohmann::json;

constexpr const char* kModelPrefix = "model.";  // which LlamaModel's own tensors do not have
constexpr const char* kTellingTensor = "layers.0.self_attn.q_proj.weight";

// Without the prefix, or with it.
const SafetensorsTensor* TensorNamed(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsTensor* const found = file.Find(name);
  if (found != nullptr || !name.starts_with(kModelPrefix)) return found;
  return file.Find(name.substr(std::string_view(kModelPrefix).size()));
}

double NumberIn(const Json& config, const char* key, double otherwise) {
  const auto found = config.find(key);
  return found != config.end() && found->is_number() ? found->get<double>() : otherwise;
}

// The part of the configuration in which rope_theta stands: newer versions of transformers have one
// of its own.
const Json& RopeIn(const Json& config) {
  const auto found = config.find("rope_parameters");
  return found != config.end() && found->is_object() ? *found : config;
}

// A number of the configuration that must be the model's.
void CheckSameNumber(const Json& config, const std::string& path, const char* key, double ours,
                     const char* option) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_number()) return;
  const double theirs = found->get<double>();
  if (std::abs(theirs - ours) <= 1e-6 * std::abs(theirs)) return;
  throw BadInput(fmt::format("{} says {} {}, and this model has {}; give {} {}", path, key, theirs,
                             ours, option, theirs));
}

[[noreturn]] void RefuseTrait(const std::string& path, const std::string& trait) {
  throw BadInput(fmt::format("{} says {}, which weft_train's Llama does not have", path, trait));
}

// Whatever changes what the model computes, and has no option.
void CheckTraits(const Json& config, const std::string& path) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_boolean() && found->get<bool>())
      RefuseTrait(path, fmt::format("{} true", key));
  }
  const auto expect = [&](const Json& part, const char* key, const char* expected) {
    const auto found = part.find(key);
    if (found != part.end() && found->is_string() && found->get<std::string>() != expected)
      RefuseTrait(path, fmt::format("{} {}", key, found->get<std::string>()));
  };
  expect(config, "model_type", "llama");
  expect(config, "hidden_act", "silu");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_object()) continue;
    expect(*found, "rope_type", "default");
    expect(*found, "type", "default");
  }
}

}  // namespace

bool LlamaFile::IsOne(const std::string& path) {
  return IsSafetensorsThat(path, [](const SafetensorsFile& file) {
    return TensorNamed(file, std::string(kModelPrefix) + kTellingTensor) != nullptr;
  });
}

LlamaFile::LlamaFile(const std::string& path, const ModelConfig& model)
    : file_(SafetensorsIn(path)), model_(model) {
  CheckConfig();
  CheckTensors();
}

const SafetensorsTensor* LlamaFile::FindTensor(const std::string& name) const {
  return TensorNamed(file_, name);
}

ModelConfig LlamaFile::ShapeOf(const std::string& path) {
  const SafetensorsFile file(SafetensorsIn(path));
  const auto shape = [&](const std::string& name) {
    return MatrixShape(file, TensorNamed(file, name), name);
  };
  ModelConfig model;
  model.architecture = Architecture::kLlama;
  model.vocabulary = size_t(shape("model.embed_tokens.weight")[0]);
  model.width = size_t(shape("model.embed_tokens.weight")[1]);
  model.hidden = size_t(shape("model.layers.0.mlp.gate_proj.weight")[0]);
  for (model.layers = 0;
       TensorNamed(file, fmt::format("model.layers.{}.input_layernorm.weight", model.layers));)
    model.layers++;
  model.tied_head = file.Find("lm_head.weight") == nullptr;
  const Json config = ConfigBeside(file.path());
  model.heads = size_t(std::max(0.0, NumberIn(config, "num_attention_heads", 0)));
  if (model.heads == 0 || model.width % model.heads != 0)
    throw BadInput(
        fmt::format("{}: how many heads the model has stands in num_attention_heads of {}, which "
                    "says nothing that fits; put the model's config.json there",
                    file.path().string(), ConfigPathBeside(file.path()).string()));
  // Where nothing is said: transformers' defaults.
  model.kv_heads =
      size_t(std::max(1.0, NumberIn(config, "num_key_value_heads", double(model.heads))));
  model.norm_epsilon = NumberIn(config, "rms_norm_eps", 1e-6);
  model.rope_theta = NumberIn(RopeIn(config), "rope_theta", model.rope_theta);
  model.seq =
      size_t(std::clamp(NumberIn(config, "max_position_embeddings", 2048), 2.0, double(kSeqMax)));
  return model;
}

void LlamaFile::CheckTensors() const {
  const std::string path = file_.path().string();
  for (const auto& [name, tensor] : file_.tensors()) {
    if (name.ends_with("_proj.bias"))
      throw BadInput(
          fmt::format("{} has a tensor {}, and weft_train's Llama has no biases", path, name));
  }
  for (const UnitSpec& unit : ModelUnits(model_)) {
    for (const ParamSpec& spec : unit.params) {
      for (const LlamaTensor& theirs : LlamaTensorsOf(spec, model_)) {
        const SafetensorsTensor* const tensor = FindTensor(theirs.name());
        if (tensor == nullptr)
          throw BadInput(fmt::format("{} has no tensor {}; give --layers and --head of its model",
                                     path, theirs.name()));
        if (tensor->shape != theirs.shape())
          throw BadInput(
              fmt::format("{}: tensor {} has the shape [{}], and this model's has [{}]; give "
                          "--width, --hidden, "
                          "--heads, --kv-heads and --vocabulary of its model",
                          path, theirs.name(), fmt::join(tensor->shape, ", "),
                          fmt::join(theirs.shape(), ", ")));
      }
    }
  }
  if (FindTensor(fmt::format("model.layers.{}.input_layernorm.weight", model_.layers)) != nullptr)
    throw BadInput(
        fmt::format("{} has more than {} layers; give --layers of its model", path, model_.layers));
}

void LlamaFile::CheckConfig() const {
  const Json config = ConfigBeside(file_.path());
  if (config.is_null()) return;
  const std::string path = ConfigPathBeside(file_.path()).string();
  CheckTraits(config, path);
  CheckSameNumber(config, path, "num_attention_heads", double(model_.heads), "--heads");
  CheckSameNumber(config, path, "num_key_value_heads", double(model_.key_heads()), "--kv-heads");
  CheckSameNumber(config, path, "rms_norm_eps", model_.norm_epsilon, "--norm-epsilon");
  CheckSameNumber(RopeIn(config), path, "rope_theta", model_.rope_theta, "--rope-theta");
  if (const auto dim = config.find("head_dim");
      dim != config.end() && dim->is_number_unsigned() && *dim != model_.head_dim())
    RefuseTrait(path, fmt::format("head_dim {}, and not width over heads, {}", dim->get<size_t>(),
                                  model_.head_dim()));
  if (const auto tied = config.find("tie_word_embeddings");
      tied != config.end() && tied->is_boolean() && tied->get<bool>() != model_.tied_head)
    throw BadInput(fmt::format("{} says tie_word_embeddings {}; give --head {}", path,
                               tied->get<bool>(), tied->get<bool>() ? "tied" : "own"));
}

std::vector<float> LlamaFile::Read(const ParamSpec& spec) const {
  std::vector<float> ours(spec.Count(), 0);
  for (const LlamaTensor& theirs : LlamaTensorsOf(spec, model_))
    theirs.ToOurs(file_.Read(*FindTensor(theirs.name())), ours);
  return ours;
}

}  // namespace weft::trainer
