// How much of a run is tried out to predict its steps: the same width, positions, batch, strategy and threads with few layers, so that it
// fits into about two seconds and little memory.
//
//   const Placement placement = {ranks, ranks_per_machine, cores};
//   const std::optional<SampleShape> shape = ChooseSampleShape(config, placement, flops_per_s, free_bytes);
//   Trainer trainer(SampleConfig(config, *shape, shape->layers, 1), corpus, group);
//
// Thread-safety: values and pure functions.
#ifndef WEFT_TRAINER_SAMPLE_SHAPE_H_
#define WEFT_TRAINER_SAMPLE_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "trainer/config.h"

namespace weft::trainer {

// Where the ranks of a run are.
struct Placement {
  size_t ranks = 1;
  size_t ranks_per_machine = 1;
  size_t cores = 1;  // of each machine

  bool OneMachine() const { return ranks_per_machine >= ranks; }

  // Threads of `local_ranks` for each core, at least 1: so many times slower is each of them than alone.
  double Sharing(size_t local_ranks, int threads) const;
};

struct SampleShape {
  size_t ranks = 1;         // at once, threads of one process
  bool all_ranks = true;    // the run has no more
  size_t layers = 1;        // of the larger model
  size_t fewer_layers = 0;  // of the smaller one; 0: the larger one alone tells
  size_t sequences = 1;     // of a micro-batch
  size_t seq = 1;           // positions of one
};

// How many ranks are tried out: as many as have cores, at least two if a machine has several, at most eight.
size_t SampleRanks(const TrainConfig& config, const Placement& placement);

// `flops_per_s`: of each of SampleRanks at once, in products. Nothing if one layer takes too much of `free_bytes`, or 3 GB.
std::optional<SampleShape> ChooseSampleShape(const TrainConfig& config, const Placement& placement,
                                             double flops_per_s, uint64_t free_bytes);

// Of a model with so many layers, in steps of so many micro-batches. Files of offloaded state, comparisons between ranks and what else is
// no part of each step are left out. A strategy that these ranks cannot have is full sharding.
TrainConfig SampleConfig(const TrainConfig& config, const SampleShape& shape, size_t layers,
                         size_t microbatches);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_SAMPLE_SHAPE_H_
