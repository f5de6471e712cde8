#include "trainer/model_files/gpt2_file.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "trainer/failure.h"
#include "trainer/model_files/gpt2_layout.h"
#include "trainer/model_files/transformers_folder.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "transformer.";  // of GPT2LMHeadModel's tensors
constexpr const char* kTelling = "h.0.attn.c_attn.weight";

// Without the prefix, or with it.
const SafetensorsTensor* TensorOf(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsTensor* const found = file.Find(name);
  return found != nullptr ? found : file.Find(kPrefix + name);
}

// Throws BadInput if the config.json of transformers is of a model that computes otherwise than
// this one: tensors of the same shape would give other numbers, and nobody would be told. A key
// that is not there has transformers' default, which is what is computed here.
void CheckMathematics(const nlohmann::json& config, const fs::path& path) {
  const auto check = [&](const char* key, const std::vector<nlohmann::json>& computed) {
    const auto found = config.find(key);
    if (found == config.end()) return;
    if (std::find(computed.begin(), computed.end(), *found) != computed.end()) return;
    throw BadInput(fmt::format(
        "{} says {} {}, and weft_train computes GPT-2 with {} alone; the model cannot be used",
        path.string(), key, found->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace),
        computed.front().dump()));
  };
  check("model_type", {"gpt2"});
  check("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  check("layer_norm_epsilon", {1e-5});
  check("scale_attn_weights", {true});
  check("scale_attn_by_inverse_layer_idx", {false});
  check("add_cross_attention", {false});
  const auto inner = config.find("n_inner"), width = config.find("n_embd");
  if (inner != config.end() && width != config.end() && width->is_number_unsigned())
    check("n_inner", {4 * width->get<uint64_t>(), nullptr});
}

// How many heads the config.json beside a file says; 0: none.
size_t HeadsBeside(const fs::path& file) {
  const nlohmann::json config = ConfigBeside(file);
  if (config.is_null()) return 0;
  CheckMathematics(config, ConfigPathBeside(file));
  const auto heads = config.find("n_head");
  return heads != config.end() && heads->is_number_unsigned() ? heads->get<size_t>() : 0;
}

}  // namespace

bool Gpt2File::IsOne(const std::string& path) {
  return IsSafetensorsThat(
      path, [](const SafetensorsFile& file) { return TensorOf(file, kTelling) != nullptr; });
}

Gpt2File::Gpt2File(const std::string& path, const ModelConfig& model)
    : file_(SafetensorsIn(path)), model_(model) {
  for (const UnitSpec& unit : ModelUnits(model)) {
    for (const ParamSpec& spec : unit.params) {
      const Gpt2Tensor theirs(spec, model);
      const SafetensorsTensor* const tensor = FindTensor(theirs.name());
      if (tensor == nullptr)
        throw BadInput(fmt::format("{} has no tensor {}; give --layers and --head of its model",
                                   file_.path().string(), theirs.name()));
      std::vector<int64_t> shape = tensor->shape;
      // A shorter context takes the first positions.
      if (spec.name == "wpe" && shape.size() == 2 && shape[0] > theirs.shape()[0])
        shape[0] = theirs.shape()[0];
      if (shape != theirs.shape())
        throw BadInput(
            fmt::format("{}: tensor {} has the shape [{}], and this model's has [{}]; give "
                        "--width, --vocabulary "
                        "and --seq of its model (--model gpt2 has those of GPT-2)",
                        file_.path().string(), theirs.name(), fmt::join(tensor->shape, ", "),
                        fmt::join(theirs.shape(), ", ")));
    }
  }
  const size_t next = model.layers;
  if (FindTensor(fmt::format("h.{}.ln_1.weight", next)) != nullptr)
    throw BadInput(fmt::format("{} has more than {} layers; give --layers of its model",
                               file_.path().string(), next));
  CheckHeads();
}

const SafetensorsTensor* Gpt2File::FindTensor(const std::string& name) const {
  return TensorOf(file_, name);
}

void Gpt2File::CheckHeads() const {
  const size_t heads = HeadsBeside(file_.path());
  if (heads == 0 || heads == model_.heads) return;
  throw BadInput(fmt::format("{} says {} heads, and this model has {}; give --heads {}",
                             ConfigPathBeside(file_.path()).string(), heads, model_.heads, heads));
}

ModelConfig Gpt2File::ShapeOf(const std::string& path) {
  const SafetensorsFile file(SafetensorsIn(path));
  const auto shape = [&](const std::string& name) {
    return MatrixShape(file, TensorOf(file, name), name);
  };
  ModelConfig model;
  model.vocabulary = size_t(shape("wte.weight")[0]);
  model.width = size_t(shape("wte.weight")[1]);
  model.seq = size_t(shape("wpe.weight")[0]);
  for (model.layers = 0; TensorOf(file, fmt::format("h.{}.ln_1.weight", model.layers)) != nullptr;)
    model.layers++;
  model.tied_head = file.Find("lm_head.weight") == nullptr;
  model.heads = HeadsBeside(file.path());
  if (model.heads == 0 || model.width % model.heads != 0)
    throw BadInput(
        fmt::format("{}: how many heads the model has stands in n_head of {}, which says nothing "
                    "that fits; put "
                    "the model's config.json there",
                    file.path().string(), ConfigPathBeside(file.path()).string()));
  return model;
}

std::vector<float> Gpt2File::Read(const ParamSpec& spec) const {
  const Gpt2Tensor theirs(spec, model_);
  return theirs.ToOurs(file_.Read(*FindTensor(theirs.name())));
}

}  // namespace weft::trainer
