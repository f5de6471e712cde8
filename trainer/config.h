// Everything that decides what a training run computes; options.cc fills it from the command line.
#ifndef WEFT_TRAINER_CONFIG_H_
#define WEFT_TRAINER_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "trainer/activations.h"
#include "trainer/batch.h"
#include "trainer/data/tokenize.h"
#include "trainer/inference/eval.h"
#include "trainer/inference/sample.h"
#include "trainer/matmul.h"
#include "trainer/model_files/export.h"
#include "trainer/model_units.h"
#include "trainer/schedule.h"
#include "trainer/strategy.h"

namespace weft::trainer {

// The largest of what the command line takes; CheckConfig says which numbers fit together.
constexpr size_t kStepsMax = 100'000'000;  // also of steps between things
constexpr size_t kSeqMax = 4096;
constexpr size_t kVocabularyMax = 1 << 20;
constexpr size_t kWidthMax = 4096;
constexpr size_t kHiddenMax = 16384;
constexpr size_t kLayersMax = 256;
constexpr size_t kBatchMax = 1'000'000;
constexpr size_t kRanksMax = 65536;
constexpr size_t kPrefetchMax = 1000;
constexpr int kThreadsMax = 1024;

// Of a number of the optimizer that was not given: nobody would give it.
constexpr double kByKind = std::numeric_limits<double>::lowest();

struct TrainConfig {
  ModelConfig model;
  size_t steps = 6000;
  // Sequences per step, over all ranks and micro-batches, each of which gets as many as the others
  // or one less. 0: WithDefaults chooses.
  size_t global_batch = 0;
  size_t micro_batch = 0;  // sequences of each micro-batch of each rank; 0: as the batch comes to
  size_t accumulate = 1;   // micro-batches per step; 0: WithDefaults chooses
  double lr = 2.5e-3;
  LrScaling lr_scaling = LrScaling::kNone;
  size_t lr_batch = 0;  // sequences per step that lr is meant for
  Schedule schedule = Schedule::kCosine;
  size_t warmup = 100;
  WarmupShape warmup_shape = WarmupShape::kLinear;
  double warmup_from = 0;    // of the peak, before the first step
  double final_rate = 0.05;  // of the peak, at the end
  size_t decay = 0;          // last steps of kWsd, in which the rate falls; 0: a tenth
  double weight_decay = 0.1;
  // Of the optimizer; ChooseOptimizerNumbers (optimizer_setup.h) fills in what is kByKind.
  double beta1 = 0.9;      // of AdamW, Lion and LAMB
  double beta2 = kByKind;  // of AdamW 0.95 instead of 0.999: it follows the gradients of short runs
  double epsilon = kByKind;   // of AdamW and LAMB
  double momentum = kByKind;  // of SGD, LARS and Muon
  bool nesterov = false;      // of SGD
  double trust = 0.001;       // of LARS
  // Muon's learning rate where AdamW's is 1: its updates have a norm of their own, and 0.02 is what
  // its authors use.
  double muon_factor = 8;
  double loss_scale = kByKind;       // 0: dynamic
  size_t loss_scale_power = 16;      // a dynamic one begins with 2 to this power
  size_t loss_scale_window = 1000;   // steps without an overflow before it doubles
  size_t loss_scale_hysteresis = 2;  // overflows before it is halved
  double grad_clip = 1.0;            // largest norm; 0: none
  uint64_t seed = 1;
  Precision precision = Precision::kFp32;
  // Of the weights that the model reads. With 16 bits gradients are float32 all the same, and the
  // optimizer updates a float32 copy.
  NumberType param_type = NumberType::kFloat32;
  Recompute recompute = Recompute::kNone;
  double dropout = 0;  // share that is left out
  // Not OWN. MUON: for the matrices of the blocks, AdamW for the rest.
  weft_optimizer_kind_t optimizer = WEFT_OPTIMIZER_ADAMW;
  weft_shard_preset_t strategy = WEFT_SHARD_NO_SHARD;
  weft_shard_accumulation_t accumulation = WEFT_SHARD_LOCAL_THEN_REDUCE;
  weft_shard_wire_t reduce_type = WEFT_SHARD_WIRE_GRADIENTS;
  bool no_overlap = false;  // reduce gradients after backward only
  size_t prefetch = 1;      // units gathered ahead of the one in use
  weft_shard_views_t views = WEFT_SHARD_VIEWS_MOVE;
  size_t shard_group = 0;       // ranks of a group of kHybrid and kHpz; 0: DefaultGroup
  size_t memory_budget = 0;     // bytes for what is gathered; 0: as many as it takes
  std::string offload;          // directory for files of optimizer state; empty: it is in memory
  bool offload_params = false;  // weights that are sharded at rest are there, too
  size_t verify_every = 0;      // steps between comparisons of what ranks have copies of; 0: never
  size_t check_samples = 100;   // steps between comparisons of the ranks' samples; 0: never
  double outlier_z = 0;         // deviations from which on a step is skipped; 0: none is
  size_t nonfinite_steps = 1;   // in a row with infinite or NaN gradients, that end the run
  size_t bucket_bytes = 0;      // units are reduced together up to this size; 0: weft's default
  size_t eval_every = 500;      // steps; 0: at the end only
  size_t eval_windows = 128;    // in between
  size_t final_windows = 2048;  // at the end, and for the order-3 model
  size_t sample_bytes = 400;
  bool elastic = false;  // go on without ranks that are lost; with WEFT_SHARD_NO_SHARD only
  int threads = 1;       // OpenMP threads of this rank
  // The model is used and not trained: there are no gradients, and no optimizer. No option.
  bool weights_only = false;
  // Steps whose events are written as a trace, from 1; 0: none.
  size_t trace_first = 0, trace_last = 0;
};

// Whether the model is compared with an order-3 one (order3.h), whose counting takes time that
// grows with the text.
enum class Order3Choice { kAuto, kOn, kOff };
constexpr size_t kOrder3BytesMax = 16'000'000;  // of training text that was named, for kAuto

// What the program is to do.
enum class Task {
  kTrain,
  kConfig,      // print the configuration, as it is resolved
  kConfigKeys,  // print the keys of configuration files
  kDryRun,      // say what a run would take
  kTokenize,    // make files of tokens of text
  kExport,      // write a run's model for other programs
  kEval,        // judge a model that was saved
  kSample,      // continue a text with it
};

// A key of a configuration file, and what became of it.
struct ConfigNote {
  std::string key;
  std::string value;  // as written
  std::string text;   // the options that it is here, or why it changes nothing
  bool in_force = true;
};

// How the program runs around it.
struct ProgramConfig {
  TrainConfig train;
  Task task = Task::kTrain;
  TokenizeConfig tokenize;
  ExportConfig model_export;
  EvalConfig eval;
  SampleConfig sample;
  std::string config_file;
  std::vector<ConfigNote> notes;
  size_t planned_ranks = 1;              // of a run that is only planned
  size_t planned_ranks_per_machine = 0;  // 0: all of them
  double price_per_hour = 0;             // of a rank's device; 0: not said
  bool best_precision = false;  // train.precision is this CPU's best, for the ranks to agree on one
  std::vector<std::string> data = {"auto"};
  Order3Choice order3 = Order3Choice::kAuto;
  bool report = true;           // report.html and report.md at the end
  bool tensorboard = false;     // events for it
  std::string metrics_command;  // gets the lines of metrics.jsonl; empty: none
  std::string run_dir = "runs";
  std::string name;             // empty: made from the time
  size_t checkpoint_every = 0;  // steps; 0: never
  size_t keep = 3;              // checkpoints
  bool keep_best = false;       // and that of the best validation
  // "none"; "auto": the latest of this run; a step of this run; else a run's directory, that of its
  // checkpoints, or of one. Empty: "auto" if this is a restart.
  std::string resume;
  std::vector<std::string>
      changed;  // keys of options (options.h) that may differ from the checkpoint's
  // A run's directory, that of its checkpoints, or of one, or another program's files, whose values
  // a new run begins with; empty: its own.
  std::string init;
  bool init_partial = false;  // of these, those that the model has
  bool overwrite = false;     // a run that has the name is moved, and this one begins anew
  std::string commit;         // of the program's source; "" if that is not known
  // What the launcher says.
  size_t restarts = 0;
  std::string job;
};

// How many bytes of training text the order-3 model counts, at most (SampleText in order3.h); 0:
// there is none.
size_t Order3BytesMax(const ProgramConfig& config);

// Throws BadInput with one sentence if the numbers do not fit together on `world_size` ranks.
void CheckConfig(const TrainConfig& config, size_t world_size);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_CONFIG_H_
