#include "trainer/batch.h"

#include <algorithm>

#include <fmt/core.h>

#include "trainer/config.h"
#include "trainer/failure.h"
#include "trainer/optimizer_setup.h"

namespace weft::trainer {
namespace {

constexpr size_t kDefaultBatch = 4;

const char* Plural(size_t count, const char* more) {
  return count == 1 ? "" : more;
}

[[noreturn]] void RefuseContradiction(const TrainConfig& config, size_t ranks) {
  const size_t turn = config.micro_batch * ranks;  // sequences of one micro-batch of all ranks
  const size_t micro_batches = std::max<size_t>(1, (config.global_batch + turn / 2) / turn);
  throw BadInput(fmt::format(
      "--batch {} is not --micro-batch {} x --accumulate {} x {} rank{} = {}; the nearest that "
      "fits "
      "is --batch {} with --accumulate {}",
      config.global_batch, config.micro_batch, config.accumulate, ranks, Plural(ranks, "s"),
      turn * config.accumulate, turn * micro_batches, micro_batches));
}

}  // namespace

TrainConfig WithDefaults(const TrainConfig& config, size_t ranks) {
  TrainConfig resolved = config;
  size_t &batch = resolved.global_batch, &accumulate = resolved.accumulate;
  const size_t turn = config.micro_batch * ranks;
  if (accumulate == 0)
    accumulate = turn > 0 && batch >= turn && batch % turn == 0 ? batch / turn : 1;
  if (batch == 0)
    batch = turn > 0 ? turn * accumulate : std::max(kDefaultBatch, ranks * accumulate);
  ChooseOptimizerNumbers(resolved);
  resolved.model = WithModelDefaults(resolved.model);
  return resolved;
}

void CheckBatch(const TrainConfig& config, size_t ranks) {
  if (config.micro_batch != 0 &&
      config.micro_batch * config.accumulate * ranks != config.global_batch) {
    RefuseContradiction(config, ranks);
  }
  const size_t pieces = ranks * config.accumulate;
  if (config.global_batch >= pieces) return;
  throw BadInput(fmt::format(
      "--batch {} is too small for {} rank{} x {} micro-batch{}: each needs a sequence; use {} or "
      "more",
      config.global_batch, ranks, Plural(ranks, "s"), config.accumulate,
      Plural(config.accumulate, "es"), pieces));
}

size_t LargestMicroBatch(const TrainConfig& config, size_t ranks) {
  const size_t pieces = ranks * config.accumulate;
  return (config.global_batch + pieces - 1) / pieces;
}

std::string DescribeShares(const TrainConfig& config, size_t ranks) {
  const size_t fewest = config.global_batch / ranks;
  if (config.global_batch % ranks == 0) return fmt::format("{} on each rank", fewest);
  return fmt::format("{} or {} on each rank", fewest, fewest + 1);
}

}  // namespace weft::trainer
