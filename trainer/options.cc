#include "trainer/options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "trainer/failure.h"

namespace weft::trainer {

bool ParseOptions(int argc, char** argv, ProgramConfig& config, std::string& help) {
  CLI::App app{"Trains a small GPT on bytes of text, data parallel over the ranks of the launcher.",
               "weft_train"};
  TrainConfig& train = config.train;
  std::string dtype = "auto";
  const auto number = [&app](const char* name, auto& value, const char* meaning) {
    app.add_option(name, value, meaning)->capture_default_str();
  };
  app.add_option("--data", config.data, "files or directories; auto: compiler headers and weft");
  const auto count = [&app](const char* name, auto& value, const char* meaning) {
    app.add_option(name, value, meaning)->capture_default_str()->check(CLI::NonNegativeNumber);
  };
  count("--steps", train.steps, "optimizer steps");
  count("--batch", train.global_batch, "sequences per step, over all ranks");
  count("--seq", train.model.seq, "bytes per sequence");
  count("--layers", train.model.layers, "transformer blocks");
  count("--heads", train.model.heads, "attention heads");
  count("--width", train.model.width, "channels");
  number("--lr", train.lr, "peak learning rate");
  count("--warmup", train.warmup, "steps of linear warm-up");
  count("--seed", train.seed, "of initial values, sampling order and the sample");
  app.add_option("--dtype", dtype,
                 "inputs of matrix products: fp32, bf16, auto (bf16 where the CPU has it)")
      ->capture_default_str();
  count("--accumulate", train.accumulate, "micro-batches per step");
  app.add_flag("--no-overlap", train.no_overlap, "reduce gradients after backward, not during it");
  number("--run-dir", config.run_dir, "where runs are written");
  app.add_option("--name", config.name, "of this run; default: the time");
  count("--eval-every", train.eval_every, "steps between validations; 0: at the end only");
  number("--threads", train.threads, "threads per rank");
  number("--strategy", config.strategy, "how the model is spread over the ranks: ddp");
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
