#include "trainer/model_files/run_model.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

constexpr int kFoldersUp = 4;  // a checkpoint lies two folders below its run

// Nothing (null) if there is none.
nlohmann::json RunConfig(const std::string& path) {
  std::error_code ignored;
  fs::path folder = fs::absolute(path, ignored).lexically_normal();
  if (!fs::is_directory(folder, ignored)) return {};
  for (int up = 0; up < kFoldersUp; up++, folder = folder.parent_path()) {
    std::ifstream in(folder / "config.json");
    if (!in) continue;
    nlohmann::json config = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
    if (config.is_object() && config.value("program", nlohmann::json()) == "weft_train")
      return config;
  }
  return {};
}

std::string TextIn(const nlohmann::json& run, const char* key) {
  const auto found = run.find(key);
  return found != run.end() && found->is_string() ? found->get<std::string>() : "";
}

std::vector<std::string> TextsIn(const nlohmann::json& run, const char* key) {
  const auto found = run.find(key);
  if (found == run.end() || !found->is_array()) return {TextIn(run, key)};
  std::vector<std::string> texts;
  for (const auto& item : *found) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

// What a Llama has beside a GPT-2.
void ReadLlama(const nlohmann::json& run, ModelConfig* model) {
  const auto number = [&](const char* key, double otherwise) {
    const auto found = run.find(key);
    return found != run.end() && found->is_number() ? found->get<double>() : otherwise;
  };
  model->architecture = Architecture::kLlama;
  model->kv_heads = size_t(std::max(0.0, number("kv-heads", 0)));
  model->hidden = size_t(std::max(0.0, number("hidden", 0)));
  model->rope_theta = number("rope-theta", model->rope_theta);
  model->norm_epsilon = number("norm-epsilon", model->norm_epsilon);
}

NumberType ParamTypeOf(const std::string& name) {
  if (name == "bf16") return NumberType::kBf16;
  return name == "fp16" ? NumberType::kFp16 : NumberType::kFloat32;
}

}  // namespace

bool IsOfRun(const std::string& path) {
  return !RunConfig(path).is_null();
}

RunModel ReadRunModel(const std::string& path, const std::string& option) {
  const nlohmann::json config = RunConfig(path);
  if (config.is_null()) {
    throw BadInput(fmt::format("{} {}: no config.json of a run of weft_train is there or above",
                               option, path));
  }
  RunModel run;
  ModelConfig& model = run.model;
  const auto number = [&](const char* key, size_t otherwise) {
    const auto found = config.find(key);
    return found != config.end() && found->is_number_unsigned() ? found->get<size_t>() : otherwise;
  };
  model.vocabulary = number("vocabulary", model.vocabulary);
  model.seq = number("seq", model.seq);
  model.width = number("width", model.width);
  model.layers = number("layers", model.layers);
  model.heads = number("heads", model.heads);
  model.tied_head = TextIn(config, "head") != "own";
  if (TextIn(config, "arch") == "llama") ReadLlama(config, &model);
  run.param_type = ParamTypeOf(TextIn(config, "param-dtype"));
  run.data = TextsIn(config, "data");
  run.bytes = TextIn(config, "text").find(" bytes,") != std::string::npos;
  if (model.heads == 0 || model.width % model.heads != 0 || model.seq == 0)
    throw BadInput(fmt::format("{} {}: its run's config.json is of no model", option, path));
  return run;
}

}  // namespace weft::trainer
