// The optimizer of a context: its state on this rank's parts, and the update of these.
//
//   WEFT_ASSIGN_OR_RETURN(auto optimizer, ShardOptimizer::Allocate(config, registry, layout, isa));
//   GradientSums sums = optimizer->SumGradients(storage);     // of this rank's share; add over ranks
//   optimizer->Begin(learning_rate, gradient_factor);
//   std::vector<int64_t> words = optimizer->StartNorms(storage);      // LAMB, LARS; add over ranks
//   optimizer->TakeNorms(words);
//   for (extents) optimizer->Update(storage, extent);
//
// The state lies beside what a reduction leaves on this rank: moments in float32, and a float32 main copy of
// params of 16 bits. Updates go over runs of params that lie side by side and decay alike; padding is
// updated too, and stays zero. LAMB and LARS go param by param, as they need norms of whole params.
//
// Every number that ranks add up is an exact sum, so nothing depends on how params are cut.
//
// Thread-safety: one thread at a time. Communicates with nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/digest.h"
#include "shard/exact_sum.h"
#include "shard/layout.h"
#include "shard/loss_scale.h"
#include "shard/optimizer_kernels.h"
#include "shard/optimizer_step.h"
#include "shard/storage.h"

namespace weft {

struct OptimizerConfig {
  weft_optimizer_kind_t kind = WEFT_OPTIMIZER_ADAMW;
  AdamWOptions adamw;  // the options of `kind` count
  SgdOptions sgd;
  LionOptions lion;
  LambOptions lamb;
  LarsOptions lars;
  bool dynamic_scale = false;
  double static_scale = 1;
  LossScaleOptions scale;
};

// One line for comparing ranks.
std::string OptimizerText(const OptimizerConfig& config);

// What is kept for the elements of an extent that this rank updates, whose params are trainable.
struct StateSize {
  size_t first = 0;  // element in the space
  size_t count = 0;
  bool main = false;  // a main copy
  int moments = 0;

  size_t bytes() const {
    return ((main ? 1 : 0) + static_cast<size_t>(moments)) * count * sizeof(float);
  }
};

StateSize StateSizeOf(const OptimizerConfig& config, const Layout& layout, const Extent& extent);

// Of all extents.
size_t StateBytes(const OptimizerConfig& config, const Layout& layout);

// UNSUPPORTED for trainable float64 params.
absl::Status CheckUpdatable(const Registry& registry);

struct GradientSums {
  ExactSum squares;
  int64_t nonfinite = 0;
};

class ShardOptimizer {
 public:
  // All but config and source outlive it. UNSUPPORTED for trainable float64 params, OUT_OF_MEMORY.
  static absl::StatusOr<std::unique_ptr<ShardOptimizer>> Allocate(const OptimizerConfig& config,
                                                                  const Registry& registry,
                                                                  const Layout& layout, Isa isa,
                                                                  const BlockSource& source = {});

  size_t bytes() const;

  // Of what is kept for the param at `place` on this rank; main copies that are to be made anew do not count.
  Digest DigestOf(const Place& place, size_t count) const;

  LossScale& loss_scale() { return loss_scale_; }

  int64_t update_count() const { return update_count_; }

  // The params were written by somebody else: main copies are made from them before the next update.
  void ParamsWritten() { main_stale_ = true; }

  // Of the share of every reduced gradient that this rank has in a cut, also where nothing rests cut.
  GradientSums SumGradients(const Storage& storage) const;

  // Begins an update. `gradient_factor`: what every gradient is multiplied by.
  void Begin(const Storage& storage, double learning_rate, double gradient_factor);
  // The norms of whole params that the update needs, as words to be added over ranks; none for most kinds.
  std::vector<int64_t> StartNorms(const Storage& storage);
  void TakeNorms(const std::vector<int64_t>& words);
  // Updates this rank's part of an extent whose params are trainable.
  void Update(const Storage& storage, int extent);

 private:
  // Elements of an extent that are updated alike.
  struct Run {
    int param = 0;     // the first
    size_t begin = 0;  // element in the space
    size_t count = 0;
    bool decays = true;
  };

  struct State {
    size_t first = 0;  // element in the space of the first one
    size_t count = 0;
    bool counts = true;  // this rank adds its sums; else another one has the same
    Block main;          // [count] float32 each; empty if not needed
    Block first_moment;
    Block second_moment;
    std::vector<Run> runs;
  };

  ShardOptimizer(const OptimizerConfig& config, const Registry& registry, const Layout& layout,
                 Isa isa);

  bool NeedsNorms() const {
    return config_.kind == WEFT_OPTIMIZER_LAMB || config_.kind == WEFT_OPTIMIZER_LARS;
  }

  absl::Status AllocateExtent(int extent, const BlockSource& source);
  void AddRuns(int extent, State& state) const;
  OptimizerArrays ArraysOf(const Storage& storage, int extent, const Run& run) const;
  void WidenParams(const Storage& storage, int extent);
  void UpdateRun(const OptimizerArrays& arrays, const Run& run) const;

  const OptimizerConfig config_;
  const Registry& registry_;
  const Layout& layout_;
  const Isa isa_;
  LossScale loss_scale_;
  std::vector<State> states_;  // by extent; count 0 for frozen ones
  int64_t update_count_ = 0;
  bool main_stale_ = true;
  double learning_rate_ = 0;  // of the update that was begun
  double factor_ = 1;
  std::vector<double> ratios_;  // LAMB, LARS: by param
};

}  // namespace weft
