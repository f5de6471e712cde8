#include "trainer/model_files/saved_model.h"

#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/model_files/gpt2_file.h"
#include "trainer/model_files/llama_file.h"
#include "trainer/model_files/llmc_file.h"

namespace weft::trainer {
namespace {

SavedModel::Kind KindOf(const std::string& path, const std::string& option) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw BadInput(fmt::format("{} {}: {}", option, path,
                               error ? error.message() : std::string("there is no such file")));
  if (LlmcFile::IsOne(path)) return SavedModel::Kind::kLlmc;
  if (Gpt2File::IsOne(path) || LlamaFile::IsOne(path)) return SavedModel::Kind::kTransformers;
  if (IsOfRun(path)) return SavedModel::Kind::kRun;
  throw BadInput(
      fmt::format("{} {} is no model; give the directory of a run of weft_train or of a "
                  "checkpoint, a folder that "
                  "transformers has saved a GPT-2 or a Llama in, or llm.c's file of weights",
                  option, path));
}

void CheckArchitecture(const std::string& path, const ModelConfig& model, Architecture of_file) {
  if (model.architecture == of_file) return;
  throw BadInput(path + (of_file == Architecture::kLlama ? " is a Llama; give --arch llama"
                                                         : " is a GPT-2; give --arch gpt2"));
}

// Of a file of transformers.
template <typename File>
ParamValues ValuesOf(const std::string& path, const ModelConfig& model, Architecture of_file) {
  CheckArchitecture(path, model, of_file);
  const auto file = std::make_shared<const File>(path, model);
  return [file](const ParamSpec& spec) {
    return file->Read(spec);
  };
}

}  // namespace

std::optional<ParamValues> OtherProgramsValues(const std::string& path, const ModelConfig& model) {
  if (LlmcFile::IsOne(path)) {
    CheckArchitecture(path, model, Architecture::kGpt2);
    const auto file = std::make_shared<const LlmcFile>(path);
    file->CheckFor(model);
    return [file, model](const ParamSpec& spec) {
      return file->Read(spec, model);
    };
  }
  if (LlamaFile::IsOne(path)) return ValuesOf<LlamaFile>(path, model, Architecture::kLlama);
  if (Gpt2File::IsOne(path)) return ValuesOf<Gpt2File>(path, model, Architecture::kGpt2);
  return std::nullopt;
}

SavedModel::SavedModel(const std::string& path, const std::string& option)
    : path_(path), kind_(KindOf(path, option)) {
  switch (kind_) {
    case Kind::kLlmc:
      run_.model = LlmcFile(path).model();
      break;
    case Kind::kTransformers:
      run_.model = LlamaFile::IsOne(path) ? LlamaFile::ShapeOf(path) : Gpt2File::ShapeOf(path);
      break;
    case Kind::kRun:
      run_ = ReadRunModel(path, option);
      break;
  }
}

}  // namespace weft::trainer
