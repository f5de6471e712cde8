// Configuration files: what their keys come to, what is refused, and what beats what.
#include "trainer/configuration/config_file.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "trainer/failure.h"
#include "trainer/options.h"

namespace weft::trainer::config_file_test {
namespace {

using ::testing::HasSubstr;

class ConfigFileTest : public testing::Test {
 protected:
  ConfigFileTest() {
    char name[] = "/tmp/weft-config-XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }

  ~ConfigFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }

  // With the file's text, and more words of a command line.
  ProgramConfig Read(const std::string& text, std::vector<std::string> words = {},
                     const std::string& name = "config") const {
    words.insert(words.begin(), {"weft_train", "--config", Write(name, text)});
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    ProgramConfig config;
    std::string help;
    EXPECT_TRUE(ParseOptions(int(words.size()), argv.data(), config, help));
    return config;
  }

  // The sentence that reading, or checking on two ranks, ends with; "" if all is well.
  std::string Complaint(const std::string& text, const std::vector<std::string>& words = {}) const {
    try {
      const ProgramConfig config = Read(text, words);
      CheckConfig(WithDefaults(config.train, 2), 2);
    } catch (const BadInput& error) {
      return error.what();
    }
    return "";
  }

  std::string folder_;
};

const ConfigNote* NoteOf(const ProgramConfig& config, const std::string& key) {
  for (const ConfigNote& note : config.notes)
    if (note.key == key) return &note;
  return nullptr;
}

TEST_F(ConfigFileTest, KeysOfDeepSpeedAreOptions) {
  const ProgramConfig config = Read(R"({
    "train_batch_size": 64, "gradient_accumulation_steps": 4, "gradient_clipping": 0.5,
    "communication_data_type": "bf16",
    "zero_optimization": {"stage": 2, "overlap_comm": false, "reduce_bucket_size": 5e8},
    "optimizer": {"type": "AdamW",
                  "params": {"lr": 2e-4, "betas": [0.8, 0.9], "eps": 1e-6, "weight_decay": 0.3}},
    "scheduler": {"type": "WarmupDecayLR",
                  "params": {"warmup_min_lr": 1e-5, "warmup_max_lr": 1e-4, "warmup_num_steps": 10,
                             "total_num_steps": 100}}})");
  const TrainConfig& t = config.train;
  EXPECT_EQ(t.global_batch, 64u);
  EXPECT_EQ(t.accumulate, 4u);
  EXPECT_EQ(t.grad_clip, 0.5);
  EXPECT_EQ(t.reduce_type, WEFT_SHARD_WIRE_BFLOAT16);
  EXPECT_EQ(t.strategy, WEFT_SHARD_ZERO2);
  EXPECT_TRUE(t.no_overlap);
  EXPECT_EQ(t.bucket_bytes, 2'000'000'000u);
  EXPECT_EQ(t.beta1, 0.8);
  EXPECT_EQ(t.beta2, 0.9);
  EXPECT_EQ(t.epsilon, 1e-6);
  EXPECT_EQ(t.weight_decay, 0.3);
  EXPECT_EQ(t.lr, 1e-4);  // the scheduler's
  EXPECT_EQ(t.schedule, Schedule::kLinear);
  EXPECT_EQ(t.warmup_shape, WarmupShape::kLog);
  EXPECT_EQ(t.warmup, 10u);
  EXPECT_EQ(t.steps, 100u);
  EXPECT_NEAR(t.warmup_from, 0.1, 1e-12);
  EXPECT_NEAR(t.final_rate, 0.1, 1e-12);
}

// As DeepSpeed computes them: min + (max - min) * gamma.
TEST_F(ConfigFileTest, TheRatesOfWarmupDecayLRAreDeepSpeeds) {
  const TrainConfig config = Read(R"({"scheduler": {"params": {"warmup_min_lr": 1e-5,
    "warmup_max_lr": 1e-3, "warmup_num_steps": 10, "total_num_steps": 50},
    "type": "WarmupDecayLR"}})")
                                 .train;
  for (size_t step = 0; step < 50; step++) {
    const double gamma = step < 10 ? std::log(double(step) + 1) / std::log(10.0)
                                   : std::max(0.0, (50.0 - double(step)) / 40.0);
    EXPECT_NEAR(LearningRate(config, step), 1e-5 + (1e-3 - 1e-5) * gamma, 1e-12) << step;
  }
}

TEST_F(ConfigFileTest, AcceleratesYamlMayNameAFileOfDeepSpeed) {
  Write("ds.json", R"({"zero_optimization": {"stage": 3}, "gradient_clipping": "auto"})");
  const ProgramConfig config = Read(
      "# written by accelerate config\n"
      "compute_environment: LOCAL_MACHINE\n"
      "deepspeed_config:\n"
      "  deepspeed_config_file: ds.json\n"
      "  zero3_init_flag: true\n"
      "mixed_precision: 'no'\n"
      "num_processes: 2\n",
      {}, "accelerate.yaml");
  EXPECT_EQ(config.train.strategy, WEFT_SHARD_FULL_SHARD);
  EXPECT_EQ(config.train.precision, Precision::kFp32);
  EXPECT_FALSE(config.best_precision);
  EXPECT_EQ(config.train.grad_clip, TrainConfig().grad_clip);
  ASSERT_NE(NoteOf(config, "num_processes"), nullptr);
  EXPECT_FALSE(NoteOf(config, "num_processes")->in_force);
  EXPECT_TRUE(NoteOf(config, "gradient_clipping")->in_force);
}

TEST_F(ConfigFileTest, EachKeyStandsInOneOfTwoLists) {
  const ProgramConfig config = Read(
      R"({"fp16": {"enabled": false, "loss_scale": 0}, "gradient_clipping": 1.0,
          "zero_optimization": {"reduce_scatter": true, "contiguous_gradients": false}})");
  EXPECT_EQ(DescribeNotes(config),
            "config in force:\n"
            "         gradient_clipping 1.0: --clip=1.0\n"
            "         fp16.enabled false: as is the default\n"
            "         zero_optimization.reduce_scatter true: as always here\n"
            "       without effect here:\n"
            "         fp16.loss_scale 0: fp16.enabled is not true\n"
            "         zero_optimization.contiguous_gradients false: gradients always lie side by "
            "side\n");
  EXPECT_EQ(DescribeNotes(ProgramConfig()), "");
}

TEST_F(ConfigFileTest, TheLossScaleIsThatOfFloat16) {
  const TrainConfig half =
      WithDefaults(Read(R"({"fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12,
               "loss_scale_window": 50, "hysteresis": 1}})")
                       .train,
                   2);
  EXPECT_EQ(half.precision, Precision::kFp16);
  EXPECT_EQ(half.param_type, NumberType::kFp16);
  EXPECT_EQ(half.loss_scale, 0);
  EXPECT_EQ(half.loss_scale_power, 12u);
  EXPECT_EQ(half.loss_scale_window, 50u);
  EXPECT_EQ(half.loss_scale_hysteresis, 1u);
  const TrainConfig other = WithDefaults(
      Read(R"({"bf16": {"enabled": true}, "fp16": {"enabled": false, "loss_scale": 0}})").train, 2);
  EXPECT_EQ(other.param_type, NumberType::kBf16);
  EXPECT_EQ(other.loss_scale, 1);
}

TEST_F(ConfigFileTest, OptimizersHaveTheirNumbers) {
  const auto optimizer = [&](const std::string& text) {
    return WithDefaults(Read("{\"optimizer\": " + text + "}").train, 2);
  };
  EXPECT_EQ(optimizer(R"({"type": "Lion"})").beta2, 0.99);
  EXPECT_EQ(optimizer(R"({"type": "Lamb"})").epsilon, 1e-6);
  EXPECT_EQ(optimizer(R"({"type": "AdamW"})").beta2, 0.95);
  const TrainConfig sgd =
      optimizer(R"({"type": "SGD", "params": {"momentum": 0.8, "nesterov": true}})");
  EXPECT_EQ(sgd.optimizer, WEFT_OPTIMIZER_SGD);
  EXPECT_EQ(sgd.momentum, 0.8);
  EXPECT_TRUE(sgd.nesterov);
}

TEST_F(ConfigFileTest, TheCommandLineHasTheLastWord) {
  const std::string file = R"({"gradient_clipping": 1.5, "zero_optimization": {"stage": 2}})";
  EXPECT_EQ(Read(file).train.grad_clip, 1.5);
  EXPECT_EQ(Read(file, {"--gradient_clipping", "2.5"}).train.grad_clip, 2.5);
  EXPECT_EQ(Read(file, {"--gradient_clipping=2.5", "--clip", "3.5"}).train.grad_clip, 3.5);
  EXPECT_EQ(Read(file, {"--zero_optimization.stage", "3"}).train.strategy, WEFT_SHARD_FULL_SHARD);
  EXPECT_EQ(Read(file, {"--optimizer.params.betas", "[0.5, 0.6]"}).train.beta2, 0.6);
  EXPECT_EQ(Read(file, {"--strategy", "ddp"}).train.strategy, WEFT_SHARD_NO_SHARD);
}

TEST_F(ConfigFileTest, OwnOptionsAreKeysToo) {
  const ProgramConfig config = Read(
      "steps: 7\nwidth: 64\nno-overlap: true\ndata: [a, b c]\nname: x\nlr: 0.5\nresume: ''\n"
      "gradient_clipping: 2\nclip: 3\n");
  EXPECT_EQ(config.train.steps, 7u);
  EXPECT_EQ(config.train.model.width, 64u);
  EXPECT_TRUE(config.train.no_overlap);
  EXPECT_THAT(config.data, testing::ElementsAre("a", "b c"));
  EXPECT_EQ(config.name, "x");
  EXPECT_EQ(config.train.lr, 0.5);
  EXPECT_EQ(config.train.grad_clip, 3);
}

TEST_F(ConfigFileTest, AnyTwoNumbersOfTheBatchGiveTheThird) {
  const auto solved = [&](const std::string& text, size_t ranks) {
    return WithDefaults(Read(text).train, ranks);
  };
  EXPECT_EQ(
      solved(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4})", 2).accumulate, 8u);
  EXPECT_EQ(solved(R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3})", 5)
                .global_batch,
            60u);
  EXPECT_EQ(solved(R"({"train_micro_batch_size_per_gpu": 4})", 5).global_batch, 20u);
  EXPECT_EQ(solved(R"({"gradient_accumulation_steps": 3})", 5).global_batch, 15u);
  EXPECT_EQ(solved(R"({"train_batch_size": 7, "gradient_accumulation_steps": 3})", 2).global_batch,
            7u);
  EXPECT_EQ(solved(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"})", 2)
                .global_batch,
            4u);
  EXPECT_EQ(Complaint(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4,
                          "gradient_accumulation_steps": 4})"),
            "--batch 64 is not --micro-batch 4 x --accumulate 4 x 2 ranks = 32; the nearest that "
            "fits is --batch 64 with --accumulate 8");
  EXPECT_EQ(
      Complaint(R"({"train_batch_size": 65, "train_micro_batch_size_per_gpu": 3})"),
      "--batch 65 is not --micro-batch 3 x --accumulate 1 x 2 ranks = 6; the nearest that fits "
      "is --batch 66 with --accumulate 11");
}

TEST_F(ConfigFileTest, StateOnADiskHasAFolder) {
  const ProgramConfig config = Read(R"({"zero_optimization": {"stage": 3,
    "offload_optimizer": {"device": "nvme", "nvme_path": "/disk"},
    "offload_param": {"device": "nvme", "nvme_path": "/disk"}}})");
  EXPECT_EQ(config.train.offload, "/disk");
  EXPECT_TRUE(config.train.offload_params);
  EXPECT_THAT(Complaint(R"({"zero_optimization": {"offload_param": {"device": "nvme"}}})"),
              HasSubstr("offload_param.device is \"nvme\" and there is no nvme_path beside it"));
  EXPECT_EQ(Complaint("", {}), "--config " + folder_ + "/config is empty");
}

TEST_F(ConfigFileTest, WhatCannotBeIsOneSentence) {
  const struct {
    const char* text;
    const char* sentence;
  } cases[] = {
      {R"({"zero_optimization": {"stage": "3"}})",
       "zero_optimization.stage is \"3\", and takes a whole number; write it without quotes"},
      {R"({"zero_optimization": {"stage": 4}})",
       "zero_optimization.stage 4 is unknown; use 0, 1, 2, 3"},
      {R"({"zero_optimization": {"stage": 2.5}})", "takes a whole number; give it one"},
      {R"({"zero_optimisation": {"stage": 2}})",
       "zero_optimisation.stage is unknown; did you mean zero_optimization.stage?"},
      {R"({"train_batchsize": 2})", "train_batchsize is unknown; did you mean train_batch_size?"},
      {R"({"stepz": 2})", "stepz is unknown; did you mean steps?"},
      {R"({"steps": "2"})", "steps is \"2\", and takes no text; write it without quotes"},
      {R"({"steps": 0})", "steps 0: --steps: 0 is out of range; use 1 to"},
      {R"({"steps": 2.5})", "steps 2.5: --steps: 2.5 is no whole number"},
      {R"({"gradient_clipping": [1]})", "gradient_clipping is [1], and takes a number"},
      {R"({"optimizer": {"type": "Lion9"}})",
       "optimizer.type \"Lion9\" is unknown; use AdamW, Adam, Muon"},
      {R"({"optimizer": {"params": {"betas": [0.9]}}})", "betas takes two numbers"},
      {R"({"optimizer": {"params": {"adam_w_mode": false}}})", "is Adam with its decay in the"},
      {R"({"scheduler": {"type": "OneCycle"}})",
       "scheduler.type \"OneCycle\" is unknown; use Warm"},
      {R"({"steps": 2, "steps": 3})", "steps stands there twice"},
      {R"({"a.b": 2})", "has the name \"a.b\"; names have no dots of their own"},
      {R"({"data": [["a"]]})", "data has a list in a list"},
      {R"({"data": [{"a": 1}]})", "data has an object in a list"},
      {R"({"steps": 2)", "config is no JSON: parse error at line 1"},
      {"steps: [2", "config is no YAML: line 1"},
      {"steps: 2\nsteps: 3\n", "steps stands there twice"},
      {"2", "the file is no object of names and values"},
      {"- a\n- b\n", "the file is no object of names and values"},
  };

  for (const auto& one : cases)
    EXPECT_THAT(Complaint(one.text), HasSubstr(one.sentence)) << one.text;
  EXPECT_THAT(Complaint("{}", {"--zero_optimization.stagee", "3"}),
              HasSubstr("--zero_optimization.stagee is unknown; did you mean "
                        "--zero_optimization.stage?"));
  EXPECT_EQ(Complaint("{}", {"--gradient_clipping"}), "--gradient_clipping needs a value");
  EXPECT_THROW(ReadConfigDocument(folder_), BadInput);
  EXPECT_THROW(ReadConfigDocument(folder_ + "/absent"), BadInput);
  // A hostile file: what it is made of must not decide how much memory or stack it takes.
  std::string deep;
  for (int i = 0; i < 100'000; i++)
    deep += "{\"a\":";
  EXPECT_THAT(Complaint(deep), HasSubstr("is nested deeper than any key"));
  EXPECT_THAT(Complaint(std::string(2'000'000, '{')), HasSubstr("has more than 1000000 bytes"));
}

}  // namespace
}  // namespace weft::trainer::config_file_test
