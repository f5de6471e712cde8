#include "trainer/options.h"

#include <climits>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "base/quantity.h"
#include "trainer/failure.h"
#include "trainer/option_table.h"

namespace weft::trainer {
namespace {

size_t ParseBudget(const std::string& text) {
  double bytes = 0;
  if (!ParseQuantity(text, kByteSuffixes, &bytes) || !(bytes >= 0 && bytes < 1e15)) {
    throw BadInput("--memory-budget " + text +
                   " is no number of bytes like 40000, 40MB (10^6) or 1.5MiB (2^20)");
  }
  return size_t(bytes);
}

// A run's name is one folder below --run-dir, wherever it comes from.
void CheckRunName(const std::string& name) {
  const bool one_folder = name.find('/') == std::string::npos && name != "." && name != "..";
  if (one_folder && name.size() <= NAME_MAX) return;
  throw BadInput("--name " + name +
                 " is no name of a folder below --run-dir; use one without slashes, and --run-dir "
                 "for where it lies");
}

// A job that is started again goes on from what it has saved itself.
void CheckBeginning(const ProgramConfig& config) {
  const std::string& resume = config.resume;
  if (config.init.empty() || resume.empty() || resume == "auto" || resume == "none") return;
  throw BadInput("--init " + config.init + " begins a new run and --resume " + resume +
                 " goes on with one; give one of them");
}

}  // namespace

bool ParseOptions(int argc, char** argv, ProgramConfig& config, std::string& help) {
  CLI::App app{"Trains a small GPT on bytes of text over the ranks of the launcher.", "weft_train"};
  TrainConfig& train = config.train;
  OptionTexts texts;
  AddOptions(app, config, texts);
  app.set_version_flag("--version", "weft_train 0.1.0");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    help = app.help();
    return false;
  } catch (const CLI::CallForVersion&) {
    help = app.version() + "\n";
    return false;
  } catch (const CLI::ParseError& error) {
    throw BadInput(std::string(error.what()) + "; see weft_train --help");
  }
  if (texts.dtype == "auto") {
    train.precision = FastestPrecision();
  } else if (texts.dtype == "fp32" || texts.dtype == "bf16") {
    train.precision = texts.dtype == "bf16" ? Precision::kBf16 : Precision::kFp32;
  } else {
    throw BadInput("--dtype " + texts.dtype + " is unknown; use auto, fp32 or bf16");
  }
  train.strategy = ParseStrategy(texts.strategy);
  train.memory_budget = ParseBudget(texts.memory_budget);
  train.accumulation = ParseAccumulation(texts.accumulation);
  train.views = ParseViews(texts.views);
  train.optimizer = ParseOptimizer(texts.optimizer);
  train.reduce_type = ParseReduceType(texts.reduce_dtype);
  CheckRunName(config.name);
  CheckBeginning(config);
  return true;
}

}  // namespace weft::trainer
