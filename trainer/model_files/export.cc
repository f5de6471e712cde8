// weft's own export writes the parameters under their names; from that file each is taken into the layout of transformers.
#include "trainer/model_files/export.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "weft/checkpoint_files.h"
#include "weft/error.h"

#include "trainer/failure.h"
#include "trainer/model_files/gpt2_layout.h"
#include "trainer/model_files/safetensors_file.h"
#include "trainer/model_files/whole_file.h"
#include "trainer/plan.h"
#include "trainer/run_files.h"
#include "trainer/run_folder.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

constexpr double kNormEpsilon = 1e-5;  // of both

// A file that is gone at the end.
class PassingFile {
 public:
  explicit PassingFile(fs::path path) : path_(std::move(path)) {}

  ~PassingFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }

  PassingFile(const PassingFile&) = delete;
  PassingFile& operator=(const PassingFile&) = delete;

  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

// The run of a checkpoint: the nearest folder above with a configuration.
nlohmann::json RunConfig(const fs::path& from) {
  fs::path folder = fs::absolute(from).lexically_normal();
  for (int up = 0; up < 4; up++, folder = folder.parent_path()) {
    std::ifstream in(folder / "config.json");
    if (!in) continue;
    nlohmann::json config = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
    if (config.is_object() && config.value("program", "") == "weft_train") return config;
  }
  throw BadInput(fmt::format("--from {}: no config.json of a run of weft_train is there or above",
                             from.string()));
}

ModelConfig ModelOf(const nlohmann::json& run) {
  ModelConfig model;
  const auto number = [&](const char* key, size_t otherwise) {
    const auto found = run.find(key);
    return found != run.end() && found->is_number_unsigned() ? found->get<size_t>() : otherwise;
  };
  model.vocabulary = number("vocabulary", model.vocabulary);
  model.seq = number("seq", model.seq);
  model.width = number("width", model.width);
  model.layers = number("layers", model.layers);
  model.heads = number("heads", model.heads);
  model.tied_head = run.value("head", "tied") == "tied";
  return model;
}

std::string TransformersConfig(const ModelConfig& model) {
  const nlohmann::ordered_json config = {{"architectures", {"GPT2LMHeadModel"}},
                                         {"model_type", "gpt2"},
                                         {"activation_function", "gelu_new"},
                                         {"attn_pdrop", 0.0},
                                         {"embd_pdrop", 0.0},
                                         {"resid_pdrop", 0.0},
                                         {"layer_norm_epsilon", kNormEpsilon},
                                         {"n_embd", model.width},
                                         {"n_head", model.heads},
                                         {"n_layer", model.layers},
                                         {"n_positions", model.seq},
                                         {"vocab_size", model.vocabulary},
                                         {"tie_word_embeddings", model.tied_head},
                                         {"bos_token_id", nullptr},
                                         {"eos_token_id", nullptr},
                                         {"torch_dtype", "float32"}};
  return config.dump(2) + "\n";
}

void ExportOwn(const std::string& from, const fs::path& to) {
  const std::string source = CheckpointsIn(from);
  weft_checkpoint_export_config_t config = {};
  config.struct_size = sizeof config;
  config.source = source.c_str();
  config.target = to.c_str();
  config.floats_as = WEFT_FLOAT32;
  const weft_result_t result = weft_checkpoint_export(&config, nullptr);
  if (result == WEFT_SUCCESS) return;
  const std::string sentence = fmt::format("--from {}: {}", from, weft_last_error());
  if (result == WEFT_OUT_OF_MEMORY) throw NotWritten(sentence);
  throw BadInput(sentence);
}

std::vector<TensorToWrite> TensorsOf(const SafetensorsFile& own, const ModelConfig& model) {
  std::vector<TensorToWrite> tensors;
  for (const UnitSpec& unit : ModelUnits(model)) {
    for (const ParamSpec& spec : unit.params) {
      const SafetensorsTensor* const tensor = own.Find(spec.name);
      if (tensor == nullptr || tensor->shape != spec.shape)
        throw BadInput(fmt::format(
            "the checkpoint's parameter {} is not that of the run's config.json", spec.name));
      const Gpt2Tensor theirs(spec, model);
      const bool head = spec.name == "head.weight";
      tensors.push_back(
          {(head ? "" : "transformer.") + theirs.name(), theirs.shape(), [&own, tensor, theirs] {
             return theirs.ToTheirs(own.Read(*tensor));
           }});
    }
  }
  return tensors;
}

}  // namespace

std::string ParseExportOptions(int argc, char** argv, ExportConfig& config) {
  CLI::App app{"Writes a run's model for transformers, which loads it as GPT2LMHeadModel.",
               "weft_train export"};
  app.add_option("--from", config.from,
                 "the directory of a run, whose latest checkpoint is meant, or of a checkpoint")
      ->required();
  app.add_option("--out", config.out, "the folder to be made")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ParseError& error) {
    throw BadInput(std::string(error.what()) + "; see weft_train export --help");
  }
  return "";
}

std::string RunExport(const ExportConfig& config) {
  const ModelConfig model = ModelOf(RunConfig(config.from));
  const fs::path out = config.out;
  std::error_code error;
  if (fs::exists(out / "model.safetensors", error))
    throw BadInput(
        fmt::format("--out {} has a model.safetensors; give another folder", config.out));
  MakeRunDirectory(config.out, kExportPlace);
  const PassingFile own(out / fmt::format(".own-{}.safetensors", getpid()));
  ExportOwn(config.from, own.path());
  const SafetensorsFile values(own.path());
  WriteRunFile(config.out, "config.json", TransformersConfig(model), kExportPlace);
  WriteSafetensors(out / "model.safetensors", TensorsOf(values, model));
  return fmt::format(
      "wrote {}/model.safetensors and config.json: {} parameters, as GPT2LMHeadModel\n", config.out,
      FormatCount(double(ParameterCount(ModelUnits(model)))));
}

}  // namespace weft::trainer
