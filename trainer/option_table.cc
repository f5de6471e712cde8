// The table is ListOptions. Whoever wants something of all options gives it a sink with a function
// for each kind of value.
#include "trainer/option_table.h"

#include <cstdint>
#include <string>

#include <CLI/App.hpp>
#include <fmt/core.h>

#include "trainer/model_sizes.h"
#include "trainer/option_sinks.h"
#include "trainer/option_words.h"
#include "trainer/running_options.h"

namespace weft::trainer {
namespace {

// The model. That of a name comes first, whatever the order of the words: options of its shape
// change it.
template <typename Sink>
void ListModel(Sink& sink, ProgramConfig& config) {
  ModelConfig& model = config.train.model;
  constexpr Scope kRun = Scope::kRun;
  sink.First({"model", kRun,
              "a shape by name, which the other options of the model change: 1m, 3m, 11m, 25m, 50m "
              "and 85m for bytes; gpt2, gpt2-medium, gpt2-large and gpt2-xl; llama-15m, llama-110m "
              "and llama-1b"},
             NameOfSize(model), "1m", [&model](const std::string& text) {
               if (text != kCustomSize) model = ModelOfSize(text);
             });
  sink.Choice({"arch", kRun, "the architecture: gpt2 or llama"},
              model.architecture == Architecture::kGpt2 ? "gpt2" : "llama", "gpt2",
              [&model](const std::string& text) {
                model.architecture = IsFirst("arch", text, "gpt2", "llama") ? Architecture::kGpt2
                                                                            : Architecture::kLlama;
              });
  sink.Count(
      {"vocabulary", kRun, "tokens are below it; the token table has a multiple of 128 rows"},
      model.vocabulary, 2, kVocabularyMax);
  sink.Count({"seq", kRun, "tokens per sequence"}, model.seq, 2, kSeqMax);
  sink.Count({"layers", kRun, "transformer blocks"}, model.layers, 1, kLayersMax);
  sink.Count({"heads", kRun, "attention heads"}, model.heads, 1, kWidthMax);
  sink.Count({"kv-heads", kRun,
              "of llama: heads of keys and values, a divisor of --heads, which share them; 0: as "
              "many"},
             model.kv_heads, 0, kWidthMax);
  sink.Count({"width", kRun, "channels"}, model.width, 1, kWidthMax);
  sink.Count({"hidden", kRun,
              "of llama: width of the perceptron; 0: 8/3 of --width, up to a multiple of 64"},
             model.hidden, 0, kHiddenMax);
  sink.Number({"rope-theta", kRun, "of llama: base of the rotary positions"}, model.rope_theta);
  sink.Number({"norm-epsilon", kRun, "of llama: added to the mean square in norms"},
              model.norm_epsilon);
  sink.Choice({"head", kRun, "output: tied, the token table again; own, a matrix of its own"},
              model.tied_head ? "tied" : "own", "tied", [&model](const std::string& text) {
                model.tied_head = IsFirst("head", text, "tied", "own");
              });
  sink.Choice(
      {"positions", kRun,
       "the table of positions at first: sinusoids, or normal with GPT-2's deviation of 0.01"},
      model.positions == Positions::kSinusoids ? "sinusoids" : "normal", "sinusoids",
      [&model](const std::string& text) {
        model.positions = IsFirst("positions", text, "sinusoids", "normal") ? Positions::kSinusoids
                                                                            : Positions::kNormal;
      });
  sink.Number({"init-deviation", kRun, "of the matrices at first; GPT-2 has 0.02"},
              model.deviation);
  sink.Choice({"param-dtype", kRun,
               "of the weights that the model reads: fp32, bf16, fp16. With 16 bits the optimizer "
               "updates an fp32 copy, and gradients are fp32"},
              ParamTypeName(config.train.param_type), "fp32", [&config](const std::string& text) {
                config.train.param_type = ParseParamType(text);
              });
}

// What is trained, and by which numbers.
template <typename Sink>
void ListTraining(Sink& sink, ProgramConfig& config) {
  TrainConfig& train = config.train;
  constexpr Scope kRun = Scope::kRun, kRanks = Scope::kRanks;
  sink.Texts({"data", Scope::kFree, "files or directories; auto: compiler headers and weft"},
             config.data);
  sink.Count({"steps", kRanks, "optimizer steps"}, train.steps, 1, kStepsMax);
  sink.Count({"batch", kRanks,
              "sequences per step, over all ranks and micro-batches; each of these gets as many as "
              "the others, or one less"},
             train.global_batch, 1, kBatchMax,
             "4, or one for each micro-batch of each rank if these are more");
  sink.Count(
      {"micro-batch", kRanks,
       "sequences of each micro-batch of each rank, which with --batch or --accumulate gives "
       "the other one; 0: as the batch comes to"},
      train.micro_batch, 0, kBatchMax);
  sink.Number({"lr", kRanks, "peak learning rate"}, train.lr);
  sink.Choice(
      {"lr-scaling", kRanks,
       "how --lr, meant for --lr-batch sequences, grows with the batch: none, linear, sqrt"},
      NameOf(train.lr_scaling), "none",
      [&train](const std::string& text) { train.lr_scaling = ParseLrScaling(text); });
  sink.Count({"lr-batch", kRanks, "sequences per step that --lr is meant for"}, train.lr_batch, 0,
             kBatchMax);
  sink.Choice(
      {"schedule", kRanks,
       "of the rate after the warm-up: cosine, linear (both fall to the end), constant, wsd "
       "(constant, and linear over the last steps)"},
      NameOf(train.schedule), "cosine",
      [&train](const std::string& text) { train.schedule = ParseSchedule(text); });
  sink.Count({"warmup", kRanks, "steps of warm-up"}, train.warmup, 0, kStepsMax);
  sink.Choice({"warmup-shape", kRanks, "linear, or log: faster at first"},
              NameOf(train.warmup_shape), "linear",
              [&train](const std::string& text) { train.warmup_shape = ParseWarmupShape(text); });
  sink.Number({"warmup-from", kRanks, "learning rate before the first step, as a part of the peak"},
              train.warmup_from);
  sink.Number({"final-rate", kRanks, "learning rate at the end, as a part of the peak"},
              train.final_rate);
  sink.Count({"decay", kRanks, "last steps of wsd, in which the rate falls; 0: a tenth"},
             train.decay, 0, kStepsMax);
  sink.Choice({"optimizer", kRun,
               "adamw, sgd, lion, lamb, lars; muon: for the matrices of the blocks, adamw for the "
               "rest"},
              NameOf(train.optimizer), "adamw",
              [&train](const std::string& text) { train.optimizer = ParseOptimizer(text); });
  sink.Number({"beta1", kRanks, "of adamw, lion and lamb"}, train.beta1);
  sink.Number({"beta2", kRanks, "of adamw, lion and lamb"}, train.beta2,
              "0.95; 0.99 of lion, 0.999 of lamb");
  sink.Number({"eps", kRanks, "of adamw and lamb"}, train.epsilon, "1e-08; 1e-06 of lamb");
  sink.Number({"momentum", kRanks, "of sgd, lars and muon"}, train.momentum,
              "0 of sgd, 0.9 of lars, 0.95 of muon");
  sink.Flag({"nesterov", kRanks, "sgd looks ahead by its momentum"}, train.nesterov);
  sink.Number({"trust", kRanks, "of lars: its eta"}, train.trust);
  sink.Number(
      {"muon-factor", kRanks, "learning rate of muon's matrices, as a multiple of the others'"},
      train.muon_factor);
  sink.Number({"weight-decay", kRanks, "of matrices"}, train.weight_decay);
  sink.Number({"clip", kRanks, "gradients are scaled down to this norm; 0: never"},
              train.grad_clip);
  sink.Count({"seed", kRun, "of initial values, sampling order and the sample"}, train.seed, 0,
             UINT64_MAX);
  sink.Choice(
      {"dtype", kRanks,
       "inputs of matrix products: fp32, bf16, fp16 (emulated), auto (bf16 where the CPUs of "
       "all ranks have it)"},
      NameOf(train.precision), "auto",
      [&config](const std::string& text) { SetPrecision(config, text); });
  sink.Number(
      {"dropout", kRanks,
       "share of the embeddings' sum, of attention's probabilities and of both outputs of a "
       "block that is left out in training"},
      train.dropout);
  sink.Number({"loss-scale", kRanks,
               "the loss is multiplied by it for backward; 0: dynamic, halved by steps whose "
               "gradients overflow, which update nothing"},
              train.loss_scale, "0 where something is fp16, else 1");
  sink.Count({"loss-scale-power", kRanks, "a dynamic loss scale begins with 2 to this power"},
             train.loss_scale_power, 0, 24);
  sink.Count({"loss-scale-window", kRanks, "steps without an overflow before it doubles"},
             train.loss_scale_window, 1, kStepsMax);
  sink.Count({"loss-scale-hysteresis", kRanks, "overflows before it is halved"},
             train.loss_scale_hysteresis, 1, kStepsMax);
  sink.Choice({"recompute", kRanks,
               "what backward computes again in place of keeping it: none; selective, norms and "
               "GELU; full, all of a block but its input"},
              kRecomputeNames[size_t(train.recompute)], "none",
              [&train](const std::string& text) { train.recompute = ParseRecompute(text); });
  sink.Count({"accumulate", kRanks, "micro-batches per step"}, train.accumulate, 1, kBatchMax, "1");
}

// How it is spread over the ranks.
template <typename Sink>
void ListSharding(Sink& sink, ProgramConfig& config) {
  TrainConfig& train = config.train;
  constexpr Scope kRanks = Scope::kRanks;
  sink.Flag({"no-overlap", kRanks, "reduce gradients after backward, not during it"},
            train.no_overlap);
  sink.Choice(
      {"strategy", kRanks,
       "what is sharded over the ranks: ddp (nothing), zero1, zero2, shard-grad-op, full-shard, "
       "hybrid, hpz, fraction; zero3 is full-shard"},
      weft_shard_preset_name(train.strategy), "ddp",
      [&train](const std::string& text) { train.strategy = ParseStrategy(text); });
  sink.Count(
      {"shard-group", kRanks,
       "hybrid: ranks of a replica, a power of two; hpz: ranks that keep a block between forward "
       "and backward; 0: the largest power of two that divides the ranks, but not all"},
      train.shard_group, 0, kRanksMax);
  sink.Choice(
      {"accumulation", kRanks,
       "reduce gradients after the last micro-batch (local), after every one (every), or within "
       "the groups of hybrid after every one and across them after the last (inner)"},
      NameOf(train.accumulation), "local",
      [&train](const std::string& text) { train.accumulation = ParseAccumulation(text); });
  sink.Choice(
      {"reduce-dtype", kRanks,
       "gradients are rounded to this for their reduction: fp32 (they are not), bf16, fp16"},
      NameOf(train.reduce_type), "fp32",
      [&train](const std::string& text) { train.reduce_type = ParseReduceType(text); });
  sink.Count({"prefetch", kRanks, "blocks gathered ahead where parameters are sharded"},
             train.prefetch, 0, kPrefetchMax);
  sink.Choice(
      {"views", kRanks,
       "addresses of gathered parameters: move; stable, the same in all steps; apart, with a place "
       "for each block"},
      NameOf(train.views), "move",
      [&train](const std::string& text) { train.views = ParseViews(text); });
  sink.Text({"offload", Scope::kFree,
             "optimizer state goes to a file of each rank in this directory, and 64 MiB of it "
             "are in memory; default: all is in memory"},
            train.offload);
  sink.Flag({"offload-params", kRanks,
             "so do the weights that a rank keeps, with a strategy that shards them"},
            train.offload_params);
  sink.Choice(
      {"memory-budget", kRanks,
       "bytes for what is gathered, like 40MB or 1.5MiB; fraction keeps as many blocks unsharded "
       "as fit; 0: no limit"},
      fmt::format("{}", train.memory_budget), "0", [&train](const std::string& text) {
        train.memory_budget = ParseBytes("--memory-budget", text);
      });
  sink.Choice({"bucket-size", kRanks,
               "bytes of gradients that are reduced together, like 25MB; 0: weft's default"},
              fmt::format("{}", train.bucket_bytes), "0", [&train](const std::string& text) {
                train.bucket_bytes = ParseBytes("--bucket-size", text);
              });
  sink.Flag({"elastic", kRanks,
             "go on without ranks that are lost (with ddp); start it by weftrun --elastic"},
            train.elastic);
  sink.Count({"threads", Scope::kFree, "threads per rank"}, train.threads, 1, kThreadsMax);
}

template <typename Sink>
void ListOptions(Sink& sink, ProgramConfig& config) {
  ListModel(sink, config);
  ListTraining(sink, config);
  ListSharding(sink, config);
  ListRunning(sink, config);
}

}  // namespace

void ChooseDefaults(ProgramConfig& config) {
  SetPrecision(config, "auto");
  config.train.accumulate = 0;
}

void AddOptions(CLI::App& app, ProgramConfig& config) {
  CommandLine sink(app);
  ListOptions(sink, config);
  // Of the launcher's, no options of users.
  app.add_option("--restarts", config.restarts)->envname("WEFT_RESTART_COUNT")->group("");
  app.add_option("--job", config.job)->envname("WEFT_JOB_ID")->group("");
}

std::vector<ResolvedOption> ResolvedOptions(const ProgramConfig& config) {
  ProgramConfig copy = config;  // a sink that reads is given what another one writes
  Values values;
  ListOptions(values, copy);
  return values.Take();
}

}  // namespace weft::trainer
