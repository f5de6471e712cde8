#include "trainer/model_files/saved_model.h"

#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/model_files/gpt2_file.h"
#include "trainer/model_files/llmc_file.h"

namespace weft::trainer {
namespace {

SavedModel::Kind KindOf(const std::string& path, const std::string& option) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw BadInput(fmt::format("{} {}: {}", option, path,
                               error ? error.message() : std::string("there is no such file")));
  if (LlmcFile::IsOne(path)) return SavedModel::Kind::kLlmc;
  if (Gpt2File::IsOne(path)) return SavedModel::Kind::kTransformers;
  if (IsOfRun(path)) return SavedModel::Kind::kRun;
  throw BadInput(
      fmt::format("{} {} is no model; give the directory of a run of weft_train or of a "
                  "checkpoint, a folder that "
                  "transformers has saved a GPT-2 in, or llm.c's file of weights",
                  option, path));
}

}  // namespace

std::optional<ParamValues> OtherProgramsValues(const std::string& path, const ModelConfig& model) {
  if (LlmcFile::IsOne(path)) {
    const auto file = std::make_shared<const LlmcFile>(path);
    file->CheckFor(model);
    return [file, model](const ParamSpec& spec) {
      return file->Read(spec, model);
    };
  }
  if (!Gpt2File::IsOne(path)) return std::nullopt;
  const auto file = std::make_shared<const Gpt2File>(path, model);
  return [file](const ParamSpec& spec) {
    return file->Read(spec);
  };
}

SavedModel::SavedModel(const std::string& path, const std::string& option)
    : path_(path), kind_(KindOf(path, option)) {
  switch (kind_) {
    case Kind::kLlmc:
      run_.model = LlmcFile(path).model();
      break;
    case Kind::kTransformers:
      run_.model = Gpt2File::ShapeOf(path);
      break;
    case Kind::kRun:
      run_ = ReadRunModel(path, option);
      break;
  }
}

}  // namespace weft::trainer
