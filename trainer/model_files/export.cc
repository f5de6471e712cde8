// weft's own export writes the parameters under their names; from that file each is taken into the
// layout of transformers.
#include "trainer/model_files/export.h"

#include <filesystem>
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
#include "trainer/model_files/llama_layout.h"
#include "trainer/model_files/llmc_file.h"
#include "trainer/model_files/run_model.h"
#include "trainer/model_files/safetensors_file.h"
#include "trainer/model_files/whole_file.h"
#include "trainer/plan.h"
#include "trainer/run_files.h"
#include "trainer/run_folder.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

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

const char* ClassOf(const ModelConfig& model) {
  return model.architecture == Architecture::kLlama ? "LlamaForCausalLM" : "GPT2LMHeadModel";
}

// Older versions of transformers read rope_theta, newer ones either.
nlohmann::ordered_json LlamaConfig(const ModelConfig& model) {
  return {{"architectures", {ClassOf(model)}},
          {"model_type", "llama"},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"attention_dropout", 0.0},
          {"hidden_size", model.width},
          {"intermediate_size", model.hidden_width()},
          {"num_hidden_layers", model.layers},
          {"num_attention_heads", model.heads},
          {"num_key_value_heads", model.key_heads()},
          {"head_dim", model.head_dim()},
          {"max_position_embeddings", model.seq},
          {"rope_theta", model.rope_theta},
          {"rope_scaling", nullptr},
          {"rms_norm_eps", model.norm_epsilon},
          {"vocab_size", model.vocabulary},
          {"tie_word_embeddings", model.tied_head},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"torch_dtype", "float32"}};
}

std::string TransformersConfig(const ModelConfig& model) {
  if (model.architecture == Architecture::kLlama) return LlamaConfig(model).dump(2) + "\n";
  const nlohmann::ordered_json config = {{"architectures", {ClassOf(model)}},
                                         {"model_type", "gpt2"},
                                         {"activation_function", "gelu_new"},
                                         {"attn_pdrop", 0.0},
                                         {"embd_pdrop", 0.0},
                                         {"resid_pdrop", 0.0},
                                         {"layer_norm_epsilon", kGpt2NormEpsilon},
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

// The parameter's values, as the trainer has them.
const SafetensorsTensor& TensorOf(const SafetensorsFile& own, const ParamSpec& spec) {
  const SafetensorsTensor* const tensor = own.Find(spec.name);
  if (tensor == nullptr || tensor->shape != spec.shape)
    throw BadInput(fmt::format("the checkpoint's parameter {} is not that of the run's config.json",
                               spec.name));
  return *tensor;
}

TensorToWrite Gpt2TensorToWrite(const SafetensorsFile& own, const ParamSpec& spec,
                                const ModelConfig& model) {
  const SafetensorsTensor* const tensor = &TensorOf(own, spec);
  const Gpt2Tensor theirs(spec, model);
  const bool head = spec.name == "head.weight";
  return {(head ? "" : "transformer.") + theirs.name(), theirs.shape(), [&own, tensor, theirs] {
            return theirs.ToTheirs(own.Read(*tensor));
          }};
}

std::vector<TensorToWrite> LlamaTensorsToWrite(const SafetensorsFile& own, const ParamSpec& spec,
                                               const ModelConfig& model) {
  const SafetensorsTensor* const tensor = &TensorOf(own, spec);
  std::vector<TensorToWrite> tensors;
  for (const LlamaTensor& theirs : LlamaTensorsOf(spec, model)) {
    tensors.push_back({theirs.name(), theirs.shape(), [&own, tensor, theirs] {
                         return theirs.ToTheirs(own.Read(*tensor));
                       }});
  }
  return tensors;
}

std::vector<TensorToWrite> TensorsOf(const SafetensorsFile& own, const ModelConfig& model) {
  std::vector<TensorToWrite> tensors;
  for (const UnitSpec& unit : ModelUnits(model)) {
    for (const ParamSpec& spec : unit.params) {
      if (model.architecture == Architecture::kGpt2) {
        tensors.push_back(Gpt2TensorToWrite(own, spec, model));
        continue;
      }
      for (TensorToWrite& tensor : LlamaTensorsToWrite(own, spec, model))
        tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

// Where the run's parameters are for the time of the call, under their own names: beside what is
// written.
PassingFile OwnFile(const fs::path& folder) {
  return PassingFile(folder / fmt::format(".own-{}.safetensors", getpid()));
}

std::string Parameters(const ModelConfig& model) {
  return FormatCount(double(ParameterCount(ModelUnits(model)))) + " parameters";
}

std::string ExportTransformers(const ExportConfig& config, const ModelConfig& model) {
  const fs::path out = config.out;
  std::error_code error;
  if (fs::exists(out / "model.safetensors", error))
    throw BadInput(
        fmt::format("--out {} has a model.safetensors; give another folder", config.out));
  MakeRunDirectory(config.out, kExportPlace);
  const PassingFile own = OwnFile(out);
  ExportOwn(config.from, own.path());
  const SafetensorsFile values(own.path());
  WriteRunFile(config.out, "config.json", TransformersConfig(model), kExportPlace);
  WriteSafetensors(out / "model.safetensors", TensorsOf(values, model));
  return fmt::format("wrote {}/model.safetensors and config.json: {}, as {}\n", config.out,
                     Parameters(model), ClassOf(model));
}

std::string ExportLlmc(const ExportConfig& config, const ModelConfig& model) {
  const fs::path out = config.out;
  std::error_code error;
  if (fs::exists(out, error))
    throw BadInput(fmt::format("--out {} is there; give the name of a new file", config.out));
  if (model.architecture != Architecture::kGpt2)
    throw BadInput(fmt::format(
        "--from {}: the model is a Llama, and llm.c's file is for GPT-2; use --format transformers",
        config.from));
  if (!model.tied_head)
    throw BadInput(fmt::format(
        "--from {}: the model has a head of its own, for which llm.c's file has no place; use "
        "--format transformers",
        config.from));
  const fs::path folder = fs::absolute(out, error).parent_path();
  MakeRunDirectory(folder.string(), kExportPlace);
  const PassingFile own = OwnFile(folder);
  ExportOwn(config.from, own.path());
  const SafetensorsFile values(own.path());
  WriteLlmc(out, model, config.bf16 ? NumberType::kBf16 : NumberType::kFloat32,
            [&](const ParamSpec& spec) { return values.Read(TensorOf(values, spec)); });
  return fmt::format("wrote {}: {}, as llm.c's file of weights, {}\n", config.out,
                     Parameters(model), config.bf16 ? "bfloat16" : "float32");
}

// Of an option that is one of two words.
bool IsSecond(const char* option, const std::string& text, const char* first, const char* second) {
  if (text == first || text == second) return text == second;
  throw BadInput(fmt::format("{} {} is unknown; use {} or {}", option, text, first, second));
}

}  // namespace

std::string ParseExportOptions(int argc, char** argv, ExportConfig& config) {
  CLI::App app{
      "Writes a run's model for transformers, which loads it as GPT2LMHeadModel or "
      "LlamaForCausalLM, or for llm.c.",
      "weft_train export"};
  app.add_option("--from", config.from,
                 "the directory of a run, whose latest checkpoint is meant, or of a checkpoint")
      ->required();
  app.add_option("--out", config.out, "the folder to be made; of llm.c the file")->required();
  std::string format = "transformers", dtype = "fp32";
  app.add_option("--format", format, "transformers, a folder; llm.c, its file of weights")
      ->capture_default_str();
  app.add_option("--dtype", dtype, "of the numbers: fp32; of llm.c also bf16")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ParseError& error) {
    throw BadInput(std::string(error.what()) + "; see weft_train export --help");
  }
  config.llmc = IsSecond("--format", format, "transformers", "llm.c");
  config.bf16 = IsSecond("--dtype", dtype, "fp32", "bf16");
  if (config.bf16 && !config.llmc)
    throw BadInput("--dtype bf16 is for --format llm.c; transformers rounds when it loads");
  return "";
}

std::string RunExport(const ExportConfig& config) {
  const ModelConfig model = ReadRunModel(config.from, "--from").model;
  return config.llmc ? ExportLlmc(config, model) : ExportTransformers(config, model);
}

}  // namespace weft::trainer
