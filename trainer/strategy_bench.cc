// Step times of the reference trainer under several strategies, interleaved in one run.
//
//   build/release/bin/weftrun -n 2 build/release/bench/strategy_bench [BLOCKS] [LAYERS] [WIDTH] [BATCH]
//
// A trainer per strategy, all with the same data and seed, so they do the same arithmetic. A block is one step
// of each, in an order that rotates; a strategy's ratio in a block is its step's seconds over ddp's there.
// Rank 0 prints JSON: medians, and the 95 % interval of the median ratio by order statistics of the blocks.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "weft/weft.hpp"

#include "base/standard_fds.h"
#include "trainer/corpus.h"
#include "trainer/strategy.h"
#include "trainer/train.h"

namespace {

constexpr weft_shard_preset_t kStrategies[] = {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1,
                                               WEFT_SHARD_ZERO2, WEFT_SHARD_GRAD_OP,
                                               WEFT_SHARD_FULL_SHARD};
constexpr size_t kCount = std::size(kStrategies);

double At(std::vector<double> values, double quantile) {
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  return values[static_cast<size_t>(std::lround(std::clamp(quantile, 0.0, 1.0) * last))];
}

void Run(int blocks, const weft::trainer::ModelConfig& model, size_t batch) {
  weft::Group group = weft::Group::FromEnvironment();
  const weft::trainer::TrainingText text = weft::trainer::AnyLetters(100'000, 4096);
  std::vector<std::unique_ptr<weft::trainer::Trainer>> trainers;
  for (const weft_shard_preset_t strategy : kStrategies) {
    weft::trainer::TrainConfig config;
    config.model = model;
    config.global_batch = batch * static_cast<size_t>(group.Size());
    config.strategy = strategy;
    trainers.push_back(std::make_unique<weft::trainer::Trainer>(config, text, group.get()));
    trainers.back()->Begin();
  }
  constexpr int kWarmUp = 3;
  std::vector<std::vector<double>> seconds(kCount);
  std::vector<std::vector<double>> exposed(kCount);
  double loss = 0;
  for (int block = 0; block < blocks + kWarmUp; ++block) {
    for (size_t i = 0; i < kCount; ++i) {
      const size_t which = (i + static_cast<size_t>(block)) % kCount;
      const weft::trainer::StepRecord record = trainers[which]->Step(static_cast<size_t>(block));
      if (i == 0) loss = record.loss;
      if (record.loss != loss) throw std::runtime_error("strategies differ in their loss");
      if (block < kWarmUp) continue;
      seconds[which].push_back(record.seconds);
      exposed[which].push_back(record.comm_exposed_s);
    }
  }
  if (group.Rank() != 0) return;
  std::printf(
      "{\n  \"ranks\": %d, \"layers\": %zu, \"width\": %zu, \"batch\": %zu, \"seq\": %zu,\n",
      group.Size(), model.layers, model.width, batch, model.seq);
  std::printf("  \"parameters\": %zu, \"blocks\": %d, \"loss\": %.9g,\n",
              trainers[0]->parameter_count(), blocks, loss);
  for (size_t i = 0; i < kCount; ++i) {
    std::vector<double> ratios;
    for (size_t block = 0; block < seconds[i].size(); ++block)
      ratios.push_back(seconds[i][block] / seconds[0][block]);
    const double spread = 0.98 / std::sqrt(static_cast<double>(blocks));
    std::printf(
        "  \"%s\": {\"seconds\": %.4f, \"exposed_s\": %.4f, \"of_ddp\": %.4f, "
        "\"interval\": [%.4f, %.4f]}%s\n",
        weft_shard_preset_name(kStrategies[i]), At(seconds[i], 0.5), At(exposed[i], 0.5),
        At(ratios, 0.5), At(ratios, 0.5 - spread), At(ratios, 0.5 + spread),
        i + 1 < kCount ? "," : "\n}");
  }
}

}  // namespace

int main(int argc, char** argv) {
  weft::HoldStandardFds();
  const auto number = [&](int index, int fallback) {
    return argc > index ? std::atoi(argv[index]) : fallback;
  };
  weft::trainer::ModelConfig model;
  model.layers = static_cast<size_t>(number(2, 6));
  model.width = static_cast<size_t>(number(3, 384));
  model.heads = 6;
  try {
    Run(number(1, 24), model, static_cast<size_t>(number(4, 4)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "strategy_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
