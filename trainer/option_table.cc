#include "trainer/option_table.h"

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

#include <CLI/App.hpp>
#include <fmt/core.h>

namespace weft::trainer {
namespace {

// Refuses what is no whole number of the range. CLI11's own check takes a number that is too large for its type as
// the type's largest, and one that begins with 0 as octal.
class WholeNumber : public CLI::Validator {
 public:
  WholeNumber(uint64_t least, uint64_t most) {
    description(fmt::format("{} to {}", least, most));
    func_ = [least, most](const std::string& text) -> std::string {
      uint64_t value = 0;
      const char* const end = text.data() + text.size();
      const auto [rest, error] = std::from_chars(text.data(), end, value);
      const bool digits = error != std::errc::invalid_argument && rest == end;
      if (!digits || (text.size() > 1 && text[0] == '0')) {
        return fmt::format("{} is no whole number from {} to {}", text, least, most);
      }
      if (error == std::errc() && value >= least && value <= most) return "";
      return fmt::format("{} is out of range; use {} to {}", text, least, most);
    };
  }
};

}  // namespace

void AddOptions(CLI::App& app, ProgramConfig& config, OptionTexts& texts) {
  TrainConfig& train = config.train;
  const auto number = [&app](const char* name, auto& value, const char* meaning) {
    app.add_option(name, value, meaning)->capture_default_str();
  };
  app.add_option("--data", config.data, "files or directories; auto: compiler headers and weft");
  const auto count = [&app](const char* name, auto& value, uint64_t least, uint64_t most,
                            const char* meaning) {
    app.add_option(name, value, meaning)->capture_default_str()->check(WholeNumber(least, most));
  };
  count("--steps", train.steps, 1, kStepsMax, "optimizer steps");
  count("--batch", train.global_batch, 1, kBatchMax, "sequences per step, over all ranks");
  count("--seq", train.model.seq, 2, kSeqMax, "bytes per sequence");
  count("--layers", train.model.layers, 1, kLayersMax, "transformer blocks");
  count("--heads", train.model.heads, 1, kWidthMax, "attention heads");
  count("--width", train.model.width, 1, kWidthMax, "channels");
  number("--lr", train.lr, "peak learning rate");
  count("--warmup", train.warmup, 0, kStepsMax, "steps of linear warm-up");
  count("--seed", train.seed, 0, UINT64_MAX, "of initial values, sampling order and the sample");
  app.add_option("--dtype", texts.dtype,
                 "inputs of matrix products: fp32, bf16, auto (bf16 where the CPU has it)")
      ->capture_default_str();
  count("--accumulate", train.accumulate, 1, kBatchMax, "micro-batches per step");
  app.add_flag("--no-overlap", train.no_overlap, "reduce gradients after backward, not during it");
  number("--run-dir", config.run_dir, "where runs are written");
  app.add_option("--name", config.name, "of this run; default: the time");
  count("--checkpoint-every", config.checkpoint_every, 0, kStepsMax,
        "steps between checkpoints, also one at the end and on SIGTERM; 0: none");
  count("--keep", config.keep, 1, kStepsMax, "checkpoints that are kept");
  app.add_option(
      "--resume", config.resume,
      "what to go on from: auto, the latest checkpoint of this run if there is one; a run's "
      "directory; none. Default: none, and auto when weftrun starts the job again");
  app.add_option("--init", config.init,
                 "a run's directory, or one of checkpoints: a new run begins with the weights of "
                 "the latest in it");
  app.add_flag("--other-data", config.other_data,
               "go on from a checkpoint though the text is another one");
  // Of the launcher's, no options of users.
  app.add_option("--restarts", config.restarts)->envname("WEFT_RESTART_COUNT")->group("");
  app.add_option("--job", config.job)->envname("WEFT_JOB_ID")->group("");
  count("--eval-every", train.eval_every, 0, kStepsMax,
        "steps between validations; 0: at the end only");
  count("--threads", train.threads, 1, kThreadsMax, "threads per rank");
  number("--optimizer", texts.optimizer,
         "adamw; muon: for the matrices of the blocks, adamw for the rest");
  number("--strategy", texts.strategy,
         "what is sharded over the ranks: ddp (nothing), zero1, zero2, shard-grad-op, full-shard, "
         "hybrid, hpz, fraction; zero3 is full-shard");
  count("--shard-group", train.shard_group, 0, kRanksMax,
        "hybrid: ranks of a replica, a power of two; hpz: ranks that keep a block between forward "
        "and backward; 0: the largest power of two that divides the ranks, but not all");
  number(
      "--accumulation", texts.accumulation,
      "reduce gradients after the last micro-batch (local), after every one (every), or within the "
      "groups of hybrid after every one and across them after the last (inner)");
  number("--reduce-dtype", texts.reduce_dtype,
         "gradients are rounded to this for their reduction: fp32 (they are not), bf16, fp16");
  count("--prefetch", train.prefetch, 0, kPrefetchMax,
        "blocks gathered ahead where parameters are sharded");
  number(
      "--views", texts.views,
      "addresses of gathered parameters: move; stable, the same in all steps; apart, with a place "
      "for each block");
  count("--verify-every", train.verify_every, 0, kStepsMax,
        "steps between comparisons of the weights that several ranks have; 0: never");
  count("--check-samples", train.check_samples, 0, kStepsMax,
        "steps between comparisons of the samples that ranks read; 0: never");
  count(
      "--nonfinite-steps", train.nonfinite_steps, 1, kStepsMax,
      "the run ends with so many steps in a row whose gradients are infinite or NaN; before, such "
      "steps update nothing");
  app.add_flag("--elastic", train.elastic,
               "go on without ranks that are lost (with ddp); start it by weftrun --elastic");
  CLI::Option* const offload = app.add_option(
      "--offload", train.offload,
      "optimizer state goes to a file of each rank in this directory, and 64 MiB of it "
      "are in memory; default: all is in memory");
  app.add_flag("--offload-params", train.offload_params,
               "so do the weights that a rank keeps, with a strategy that shards them")
      ->needs(offload);
  number("--memory-budget", texts.memory_budget,
         "bytes for what is gathered, like 40MB or 1.5MiB; fraction keeps as many blocks unsharded "
         "as fit; 0: no limit");
}

}  // namespace weft::trainer
