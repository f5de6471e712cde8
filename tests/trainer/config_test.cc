#include "trainer/config.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/failure.h"
#include "trainer/model_sizes.h"
#include "trainer/options.h"
#include "trainer/resolved_config.h"

namespace weft::trainer::config_test {
namespace {

bool Parse(std::vector<std::string> arguments, ProgramConfig& config, std::string& help) {
  arguments.insert(arguments.begin(), "weft_train");
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  return ParseOptions(int(arguments.size()), argv.data(), config, help);
}

// The sentence that parsing or checking ends with, "" if all is well.
std::string Complaint(const std::vector<std::string>& arguments, size_t world_size = 2) {
  ProgramConfig config;
  std::string help;
  try {
    Parse(arguments, config, help);
    CheckConfig(WithDefaults(config.train, world_size), world_size);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

TEST(Options, DefaultsAreLegalOnAnyNumberOfRanks) {
  for (const size_t ranks : {1, 2, 3, 4, 5, 8, 13, 1000}) {
    EXPECT_EQ(Complaint({}, ranks), "");
    EXPECT_EQ(Complaint({"--accumulate", "3"}, ranks), "");
  }
}

TEST(Options, TheBatchIsWhatWasSaidOrFourOrOneForEachMicroBatch) {
  TrainConfig config;
  for (const size_t ranks : {1, 2, 3, 4})
    EXPECT_EQ(WithDefaults(config, ranks).global_batch, 4u);
  EXPECT_EQ(WithDefaults(config, 5).global_batch, 5u);
  config.accumulate = 3;
  EXPECT_EQ(WithDefaults(config, 5).global_batch, 15u);
  config.global_batch = 17;
  EXPECT_EQ(WithDefaults(config, 5).global_batch, 17u);
  EXPECT_EQ(LargestMicroBatch(config, 5), 2u);
  EXPECT_EQ(DescribeShares(config, 5), "3 or 4 on each rank");
  EXPECT_EQ(DescribeShares(config, 17), "1 on each rank");
}

// The name comes first wherever it stands.
TEST(Options, AModelByNameIsChangedByTheOptionsOfItsShape) {
  ProgramConfig c;
  std::string help;
  ASSERT_TRUE(Parse({"--layers", "6", "--model", "gpt2", "--param-dtype", "bf16"}, c, help));
  EXPECT_EQ(c.train.param_type, NumberType::kBf16);
  ModelConfig expected = ModelOfSize("gpt2");
  EXPECT_EQ(expected.padded_vocabulary(), 50304u);
  expected.layers = 6;
  EXPECT_EQ(c.train.model, expected);
  ASSERT_TRUE(Parse({"--model", "11m", "--vocabulary", "1000", "--head", "own", "--positions",
                     "normal", "--init-deviation", "0.02"},
                    c, help));
  EXPECT_EQ(c.train.model.width, 384u);
  EXPECT_EQ(c.train.model.vocabulary, 1000u);
  EXPECT_FALSE(c.train.model.tied_head);
  EXPECT_EQ(c.train.model.positions, Positions::kNormal);
  EXPECT_EQ(c.train.model.deviation, 0.02);
}

TEST(LearningRate, GrowsWithTheBatchAsAskedFor) {
  TrainConfig config;
  config.global_batch = 64;
  config.lr = 0.001;
  config.lr_batch = 16;
  EXPECT_EQ(PeakRate(config), 0.001);
  config.lr_scaling = LrScaling::kLinear;
  EXPECT_DOUBLE_EQ(PeakRate(config), 0.004);
  config.lr_scaling = LrScaling::kSqrt;
  EXPECT_DOUBLE_EQ(PeakRate(config), 0.002);
  EXPECT_DOUBLE_EQ(LearningRate(config, config.warmup - 1), 0.002);
}

// Also by its resolved numbers, as a configuration that was written has them.
TEST(Options, ALlamaIsChosenByNameOrByItsNumbers) {
  ProgramConfig c;
  std::string help;
  ASSERT_TRUE(Parse({"--kv-heads", "3", "--model", "llama-15m", "--norm-epsilon", "1e-6",
                     "--rope-theta", "500000", "--hidden", "800"},
                    c, help));
  ModelConfig expected = ModelOfSize("llama-15m");
  EXPECT_EQ(expected.architecture, Architecture::kLlama);
  EXPECT_EQ(expected.hidden_width(), 768u);
  expected.kv_heads = 3;
  expected.norm_epsilon = 1e-6;
  expected.rope_theta = 500000;
  expected.hidden = 800;
  EXPECT_EQ(c.train.model, expected);
  ProgramConfig named;
  ASSERT_TRUE(Parse({"--model", "llama-15m"}, named, help));
  const TrainConfig resolved = WithDefaults(named.train, 1);
  EXPECT_EQ(resolved.model.kv_heads, 6u);
  EXPECT_EQ(resolved.model.hidden, 768u);
  EXPECT_EQ(NameOfSize(resolved.model), "llama-15m");
  ProgramConfig plain;
  ASSERT_TRUE(Parse({}, plain, help));
  EXPECT_EQ(WithDefaults(plain.train, 1).model, ModelConfig());  // GPT-2 has none of these
}

TEST(Options, EveryModelHasTheSizeOfItsName) {
  const std::map<std::string, double> millions = {{"1m", 1},
                                                  {"3m", 2.8},
                                                  {"11m", 10.8},
                                                  {"25m", 25.5},
                                                  {"50m", 49.5},
                                                  {"85m", 85.4},
                                                  {"gpt2", 124.5},
                                                  {"gpt2-medium", 354.9},
                                                  {"gpt2-large", 774.1},
                                                  {"gpt2-xl", 1557.7},
                                                  {"llama-15m", 15.2},
                                                  {"llama-110m", 109.5},
                                                  {"llama-1b", 1235.8}};
  std::string names;
  for (const auto& [name, size] : millions) {
    const ModelConfig model = ModelOfSize(name);
    EXPECT_EQ(NameOfSize(model), name);
    EXPECT_NEAR(double(ParameterCount(ModelUnits(model))) * 1e-6, size, 0.05 * size) << name;
    EXPECT_NE(SizeNames().find(name), std::string::npos);
  }
  ModelConfig other;
  other.layers++;
  EXPECT_EQ(NameOfSize(other), "custom");
}

TEST(Options, EveryOptionArrives) {
  ProgramConfig c;
  std::string help;
  ASSERT_TRUE(Parse({"--data",
                     "a",
                     "b",
                     "--steps",
                     "7",
                     "--batch",
                     "8",
                     "--seq",
                     "32",
                     "--layers",
                     "2",
                     "--heads",
                     "3",
                     "--width",
                     "24",
                     "--lr",
                     "0.01",
                     "--warmup",
                     "5",
                     "--seed",
                     "9",
                     "--dtype",
                     "fp32",
                     "--accumulate",
                     "2",
                     "--no-overlap",
                     "--run-dir",
                     "r",
                     "--name",
                     "n",
                     "--eval-every",
                     "3",
                     "--threads",
                     "2",
                     "--strategy",
                     "fraction",
                     "--accumulation",
                     "every",
                     "--prefetch",
                     "4",
                     "--views",
                     "stable",
                     "--optimizer",
                     "muon",
                     "--memory-budget",
                     "1.5MiB",
                     "--reduce-dtype",
                     "bf16",
                     "--clip",
                     "0.5",
                     "--weight-decay",
                     "0",
                     "--beta1",
                     "0.8",
                     "--beta2",
                     "0.99",
                     "--eps",
                     "1e-6",
                     "--final-rate",
                     "0.25",
                     "--changed",
                     "seed,text"},
                    c, help));
  EXPECT_EQ(c.data, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(c.train.steps, 7u);
  EXPECT_EQ(c.train.global_batch, 8u);
  EXPECT_EQ(c.train.model.seq, 32u);
  EXPECT_EQ(c.train.model.layers, 2u);
  EXPECT_EQ(c.train.model.heads, 3u);
  EXPECT_EQ(c.train.model.width, 24u);
  EXPECT_EQ(c.train.lr, 0.01);
  EXPECT_EQ(c.train.warmup, 5u);
  EXPECT_EQ(c.train.seed, 9u);
  EXPECT_EQ(c.train.precision, Precision::kFp32);
  EXPECT_EQ(c.train.accumulate, 2u);
  EXPECT_TRUE(c.train.no_overlap);
  EXPECT_EQ(c.run_dir, "r");
  EXPECT_EQ(c.name, "n");
  EXPECT_EQ(c.train.eval_every, 3u);
  EXPECT_EQ(c.train.threads, 2);
  EXPECT_EQ(c.train.strategy, WEFT_SHARD_FRACTION);
  EXPECT_EQ(c.train.accumulation, WEFT_SHARD_REDUCE_EVERY);
  EXPECT_EQ(c.train.prefetch, 4u);
  EXPECT_EQ(c.train.views, WEFT_SHARD_VIEWS_STABLE);
  EXPECT_EQ(c.train.optimizer, WEFT_OPTIMIZER_MUON);
  EXPECT_EQ(c.train.memory_budget, size_t{3} << 19);
  EXPECT_EQ(c.train.reduce_type, WEFT_SHARD_WIRE_BFLOAT16);
  EXPECT_EQ(c.train.grad_clip, 0.5);
  EXPECT_EQ(c.train.weight_decay, 0);
  EXPECT_EQ(c.train.beta1, 0.8);
  EXPECT_EQ(c.train.beta2, 0.99);
  EXPECT_EQ(c.train.epsilon, 1e-6);
  EXPECT_EQ(c.train.final_rate, 0.25);
  EXPECT_EQ(c.changed, (std::vector<std::string>{"seed", "text"}));
}

TEST(Options, EveryStrategyHasItsName) {
  for (const weft_shard_preset_t strategy : AllStrategies())
    EXPECT_EQ(ParseStrategy(weft_shard_preset_name(strategy)), strategy)
        << weft_shard_preset_name(strategy);
  EXPECT_EQ(ParseStrategy("zero3"), WEFT_SHARD_FULL_SHARD);
}

TEST(Options, HelpNamesEveryStrategy) {
  ProgramConfig config;
  std::string help;
  ASSERT_FALSE(Parse({"--help"}, config, help));
  for (const weft_shard_preset_t strategy : AllStrategies())
    EXPECT_NE(help.find(weft_shard_preset_name(strategy)), std::string::npos)
        << weft_shard_preset_name(strategy);
}

TEST(Options, DtypeAutoIsAPrecisionThatWorksHere) {
  ProgramConfig c;
  std::string help;
  ASSERT_TRUE(Parse({}, c, help));
  EXPECT_EQ(c.train.precision, FastestPrecision());
  EXPECT_TRUE(PrecisionSupported(FastestPrecision()));
}

TEST(Options, HelpAndVersionAreNotErrors) {
  ProgramConfig config;
  std::string help;
  EXPECT_FALSE(Parse({"--help"}, config, help));
  EXPECT_NE(help.find("--accumulate"), std::string::npos);
  EXPECT_FALSE(Parse({"--version"}, config, help));
  EXPECT_EQ(help, "weft_train 0.1.0\n");
}

TEST(Options, BadInputIsOneLineThatNamesTheOption) {
  constexpr const char* kHuge = "100000000000000000000";  // more than 64 bits hold

  const struct {
    std::vector<std::string> arguments;
    const char* expected;
  } cases[] = {
      {{"--stepz", "5"}, "--stepz"},
      {{"--steps"}, "--steps"},
      {{"--steps", "many"}, "many"},
      {{"--steps", "-1"}, "--steps"},
      {{"--steps", "0"}, "--steps: 0 is out of range; use 1 to 100000000"},
      {{"--batch", "0"}, "--batch: 0"},
      {{"--batch", "1"},
       "--batch 1 is too small for 2 ranks x 1 micro-batch: each needs a sequence; use 2 or more"},
      {{"--seq", "1"}, "--seq: 1"},
      {{"--seq", "100000"}, "--seq: 100000"},
      {{"--layers", "0"}, "--layers: 0"},
      {{"--width", "10", "--heads", "3"}, "--heads 3"},
      {{"--heads", "0"}, "--heads: 0"},
      {{"--width", "99999999999999999999"}, "--width"},
      {{"--lr", "0"}, "--lr 0"},
      {{"--lr", "nan"}, "--lr nan"},
      {{"--lr", "-1"}, "--lr -1"},
      {{"--accumulate", "0"}, "--accumulate: 0"},
      {{"--batch", "7", "--accumulate", "4"}, "2 ranks x 4 micro-batches: each needs a sequence; "},
      {{"--final-rate", "1.5"}, "--final-rate 1.5 is out of range; use 0 to 1"},
      {{"--weight-decay", "-0.1"}, "--weight-decay -0.1 is out of range"},
      {{"--beta1", "1"}, "--beta1 1 is out of range; use 0 to less than 1"},
      {{"--beta2", "nan"}, "--beta2 nan is out of range"},
      {{"--eps", "0"}, "--eps 0 is out of range; use more than 0"},
      {{"--clip", "inf"}, "--clip inf is out of range"},
      {{"--clip", "-1"}, "--clip -1 is out of range"},
      {{"--changed", "seed,layers"}, "--changed layers: no run can go on with another one"},
      {{"--dtype", "fp8"}, "--dtype fp8"},
      {{"--model", "gpt3"}, "--model gpt3 is unknown; use 1m, 3m, "},
      {{"--vocabulary", "1"}, "--vocabulary: 1"},
      {{"--arch", "bert"}, "--arch bert is unknown; use gpt2 or llama"},
      {{"--kv-heads", "2"}, "--kv-heads is of Llama, and the model is a GPT-2; give --arch llama"},
      {{"--hidden", "64"}, "--hidden is of Llama"},
      {{"--rope-theta", "500"}, "--rope-theta is of Llama"},
      {{"--norm-epsilon", "1e-6"}, "--norm-epsilon is of Llama"},
      {{"--arch", "llama", "--kv-heads", "3"}, "--heads 4 is not a multiple of --kv-heads 3"},
      {{"--arch", "llama", "--kv-heads", "8"}, "--kv-heads 8 is out of range; use 1 to 4"},
      {{"--arch", "llama", "--width", "12"}, "--width 12 over --heads 4 is 3, which is odd"},
      {{"--arch", "llama", "--hidden", "99999"}, "--hidden: 99999 is out of range"},
      {{"--arch", "llama", "--rope-theta", "0"}, "--rope-theta 0 is out of range; use 1 to"},
      {{"--arch", "llama", "--norm-epsilon", "0"}, "--norm-epsilon 0 is out of range; use more"},
      {{"--head", "free"}, "--head free is unknown; use tied or own"},
      {{"--positions", "rotary"}, "--positions rotary is unknown; use sinusoids or normal"},
      {{"--init-deviation", "-1"}, "--init-deviation -1 is out of range; use 0 to 10"},
      {{"--param-dtype", "fp8"}, "--param-dtype fp8 is unknown; use fp32, bf16 or fp16"},
      {{"--strategy", "zero9"}, "--strategy zero9 is unknown; use ddp"},
      {{"--strategy", "fsdp"}, "--strategy fsdp is unknown; use ddp"},
      {{"--strategy", "fraction"}, "--strategy fraction needs --memory-budget"},
      {{"--accumulation", "never"}, "--accumulation never"},
      {{"--reduce-dtype", "int8"}, "--reduce-dtype int8"},
      {{"--optimizer", "adam"},
       "--optimizer adam is unknown; use adamw, sgd, lion, lamb, lars or muon"},
      {{"--dropout", "1"}, "--dropout 1 is out of range; use 0 to 0.99"},
      {{"--outlier-z", "0.5"}, "--outlier-z 0.5 is out of range; use 0, which skips no step"},
      {{"--lr-scaling", "linear"}, "--lr-scaling linear needs --lr-batch"},
      {{"--recompute", "all"}, "--recompute all is unknown; use none, selective or full"},
      {{"--momentum", "1"}, "--momentum 1 is out of range; use 0 to less than 1"},
      {{"--loss-scale", "-2"}, "--loss-scale -2 is out of range; use 0, for a dynamic one"},
      {{"--views", "still"}, "--views still is unknown; use move, stable or apart"},
      {{"--prefetch", "-1"},
       "--prefetch: -1 is no whole number from 0 to 1000; see weft_train --help"},
      {{"--prefetch", "x"}, "--prefetch: x is no whole number from 0"},
      {{"--steps", "1.5"}, "--steps: 1.5 is no whole number from 1"},
      {{"--prefetch", "5000"}, "--prefetch: 5000 is out of range; use 0 to 1000"},
      {{"--memory-budget", "-1"}, "--memory-budget"},
      {{"--memory-budget", "much"}, "--memory-budget much"},
      {{"--memory-budget", "4XB"}, "--memory-budget 4XB"},
      {{"--memory-budget", "nan"}, "--memory-budget nan"},
      {{"--memory-budget", "40MBx"}, "--memory-budget 40MBx"},
      {{"--memory-budget", " 40MB"}, "--memory-budget  40MB"},
      {{"--threads", "0"}, "--threads"},
      {{"--steps", "010"}, "--steps: 010 is no whole number"},
      {{"--threads", "1025"}, "--threads: 1025 is out of range; use 1 to 1024"},
      {{"--warmup", kHuge}, "--warmup: 100000000000000000000 is out of range; use 0 to 100000000"},
      {{"--seed", kHuge},
       "--seed: 100000000000000000000 is out of range; use 0 to 18446744073709551615"},
      {{"--eval-every", kHuge}, "--eval-every: 100000000000000000000 is out of range"},
      {{"--check-samples", kHuge}, "--check-samples: 100000000000000000000 is out of range"},
      {{"--verify-every", kHuge}, "--verify-every: 100000000000000000000 is out of range"},
      {{"--verify-every", "-1"}, "--verify-every: -1 is no whole number from 0 to 100000000"},
      {{"--verify-every", "18446744073709551615"}, "--verify-every"},
      {{"--shard-group", kHuge}, "--shard-group: 100000000000000000000 is out of range"},
      {{"--name", "../../x"}, "--name ../../x is no name of a folder below --run-dir"},
      {{"--name", "a/b"}, "--name a/b"},
      {{"--name", ".."}, "--name .."},
      {{"--name", "/tmp"}, "--name /tmp"},
      {{"stray"}, "stray"},
  };

  for (const auto& c : cases) {
    const std::string complaint = Complaint(c.arguments);
    EXPECT_NE(complaint.find(c.expected), std::string::npos) << c.expected << ": " << complaint;
    EXPECT_EQ(complaint.find('\n'), std::string::npos) << complaint;
  }
}

ResolvedConfig Resolve(const std::vector<std::string>& arguments, size_t ranks,
                       const std::string& text = "some text") {
  ProgramConfig config;
  std::string help;
  EXPECT_TRUE(Parse(arguments, config, help));
  return ResolveConfig(config, text, ranks);
}

std::string ValueOf(const ResolvedConfig& config, const std::string& key) {
  for (const ResolvedOption& option : config) {
    if (option.key == key) return option.value;
  }
  return "absent";
}

// What a run's config.json says is enough to start it again.
TEST(ResolvedConfig, ItsValuesGivenAsOptionsAreTheSameConfiguration) {
  const ResolvedConfig first = Resolve({"--strategy",
                                        "zero2",
                                        "--lr",
                                        "0.0007",
                                        "--batch",
                                        "9",
                                        "--memory-budget",
                                        "1.5MiB",
                                        "--no-overlap",
                                        "--optimizer",
                                        "muon",
                                        "--views",
                                        "apart",
                                        "--accumulation",
                                        "every",
                                        "--reduce-dtype",
                                        "fp16",
                                        "--dtype",
                                        "fp32",
                                        "--clip",
                                        "0.3"},
                                       3);
  std::vector<std::string> arguments;
  for (const ResolvedOption& option : first) {
    const bool flag = option.value == "true" || option.value == "false";
    if (option.key == kTextKey || option.value.empty() || option.value == "false") continue;
    arguments.push_back("--" + option.key);
    if (!flag) arguments.push_back(option.value);
  }
  const ResolvedConfig again = Resolve(arguments, 3);
  ASSERT_EQ(again.size(), first.size());
  for (size_t i = 0; i < first.size(); i++)
    EXPECT_EQ(again[i].value, first[i].value) << first[i].key;
  EXPECT_EQ(Digest(again), Digest(first));
  EXPECT_EQ(ConfigText(again, 3), ConfigText(first, 3));
}

// An option that is added to the command line has its row, and its column, in what is compared and
// written.
TEST(ResolvedConfig, HasEveryOptionOfTheHelp) {
  ProgramConfig config;
  std::string help;
  ASSERT_FALSE(Parse({"--help"}, config, help));
  help.resize(help.find("Without a run:"));  // what follows says nothing of a run
  const ResolvedConfig resolved = Resolve({}, 2);
  size_t count = 0;
  for (size_t at = help.find("\n  --"); at != std::string::npos; at = help.find("\n  --", at + 1)) {
    const size_t begin = at + 5;
    const std::string key = help.substr(begin, help.find_first_of(" ,\n", begin) - begin);
    if (key == "version" || key == "help") continue;
    EXPECT_NE(ValueOf(resolved, key), "absent") << key;
    ++count;
  }
  EXPECT_EQ(count + 1, resolved.size());  // and the text
}

TEST(ResolvedConfig, TheDigestIsThatOfWhatRanksMustHaveInCommon) {
  const uint64_t digest = Digest(Resolve({}, 2));
  EXPECT_EQ(Digest(Resolve({"--batch", "4"}, 2)), digest);  // its default on 2 ranks
  for (const std::vector<std::string>& free :
       std::vector<std::vector<std::string>>{{"--run-dir", "elsewhere"},
                                             {"--name", "x"},
                                             {"--offload", "d"},
                                             {"--threads", "2"},
                                             {"--data", "/mnt/text"}})
    EXPECT_EQ(Digest(Resolve(free, 2)), digest) << free[0];
  for (const std::vector<std::string>& shared :
       std::vector<std::vector<std::string>>{{"--seed", "2"},
                                             {"--heads", "2"},
                                             {"--lr", "0.1"},
                                             {"--batch", "5"},
                                             {"--steps", "7"},
                                             {"--strategy", "zero1"},
                                             {"--checkpoint-every", "5"},
                                             {"--resume", "auto"},
                                             {"--elastic"},
                                             {"--clip", "2"},
                                             {"--prefetch", "2"},
                                             {"--init", "runs/x"}})
    EXPECT_NE(Digest(Resolve(shared, 2)), digest) << shared[0];
  EXPECT_NE(Digest(Resolve({}, 2, "some test")), digest);
  EXPECT_NE(Digest(Resolve({}, 5)), digest);  // another default batch
}

TEST(Options, TheLargestSeedIsTaken) {
  ProgramConfig c;
  std::string help;
  ASSERT_TRUE(Parse({"--seed", "18446744073709551615"}, c, help));
  EXPECT_EQ(c.train.seed, UINT64_MAX);
}

TEST(Options, TheOrder3ModelCountsAllTextThatIsUsualAndASampleOfOther) {
  const auto counted = [](const std::vector<std::string>& words) {
    ProgramConfig c;
    std::string help;
    EXPECT_TRUE(Parse(words, c, help));
    return Order3BytesMax(c);
  };
  EXPECT_EQ(counted({}), SIZE_MAX);
  EXPECT_EQ(counted({"--data", "text"}), 16'000'000u);
  EXPECT_EQ(counted({"--data", "auto", "text"}), 16'000'000u);
  EXPECT_EQ(counted({"--data", "text", "--order3", "on"}), SIZE_MAX);
  EXPECT_EQ(counted({"--order3", "off"}), 0u);
}

TEST(Options, TokenizeHasOptionsOfItsOwn) {
  ProgramConfig c;
  std::string help;
  ASSERT_TRUE(Parse({"tokenize", "--tokenizer", "bpe:400", "--out", "d/n", "--shard-tokens", "7",
                     "--val-part", "0.25", "--split", "llama3", "a", "b"},
                    c, help));
  EXPECT_EQ(c.task, Task::kTokenize);
  EXPECT_EQ(c.tokenize.tokenizer, "bpe:400");
  EXPECT_EQ(c.tokenize.out, "d/n");
  EXPECT_EQ(c.tokenize.shard_tokens, 7u);
  EXPECT_EQ(c.tokenize.validation_part, 0.25);
  EXPECT_EQ(c.tokenize.split, SplitPattern::kLlama3);
  EXPECT_EQ(c.tokenize.files, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(Parse({"tokenize", "--help"}, c, help));
  EXPECT_NE(help.find("--shard-tokens"), std::string::npos);
  EXPECT_THROW(Parse({"tokenise"}, c, help), BadInput);
  EXPECT_THROW(Parse({"tokenize", "a", "--steps", "5"}, c, help), BadInput);
}

TEST(LearningRate, WarmsUpLinearlyAndFallsToItsFinalPart) {
  TrainConfig config;
  config.steps = 100, config.warmup = 10, config.lr = 1;
  EXPECT_DOUBLE_EQ(LearningRate(config, 0), 0.1);
  EXPECT_DOUBLE_EQ(LearningRate(config, 9), 1);
  EXPECT_DOUBLE_EQ(LearningRate(config, 10), 1);
  EXPECT_NEAR(LearningRate(config, 55), 0.525, 1e-9);
  EXPECT_NEAR(LearningRate(config, 100), 0.05, 1e-9);
  for (size_t step = 11; step < 100; step++) {
    EXPECT_LT(LearningRate(config, step), LearningRate(config, step - 1));
  }
  config.warmup = 0;
  EXPECT_DOUBLE_EQ(LearningRate(config, 0), 1);
  config.final_rate = 0.5;
  EXPECT_NEAR(LearningRate(config, 100), 0.5, 1e-9);
  config.final_rate = 1;
  EXPECT_DOUBLE_EQ(LearningRate(config, 99), 1);
}

}  // namespace
}  // namespace weft::trainer::config_test
