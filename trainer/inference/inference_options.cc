// The command lines of eval and sample.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/core.h>

#include "trainer/config.h"
#include "trainer/failure.h"
#include "trainer/inference/eval.h"
#include "trainer/inference/sample.h"
#include "trainer/strategy.h"
#include "trainer/whole_number.h"

namespace weft::trainer {
namespace {

void AddUse(CLI::App& app, UseConfig& use) {
  app.add_option("--from,--init", use.from,
                 "the model: the directory of a run, whose latest checkpoint is meant, or of a "
                 "checkpoint; a folder that transformers has saved a GPT-2 in, or its "
                 ".safetensors file; llm.c's file of weights")
      ->required();
  app.add_option_function<std::string>(
         "--strategy",
         [&use](const std::string& text) {
           use.strategy = ParseStrategy(text);
           if (use.strategy == WEFT_SHARD_FRACTION)
             throw BadInput(
                 "--strategy fraction keeps blocks from forward to backward, and there is no "
                 "backward; use full-shard");
         },
         "how the weights are spread over the ranks: ddp, zero1 or zero2, every rank has all; "
         "full-shard or shard-grad-op, each has a share; hybrid, each machine has all")
      ->default_str("ddp");
  app.add_option("--threads", use.threads, "threads per rank")
      ->capture_default_str()
      ->check(WholeNumber(1, kThreadsMax));
}

// The text of --help, or "".
std::string Parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ParseError& error) {
    throw BadInput(fmt::format("{}; see {} --help", error.what(), app.get_name()));
  }
  return "";
}

void SetPrecision(EvalConfig& config, const std::string& text) {
  config.best_precision = text == "auto";
  if (text == "auto") return;
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    config.precision = precision;
    if (text == NameOf(precision)) return;
  }
  throw BadInput("--dtype " + text + " is unknown; use auto, fp32, bf16 or fp16");
}

}  // namespace

std::string ParseEvalOptions(int argc, char** argv, EvalConfig& config) {
  CLI::App app{"Judges a model by a text: mean loss, perplexity, bits per byte.",
               "weft_train eval"};
  AddUse(app, config.use);
  app.add_option("--data", config.data,
                 "text or files of tokens, whose validation part is judged, as a run's; default: "
                 "those of the model's own run");
  app.add_option("--windows", config.windows,
                 "how many windows, evenly spread, are judged; 0: all there are")
      ->capture_default_str()
      ->check(WholeNumber(0, kStepsMax));
  app.add_option("--batch", config.batch, "windows that a rank computes at once")
      ->capture_default_str()
      ->check(WholeNumber(1, kBatchMax));
  app.add_option_function<std::string>(
         "--dtype", [&config](const std::string& text) { SetPrecision(config, text); },
         "inputs of matrix products: fp32, bf16, fp16 (emulated), auto (bf16 where the CPUs of "
         "all ranks have it)")
      ->default_str("auto");
  app.add_flag("--json", config.json, "print one line of JSON");
  return Parse(app, argc, argv);
}

std::string ParseSampleOptions(int argc, char** argv, SampleConfig& config) {
  CLI::App app{"Continues a text with a model.", "weft_train sample"};
  AddUse(app, config.use);
  app.add_option("--prompt", config.prompt, "the text to continue; default: a document begins");
  app.add_option("--tokens", config.tokens, "how many, unless the text ends before")
      ->capture_default_str()
      ->check(WholeNumber(0, kStepsMax));
  app.add_option("--temperature", config.choice.temperature,
                 "of the draw; 0: always the likeliest token")
      ->capture_default_str();
  app.add_option("--top-k", config.choice.top, "draw among so many of the likeliest tokens; 0: all")
      ->capture_default_str()
      ->check(WholeNumber(0, kVocabularyMax));
  app.add_option("--seed", config.choice.seed, "of the draws")
      ->capture_default_str()
      ->check(WholeNumber(0, UINT64_MAX));
  app.add_option("--tokenizer", config.tokenizer,
                 "the vocabulary: byte, or its files or their folder; default: that of the files "
                 "of tokens that the run has read, or what lies beside the model");
  std::string help = Parse(app, argc, argv);
  if (!(config.choice.temperature >= 0 && config.choice.temperature <= 100))
    throw BadInput(
        fmt::format("--temperature {} is out of range; use 0 to 100", config.choice.temperature));
  if (config.choice.top == 0) config.choice.top = SIZE_MAX;
  return help;
}

}  // namespace weft::trainer
