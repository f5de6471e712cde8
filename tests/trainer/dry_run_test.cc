#include "trainer/dry_run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <malloc.h>

#include "trainer/failure.h"
#include "trainer/plan.h"
#include "trainer/sample_shape.h"
#include "trainer/step_prediction.h"
#include "trainer/step_sample.h"

namespace weft::trainer::dry_run_test {
namespace {

// 3936 parameters: 2048 + 128 in the tables, 872 in each block, 16 in the final norm.
TrainConfig Tiny() {
  TrainConfig config;
  config.model = {.vocabulary = 256, .seq = 16, .width = 8, .layers = 2, .heads = 2};
  config.steps = 10;
  config.global_batch = 4;
  return config;
}

// As a machine could have timed it: 1 ms and 3 ms of computing with one and two layers.
StepSample MadeUpSample() {
  StepSample sample;
  sample.shape = {.ranks = 2, .layers = 2, .fewer_layers = 1, .sequences = 2, .seq = 16};
  sample.fewer = {1e-3, 5e-4, 1e-4};
  sample.step = {3e-3, 7e-4, 2e-4};
  sample.twice = {5e-3, 7e-4, 3e-4};
  sample.gemm = {1e11, 2e11, 32};
  sample.rounds = 7;
  return sample;
}

constexpr Placement kTwoOnTwo = {2, 2, 2};

void ExpectTimes(const StepTime& time, double compute_s, double update_s, double exposed_s) {
  EXPECT_NEAR(time.compute_s, compute_s, 1e-9 * compute_s);
  EXPECT_NEAR(time.update_s, update_s, 1e-9 * update_s);
  EXPECT_NEAR(time.exposed_s, exposed_s, 1e-9 * exposed_s);
}

uint64_t BytesOf(const TrainConfig& config, size_t rank, size_t ranks) {
  return PlanRun(config, rank, ranks).Bytes();
}

TEST(DryRunWork, IsThatOfTheFormulas) {
  const RunWork work = WorkOf(Tiny());
  EXPECT_EQ(work.parameters, 3936);
  EXPECT_EQ(work.tokens, 10 * 4 * 16);
  // 6 for each weight of a product, and for each of width x positions x layers in attention.
  constexpr double kOfAToken = 6 * (2 * 12 * 64 + 8 * 256) + 6 * 2 * 8 * 16;
  EXPECT_EQ(work.flops_per_step, kOfAToken * 64);
  EXPECT_EQ(work.flops, kOfAToken * 640);
  EXPECT_EQ(work.flops_6nd, 6.0 * 3936 * 640);
  EXPECT_EQ(work.chinchilla_tokens, 20 * 3936);
}

TEST(StepPrediction, LayersLieOnALine) {
  TrainConfig config = Tiny();
  for (const size_t layers : {2, 3, 7, 50}) {
    config.model.layers = layers;
    const double more = double(layers - 1);
    ExpectTimes(PredictStep(config, kTwoOnTwo, MadeUpSample()), 1e-3 + 2e-3 * more,
                5e-4 + 2e-4 * more, 1e-4 + 1e-4 * more);
  }
}

TEST(StepPrediction, NoiseMakesNoStepShorterThanThatOfFewerLayers) {
  TrainConfig config = Tiny();
  config.model.layers = 20;
  StepSample sample = MadeUpSample();
  sample.fewer.exposed_s = 3 * sample.step.exposed_s;
  EXPECT_EQ(PredictStep(config, kTwoOnTwo, sample).exposed_s, sample.step.exposed_s);
}

TEST(StepPrediction, OneCountOfLayersIsScaledByOperationsAndBytes) {
  TrainConfig one = Tiny(), many = Tiny();
  one.model.layers = 1;
  many.model.layers = 9;
  StepSample sample = MadeUpSample();
  sample.shape.layers = 1;
  sample.shape.fewer_layers = 0;
  const weft_shard_plan_t plan_of_one = PlanRun(one, 0, 2).sharding;
  const weft_shard_plan_t plan_of_many = PlanRun(many, 0, 2).sharding;
  ExpectTimes(
      PredictStep(many, kTwoOnTwo, sample),
      sample.step.compute_s * FlopsPerToken(many.model) / FlopsPerToken(one.model),
      sample.step.update_s * double(plan_of_many.optimizer_bytes) /
          double(plan_of_one.optimizer_bytes),
      sample.step.exposed_s * double(plan_of_many.sent_bytes) / double(plan_of_one.sent_bytes));
}

TEST(StepPrediction, EachFurtherMicroBatchAddsWhatTheSecondDid) {
  TrainConfig config = Tiny();
  config.global_batch = 20;  // 2 on each rank in each of the 5
  config.accumulate = 5;
  ExpectTimes(PredictStep(config, kTwoOnTwo, MadeUpSample()), 3e-3 + 4 * 2e-3, 7e-4,
              2e-4 + 4 * 1e-4);
}

TEST(StepPrediction, SequencesThatWereCutAreScaledByOperations) {
  TrainConfig config = Tiny();
  config.global_batch = 16;  // 8 on each rank
  ExpectTimes(PredictStep(config, kTwoOnTwo, MadeUpSample()), 3e-3 * 8 / 2, 7e-4, 2e-4);
}

TEST(StepPrediction, MoreRanksShareCoresUpdatesAndTraffic) {
  for (const weft_shard_preset_t strategy : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_FULL_SHARD}) {
    TrainConfig config = Tiny();
    config.strategy = strategy;
    config.global_batch = 16;
    StepSample sample = MadeUpSample();
    sample.shape.all_ranks = false;
    const weft_shard_plan_t of_two = PlanRun(config, 0, 2).sharding;
    const weft_shard_plan_t of_eight = PlanRun(config, 0, 8).sharding;
    constexpr double kSharing = 8.0 / 2;
    ExpectTimes(PredictStep(config, {8, 8, 2}, sample), 3e-3 * kSharing,
                7e-4 * kSharing * double(of_eight.optimizer_bytes) / double(of_two.optimizer_bytes),
                2e-4 * kSharing * double(of_eight.sent_bytes) / double(of_two.sent_bytes));
    // On four machines each has a core.
    EXPECT_NEAR(PredictStep(config, {8, 2, 2}, sample).compute_s, 3e-3, 1e-12);
  }
}

TEST(StepPrediction, WithoutStepsItIsThatOfTheProducts) {
  TrainConfig config = Tiny();
  config.global_batch = 16;
  config.accumulate = 2;
  StepSample sample;
  sample.shape.ranks = 2;
  sample.gemm = {1e9, 2e9, 32};
  const double flops = 8 * 16 * FlopsPerToken(config.model);  // of one of two ranks
  ExpectTimes(PredictStep(config, kTwoOnTwo, sample), flops / 1e9, 0, 0);
  ExpectTimes(PredictStep(config, {2, 2, 1}, sample), flops / 1e9, 0, 0);  // measured on it
}

TEST(RunPrediction, GrowsWithStepsAndValidations) {
  TrainConfig config = Tiny();
  config.eval_every = 0;
  config.final_windows = 30;
  config.sample_bytes = 5;
  config.model.seq = 34;  // a token of the sample takes half as long as a window
  const StepTime step = {3e-3, 7e-4, 2e-4};
  RunSeconds run = PredictRun(config, kTwoOnTwo, step);
  EXPECT_NEAR(run.steps, 10 * 3.9e-3, 1e-12);
  EXPECT_NEAR(run.validations, (30 / 2.0 + 2.5) * 0.5e-3,
              1e-12);  // a third of 3 ms for 2 sequences
  config.steps = 101;
  config.eval_every = 50;
  config.eval_windows = 8;
  run = PredictRun(config, kTwoOnTwo, step);
  EXPECT_NEAR(run.steps, 101 * 3.9e-3, 1e-12);
  EXPECT_NEAR(run.validations, ((30 + 2 * 8) / 2.0 + 2.5) * 0.5e-3, 1e-12);
}

TEST(SampleShape, SmallModelsAreTriedOutAsTheyAre) {
  const SampleShape shape = ChooseSampleShape(Tiny(), kTwoOnTwo, 1e11, uint64_t{1} << 33).value();
  EXPECT_EQ(shape.ranks, 2u);
  EXPECT_TRUE(shape.all_ranks);
  EXPECT_EQ(shape.layers, 2u);
  EXPECT_EQ(shape.fewer_layers, 0u);
  EXPECT_EQ(shape.sequences, 2u);
  EXPECT_EQ(shape.seq, 16u);
}

TEST(SampleShape, LargeModelsLoseLayersFirst) {
  TrainConfig config = Tiny();
  config.model = {.vocabulary = 256, .seq = 256, .width = 768, .layers = 12, .heads = 12};
  const SampleShape shape = ChooseSampleShape(config, kTwoOnTwo, 2e11, uint64_t{1} << 34).value();
  EXPECT_EQ(shape.layers, 2u);
  EXPECT_EQ(shape.fewer_layers, 1u);
  EXPECT_EQ(shape.sequences, 2u);
  EXPECT_EQ(shape.seq, 256u);
}

TEST(SampleShape, SequencesAndPositionsGoWhenTimeIsShort) {
  TrainConfig config = Tiny();
  config.model = {.vocabulary = 256, .seq = 2048, .width = 512, .layers = 24, .heads = 8};
  config.global_batch = 64;
  const auto choose = [&](double flops_per_s, uint64_t free_bytes) {
    return ChooseSampleShape(config, kTwoOnTwo, flops_per_s, free_bytes);
  };
  SampleShape shape = choose(5e12, uint64_t{1} << 35).value();
  EXPECT_EQ(shape.layers, 2u);
  EXPECT_LT(shape.sequences, 32u);
  EXPECT_EQ(shape.seq, 2048u);
  shape = choose(1e11, uint64_t{1} << 35).value();
  EXPECT_EQ(shape.layers, 1u);
  EXPECT_EQ(shape.fewer_layers, 0u);
  EXPECT_EQ(shape.sequences, 1u);
  EXPECT_EQ(shape.seq, 2048u);
  shape = choose(1e9, uint64_t{1} << 35).value();
  EXPECT_EQ(shape.sequences, 1u);
  EXPECT_EQ(shape.seq, 64u);
  EXPECT_EQ(choose(5e12, 1'000'000'000), std::nullopt);  // two ranks take half of it
}

TEST(SampleShape, RanksAreThoseThatHaveCores) {
  TrainConfig config = Tiny();
  EXPECT_EQ(SampleRanks(config, {1, 1, 4}), 1u);
  EXPECT_EQ(SampleRanks(config, {3, 3, 4}), 3u);
  EXPECT_EQ(SampleRanks(config, {64, 64, 4}), 4u);
  EXPECT_EQ(SampleRanks(config, {64, 64, 64}), 8u);
  EXPECT_EQ(SampleRanks(config, {64, 1, 4}), 1u);
  config.threads = 4;
  EXPECT_EQ(SampleRanks(config, {64, 64, 4}), 2u);  // one would exchange nothing
}

TEST(SampleShape, LeavesFilesAndForeignRanksOut) {
  TrainConfig config = Tiny();
  config.strategy = WEFT_SHARD_HYBRID_SHARD;
  config.shard_group = 4;
  config.offload = "/nowhere";
  config.offload_params = true;
  config.verify_every = 1;
  SampleShape shape = MadeUpSample().shape;
  shape.all_ranks = false;
  const TrainConfig sample = SampleConfig(config, shape, 1, 3);
  EXPECT_EQ(sample.strategy, WEFT_SHARD_FULL_SHARD);
  EXPECT_EQ(sample.offload, "");
  EXPECT_FALSE(sample.offload_params);
  EXPECT_EQ(sample.verify_every, 0u);
  EXPECT_EQ(sample.global_batch, 2u * 3 * 2);
  EXPECT_NO_THROW(CheckConfig(sample, shape.ranks));
}

TEST(StepSample, TimesEveryPart) {
  for (const weft_shard_preset_t strategy : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_FULL_SHARD}) {
    for (const size_t ranks : {1, 3}) {
      TrainConfig config = Tiny();
      config.strategy = strategy;
      config.accumulate = 2;
      config.global_batch = ranks * 4;
      const Placement placement = {ranks, ranks, 2};
      const StepSample sample = SampleSteps(config, placement);
      EXPECT_EQ(sample.shape.ranks, std::min<size_t>(ranks, 2));
      EXPECT_GE(sample.rounds, 2u);
      EXPECT_GT(sample.gemm.mean, 0);
      EXPECT_GE(sample.gemm.peak, sample.gemm.mean);
      EXPECT_GT(sample.step.compute_s, 0);
      EXPECT_GT(sample.step.update_s, 0);
      EXPECT_GE(sample.step.exposed_s, 0);
      EXPECT_GT(sample.twice.compute_s, 0);
      EXPECT_GT(sample.seconds, 0);
      EXPECT_GT(PredictStep(config, placement, sample).Seconds(), 0);
    }
  }
}

TEST(StepSample, SaysWhatFailed) {
  TrainConfig config = Tiny();
  config.model.heads = 3;  // which does not divide the width
  EXPECT_THROW(SampleSteps(config, kTwoOnTwo), BadInput);
}

// The lines of the text that begin with `head`.
std::string LinesOf(const std::string& text, const std::string& head) {
  std::string found;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (line.rfind(head, 0) == 0) found += line + "\n";
    at = end + 1;
  }
  return found;
}

TEST(DescribeDryRun, SaysWhatIsExactAndWhatIsPredicted) {
  TrainConfig config = Tiny();
  config.strategy = WEFT_SHARD_FULL_SHARD;
  const std::string text = DescribeDryRun(config, {.ranks = 3, .price_per_hour = 2.5});
  SCOPED_TRACE(text);
  EXPECT_EQ(LinesOf(text, "model"),
            "model  GPT, 2 layers x 8 wide, 2 heads, 16 tokens of context: 3.9 k parameters\n");
  EXPECT_EQ(LinesOf(text, "plan"),
            "plan   10 steps x 4 sequences (1 or 2 on each rank) = 640 tokens, 0.0 TFLOP, fp32 "
            "products, lr 0.0025, seed 1\n");
  EXPECT_EQ(LinesOf(text, "tokens"),
            "tokens 640 to train on; 20 for each parameter (Chinchilla) would be 78.7 k: 0.813 % "
            "of these\n");
  EXPECT_EQ(LinesOf(text, "work"),
            "work   1.47 MFLOP per step, 14.75 MFLOP in all; by 6ND 15.11 MFLOP, 1.025 of it\n");
  uint64_t least = UINT64_MAX, most = 0, sum = 0;
  for (size_t rank = 0; rank < 3; rank++) {
    least = std::min(least, BytesOf(config, rank, 3));
    most = std::max(most, BytesOf(config, rank, 3));
    sum += BytesOf(config, rank, 3);
  }
  const std::string ranks = LinesOf(text, "ranks");
  EXPECT_NE(ranks.find(FormatBytes(least)), std::string::npos);
  EXPECT_NE(ranks.find(FormatBytes(most)), std::string::npos);
  EXPECT_NE(
      ranks.find("3 on a machine take " + FormatBytes(sum + 3 * ProgramBytes(config.precision))),
      std::string::npos);
  EXPECT_NE(LinesOf(text, "memory").find(DescribeMemory(PlanRun(config, 0, 3))), std::string::npos);
  EXPECT_NE(LinesOf(text, "rate").find("measured: "), std::string::npos);
  EXPECT_NE(LinesOf(text, "time").find("predicted: "), std::string::npos);
  EXPECT_NE(LinesOf(text, "run").find("predicted: "), std::string::npos);
  EXPECT_NE(LinesOf(text, "cost").find(" x 2.5 = "), std::string::npos);
  EXPECT_NE(LinesOf(text, "basis").find("of this model, on "), std::string::npos);
  EXPECT_EQ(text.find("links between machines"), std::string::npos);
}

TEST(DescribeDryRun, ClaimsNothingOfLinksThatItCannotMeasure) {
  TrainConfig config = Tiny();
  const std::string text = DescribeDryRun(config, {.ranks = 4, .ranks_per_machine = 1});
  SCOPED_TRACE(text);
  EXPECT_NE(text.find("links between machines are not known here"), std::string::npos);
  EXPECT_NE(text.find("0 us exposed communication"), std::string::npos);
  EXPECT_NE(LinesOf(text, "cost").find("no price was given"), std::string::npos);
}

TEST(DescribeDryRun, PlansForAnyNumberOfRanks) {
  TrainConfig config = Tiny();
  config.model.seq = 256;
  config.global_batch = kBatchMax;
  const std::string text = DescribeDryRun(config, {.ranks = kRanksMax});  // half a terabyte
  SCOPED_TRACE(text);
  EXPECT_NE(text.find("they do NOT fit: a machine like this has room for "), std::string::npos);
  EXPECT_NE(LinesOf(text, "ranks").find(", of 256 that were looked at"), std::string::npos);
}

TEST(DescribeDryRun, RefusesWhatCannotBe) {
  const TrainConfig config = Tiny();
  EXPECT_THROW(DescribeDryRun(config, {.ranks = 0}), BadInput);
  EXPECT_THROW(DescribeDryRun(config, {.ranks = kRanksMax + 1}), BadInput);
  for (const double price :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(DescribeDryRun(config, {.ranks = 2, .price_per_hour = price}), BadInput) << price;
  }
  EXPECT_THROW(DescribeDryRun(config, {.ranks = 5}), BadInput);  // 4 sequences are too few
}

size_t EntriesOf(const char* directory) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory))
    count++;
  return count;
}

size_t SharedMappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:") != std::string::npos;
  return count;
}

// A thread that was joined may be listed for a moment longer.
void ExpectEntries(const char* directory, size_t expected) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (EntriesOf(directory) != expected && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(EntriesOf(directory), expected) << directory;
}

TEST(DescribeDryRun, LeavesNothingBehind) {
  const TrainConfig config = Tiny();
  DescribeDryRun(config, {.ranks = 2});  // what libraries keep for good
  const size_t threads = EntriesOf("/proc/self/task");
  const size_t files = EntriesOf("/proc/self/fd");
  const size_t mappings = SharedMappings();
  const auto taken = [] {
    const struct mallinfo2 info = mallinfo2();
    return double(info.uordblks + info.hblkhd);
  };
  const double bytes = taken();
  for (int i = 0; i < 3; i++)
    DescribeDryRun(config, {.ranks = 2});
  ExpectEntries("/proc/self/task", threads);
  ExpectEntries("/proc/self/fd", files);
  EXPECT_EQ(SharedMappings(), mappings);
#ifndef WEFT_SANITIZE  // whose allocators mallinfo2 does not know
  EXPECT_LT(taken() - bytes, 100e3);
#endif
}

TEST(FormatSeconds, SuitsTheirSize) {
  EXPECT_EQ(FormatSeconds(0), "0 us");
  EXPECT_EQ(FormatSeconds(0.0000625), "62 us");
  EXPECT_EQ(FormatSeconds(0.03812), "38.12 ms");
  EXPECT_EQ(FormatSeconds(0.3812), "381.2 ms");
  EXPECT_EQ(FormatSeconds(9.5), "9.50 s");
  EXPECT_EQ(FormatSeconds(100), "100.0 s");
  EXPECT_EQ(FormatSeconds(200), "3 min 20 s");
  EXPECT_EQ(FormatSeconds(7500), "2 h 05 min");
  EXPECT_EQ(FormatSeconds(86400 * 12.0 + 4 * 3600), "12 days 4 h");
}

}  // namespace
}  // namespace weft::trainer::dry_run_test
