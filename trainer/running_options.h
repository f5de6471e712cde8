// The options of a run that are not about its numbers; the part of the table (option_table.cc) that
// grows.
#ifndef WEFT_TRAINER_RUNNING_OPTIONS_H_
#define WEFT_TRAINER_RUNNING_OPTIONS_H_

#include <cstdint>
#include <string>

#include "trainer/config.h"
#include "trainer/option_words.h"
#include "trainer/resolved_config.h"

namespace weft::trainer {

// What is looked at on the way, written and gone on from.
template <typename Sink>
void ListRunning(Sink& sink, ProgramConfig& config) {
  TrainConfig& train = config.train;
  constexpr Scope kRanks = Scope::kRanks, kStart = Scope::kStart;
  sink.Count({"eval-every", kRanks, "steps between validations; 0: at the end only"},
             train.eval_every, 0, kStepsMax);
  sink.Count({"verify-every", kRanks,
              "steps between comparisons of the weights that several ranks have; 0: never"},
             train.verify_every, 0, kStepsMax);
  sink.Count({"check-samples", kRanks,
              "steps between comparisons of the samples that ranks read; 0: never"},
             train.check_samples, 0, kStepsMax);
  sink.Count({"nonfinite-steps", kRanks,
              "the run ends with so many steps in a row whose gradients are infinite or NaN; "
              "before, such "
              "steps update nothing"},
             train.nonfinite_steps, 1, kStepsMax);
  sink.Number({"outlier-z", kRanks,
               "a step whose loss or gradient norm is so many deviations above those before it is "
               "skipped; 0: none is"},
              train.outlier_z);
  sink.Choice({"order3", kRanks,
               "compare with an order-3 byte model: on, off, auto (of more than 16 MB of text that "
               "--data names, a sample is counted)"},
              kOrder3Names[size_t(config.order3)], "auto",
              [&config](const std::string& text) { SetOrder3(config, text); });
  sink.Choice(
      {"report", Scope::kFree,
       "report.html and report.md at the end: on, off. For it the ranks measure for a tenth of "
       "a second how fast they multiply, where that is no large model"},
      config.report ? "on" : "off", "on",
      [&config](const std::string& text) { config.report = IsFirst("report", text, "on", "off"); });
  sink.Flag({"tensorboard", Scope::kFree,
             "a file of events for TensorBoard, in the run's folder: loss, rates, phases of steps"},
            config.tensorboard);
  sink.Text({"metrics-command", Scope::kFree,
             "a shell command that is given each line of metrics.jsonl on its standard input, to "
             "log it elsewhere; rank 0 starts it, and WEFT_RUN_DIR is the run's folder"},
            config.metrics_command);
  sink.Choice({"trace", kStart,
               "steps FIRST-LAST whose events of all ranks are written to trace.json, for "
               "chrome://tracing and Perfetto; none"},
              TraceText(train), "none",
              [&train](const std::string& text) { SetTrace(train, text); });
  sink.Text({"config", Scope::kFree,
             "a file of these options, or of DeepSpeed's or Accelerate's keys, as JSON or YAML; "
             "--KEY VALUE with a dotted key overrides it, and so do these options"},
            config.config_file);
  sink.Text({"run-dir", Scope::kFree, "where runs are written"}, config.run_dir);
  sink.Text({"name", Scope::kFree, "of this run; default: the time"}, config.name);
  sink.Count({"checkpoint-every", kRanks,
              "steps between checkpoints, also one at the end and on SIGTERM; 0: none"},
             config.checkpoint_every, 0, kStepsMax);
  sink.Count({"keep", kRanks, "checkpoints that are kept"}, config.keep, 1, kStepsMax);
  sink.Flag({"keep-best", kRanks,
             "the state with the best validation loss is kept too, in the run's folder best"},
            config.keep_best);
  sink.Text(
      {"resume", kStart,
       "what to go on from: auto, the latest checkpoint of this run if there is one; a step of "
       "this run; the directory of a run or of a checkpoint; none. Default: none, and auto when "
       "weftrun starts the job again"},
      config.resume);
  sink.Flag(
      {"overwrite", kStart,
       "begin anew under a name that is used: the run that has it is moved to NAME.old-1, or the "
       "first number that is free"},
      config.overwrite);
  sink.Text(
      {"init", kStart,
       "what a new run begins with the weights of: the directory of a run, whose latest "
       "checkpoint is meant, or of a checkpoint; a .safetensors file, the index of several, or "
       "their folder; llm.c's file of weights"},
      config.init);
  sink.Flag({"init-partial", kStart,
             "take what both have, and list the rest, which begins as without --init"},
            config.init_partial);
  sink.Keys({"changed", kStart,
             "go on from a checkpoint though these differ from its run's: heads, seed, text"},
            config.changed);
}

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_RUNNING_OPTIONS_H_
