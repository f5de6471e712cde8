#include "trainer/options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "trainer/failure.h"
#include "trainer/option_table.h"

namespace weft::trainer {

bool ParseOptions(int argc, char** argv, ProgramConfig& config, std::string& help) {
  CLI::App app{"Trains a small GPT on bytes of text, data parallel over the ranks of the launcher.",
               "weft_train"};
  TrainConfig& train = config.train;
  std::string dtype = "auto";
  AddOptions(app, config, dtype);
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
  if (dtype == "auto") {
    train.precision = FastestPrecision();
  } else if (dtype == "fp32" || dtype == "bf16") {
    train.precision = dtype == "bf16" ? Precision::kBf16 : Precision::kFp32;
  } else {
    throw BadInput("--dtype " + dtype + " is unknown; use auto, fp32 or bf16");
  }
  if (config.strategy != "ddp") {
    throw BadInput("--strategy " + config.strategy + " is unknown; use ddp");
  }
  if (train.threads < 1 || train.threads > 1024) {
    throw BadInput("--threads must be 1 to 1024");
  }
  return true;
}

}  // namespace weft::trainer
