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
// Every number that ranks add up is an exact sum, so nothing depends on how params are cut, nor on which of the
// config's threads did what: sums and updates go over pieces (piece.h) that a team shares (thread_team.h).
//
// Thread-safety: one thread at a time, which the team's threads help. They are started in Allocate and joined in the
// destructor. Communicates with nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/checks/digest.h"
#include "shard/layout/layout.h"
#include "shard/layout/storage.h"
#include "shard/optimizer/exact_sum.h"
#include "shard/optimizer/loss_scale.h"
#include "shard/optimizer/optimizer_config.h"
#include "shard/optimizer/optimizer_kernels.h"
#include "shard/optimizer/piece.h"
#include "shard/optimizer/thread_team.h"

namespace weft {

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
  // All but config and source outlive it. UNSUPPORTED for trainable float64 params, OUT_OF_MEMORY, SYSTEM_ERROR if
  // there are no threads to be had.
  static absl::StatusOr<std::unique_ptr<ShardOptimizer>> Allocate(const OptimizerConfig& config,
                                                                  const Registry& registry,
                                                                  const Layout& layout, Isa isa,
                                                                  const BlockSource& source = {});

  size_t bytes() const;

  // Of what is kept for the param on this rank; a main copy that is to be made anew does not count.
  Digest DigestOf(int param) const;

  LossScale& loss_scale() { return loss_scale_; }

  int64_t update_count() const { return update_count_; }

  // The param was written by somebody else, or all were: its main copy is made from it before the next update. Those of others
  // are more than their params say, and stay.
  void ParamWritten(int param) { main_stale_[static_cast<size_t>(param)] = true; }

  void ParamsWritten() { main_stale_.assign(main_stale_.size(), true); }

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
    int extent = 0;
    int param = 0;     // the first
    size_t begin = 0;  // element in the space
    size_t count = 0;
    bool decays = true;
  };

  struct SumPiece {
    int extent = 0;
    Piece piece;
  };

  struct State {
    size_t first = 0;  // element in the space of the first one
    size_t count = 0;
    bool counts = true;  // this rank adds its sums; else another one has the same
    Block main;          // [count] float32 each; empty if not needed
    Block first_moment;
    Block second_moment;
    size_t first_piece = 0;  // of pieces_
    size_t piece_count = 0;
  };

  ShardOptimizer(const OptimizerConfig& config, const Registry& registry, const Layout& layout,
                 Isa isa);

  bool NeedsNorms() const {
    return config_.kind == WEFT_OPTIMIZER_LAMB || config_.kind == WEFT_OPTIMIZER_LARS;
  }

  // `params`: those of the extent.
  absl::Status AllocateExtent(int extent, const std::vector<int>& params,
                              const BlockSource& source);
  std::vector<Run> RunsOf(const std::vector<int>& params, const State& state) const;
  void AddPieces(const std::vector<int>& params, State& state);
  void AddSumPieces();
  OptimizerArrays ArraysOf(const Storage& storage, const Run& run) const;
  // The elements of a param of which this rank keeps a state.
  Run KeptOf(int param) const;
  void WidenParam(const Storage& storage, int param);
  LambSums NormsOf(const OptimizerArrays& arrays, const Run& run) const;
  void UpdateRun(const OptimizerArrays& arrays, const Run& run) const;

  const OptimizerConfig config_;
  const Registry& registry_;
  const Layout& layout_;
  const Isa isa_;
  LossScale loss_scale_;
  std::vector<State> states_;         // by extent; count 0 for frozen ones
  std::vector<Run> pieces_;           // what is updated, cut for threads; by extent
  std::vector<SumPiece> sum_pieces_;  // what the gradient norm is made of
  std::unique_ptr<ThreadTeam> team_;
  int64_t update_count_ = 0;
  std::vector<bool> main_stale_;  // by param
  double learning_rate_ = 0;      // of the update that was begun
  double factor_ = 1;
  std::vector<double> ratios_;  // LAMB, LARS: by param
};

}  // namespace weft
