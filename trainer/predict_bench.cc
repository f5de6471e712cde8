// How far predictions of --dry-run are from what steps take, in one run.
//
//   build/release/bin/weftrun -n 2 build/release/bench/predict_bench [BLOCKS]
//
// A block is, for each shape and strategy in turn, a prediction by rank 0 while the others wait, and right after it steps of the whole
// model by all ranks. Rank 0 prints a table of medians over the blocks, and the median and the range of predicted / measured in a block.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "weft/weft.hpp"

#include "base/standard_fds.h"
#include "trainer/parallel.h"
#include "trainer/step_prediction.h"
#include "trainer/train.h"

namespace weft::trainer {
namespace {

using Steady = std::chrono::steady_clock;

constexpr double kMeasuredSeconds = 1.5;
constexpr size_t kWarmUp = 3, kStepsLeast = 5;

struct Shape {
  size_t width, layers, heads, seq, batch;  // batch: of each rank
};

constexpr Shape kShapes[] = {{64, 2, 4, 64, 4},   {64, 6, 4, 128, 8},  {128, 5, 4, 128, 2},
                             {192, 4, 6, 256, 2}, {256, 6, 4, 128, 4}, {384, 6, 6, 256, 4}};
constexpr weft_shard_preset_t kStrategies[] = {WEFT_SHARD_NO_SHARD, WEFT_SHARD_FULL_SHARD};

struct Case {
  Shape shape;
  TrainConfig config;
  std::vector<double> predicted, measured;
};

double Middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<Case> MakeCases(size_t ranks) {
  std::vector<Case> cases;
  for (const Shape& shape : kShapes) {
    for (const weft_shard_preset_t strategy : kStrategies) {
      if (ranks == 1 && strategy != WEFT_SHARD_NO_SHARD) continue;
      TrainConfig config;
      config.model.width = shape.width;
      config.model.layers = shape.layers;
      config.model.heads = shape.heads;
      config.model.seq = shape.seq;
      config.global_batch = shape.batch * ranks;
      config.strategy = strategy;
      config.check_samples = 0;
      cases.push_back({shape, config, {}, {}});
    }
  }
  return cases;
}

double Predict(const TrainConfig& config, size_t ranks) {
  const Placement placement = {ranks, ranks, std::max(1u, std::thread::hardware_concurrency())};
  return PredictStep(config, placement, SampleSteps(config, placement)).Seconds();
}

bool Agree(bool value, weft_group_t group) {
  Check(weft_broadcast(&value, &value, sizeof value, WEFT_UINT8, 0, group, nullptr, nullptr),
        "agreeing");
  return value;
}

double Measure(const TrainConfig& config, const TrainingText& text, weft_group_t group) {
  Trainer trainer(config, text, group);
  trainer.Begin();
  size_t step = 0;
  for (; step < kWarmUp; ++step)
    trainer.Step(step);
  std::vector<double> seconds;
  const auto start = Steady::now();
  for (bool more = true; more; ++step) {
    seconds.push_back(trainer.Step(step).seconds);
    const double elapsed = std::chrono::duration<double>(Steady::now() - start).count();
    more = Agree(seconds.size() < kStepsLeast || elapsed < kMeasuredSeconds, group);
  }
  return Middle(seconds);
}

void Print(const std::vector<Case>& cases, size_t ranks, int blocks) {
  std::printf("%zu rank%s, %d blocks\n", ranks, ranks == 1 ? "" : "s", blocks);
  std::printf("width layers seq batch strategy    predicted ms  measured ms  ratio  range\n");
  for (const Case& c : cases) {
    std::vector<double> ratios;
    for (size_t i = 0; i < c.measured.size(); ++i)
      ratios.push_back(c.predicted[i] / c.measured[i]);
    const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
    std::printf("%5zu %6zu %3zu %5zu %-11s %12.2f %12.2f %6.3f  %.2f to %.2f\n", c.shape.width,
                c.shape.layers, c.shape.seq, c.shape.batch,
                weft_shard_preset_name(c.config.strategy), Middle(c.predicted) * 1e3,
                Middle(c.measured) * 1e3, Middle(ratios), *least, *most);
  }
}

void Run(int blocks) {
  const weft::Group group = weft::Group::FromEnvironment();
  const auto ranks = static_cast<size_t>(group.Size());
  const TrainingText text = AnyLetters(100'000, 4096);
  std::vector<Case> cases = MakeCases(ranks);
  for (int block = 0; block < blocks; ++block) {
    for (Case& c : cases) {
      if (group.Rank() == 0) c.predicted.push_back(Predict(c.config, ranks));
      Agree(true, group.get());
      c.measured.push_back(Measure(c.config, text, group.get()));
    }
  }
  if (group.Rank() == 0) Print(cases, ranks, blocks);
}

}  // namespace
}  // namespace weft::trainer

int main(int argc, char** argv) {
  weft::HoldStandardFds();
  try {
    weft::trainer::Run(argc > 1 ? std::atoi(argv[1]) : 3);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "predict_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
