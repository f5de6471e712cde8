#include "trainer/option_table.h"

#include <algorithm>
#include <string>

#include <CLI/App.hpp>

namespace weft::trainer {
namespace {

// CLI11's own check names the range of a double, some 300 digits.
std::string CheckCount(const std::string& text) {
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(),
                                                   [](char c) { return c >= '0' && c <= '9'; });
  return digits ? "" : text + " is no whole number from 0";
}

}  // namespace

void AddOptions(CLI::App& app, ProgramConfig& config, OptionTexts& texts) {
  TrainConfig& train = config.train;
  const auto number = [&app](const char* name, auto& value, const char* meaning) {
    app.add_option(name, value, meaning)->capture_default_str();
  };
  app.add_option("--data", config.data, "files or directories; auto: compiler headers and weft");
  const auto count = [&app](const char* name, auto& value, const char* meaning) {
    app.add_option(name, value, meaning)->capture_default_str()->check(CheckCount);
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
  app.add_option("--dtype", texts.dtype,
                 "inputs of matrix products: fp32, bf16, auto (bf16 where the CPU has it)")
      ->capture_default_str();
  count("--accumulate", train.accumulate, "micro-batches per step");
  app.add_flag("--no-overlap", train.no_overlap, "reduce gradients after backward, not during it");
  number("--run-dir", config.run_dir, "where runs are written");
  app.add_option("--name", config.name, "of this run; default: the time");
  count("--eval-every", train.eval_every, "steps between validations; 0: at the end only");
  number("--threads", train.threads, "threads per rank");
  number("--strategy", texts.strategy,
         "what is cut between the ranks: ddp (nothing), zero1, zero2, shard-grad-op, full-shard, "
         "hybrid, hpz, fraction; zero3 is full-shard");
  count("--shard-group", train.shard_group,
        "hybrid: ranks of a replica, a power of two; hpz: ranks that keep a block between forward "
        "and backward; 0: the largest power of two that divides the ranks, but not all");
  number(
      "--accumulation", texts.accumulation,
      "reduce gradients after the last micro-batch (local), after every one (every), or within the "
      "groups of hybrid after every one and across them after the last (inner)");
  number("--reduce-dtype", texts.reduce_dtype,
         "gradients are rounded to this for their reduction: fp32 (they are not), bf16, fp16");
  count("--prefetch", train.prefetch, "blocks gathered ahead where parameters are cut");
  count("--verify-every", train.verify_every,
        "steps between comparisons of the weights that several ranks have; 0: never");
  count("--check-samples", train.check_samples,
        "steps between comparisons of the samples that ranks read; 0: never");
  number("--memory-budget", texts.memory_budget,
         "bytes for what is gathered, like 40MB or 1.5MiB; fraction keeps as many blocks whole as "
         "fit; 0: no limit");
}

}  // namespace weft::trainer
