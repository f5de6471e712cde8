// The optimizer of a context: its state on this rank's parts, and the update of these.
//
//   WEFT_ASSIGN_OR_RETURN(auto store, ResidentState::Allocate(groups, registry, layout));
//   WEFT_ASSIGN_OR_RETURN(auto optimizer, ShardOptimizer::Make(config, groups, registry, layout, isa, std::move(store)));
//   GradientSums sums = optimizer->SumGradients(storage);     // of this rank's share; add over ranks
//   optimizer->Begin(learning_rate, gradient_factor);
//   WEFT_ASSIGN_OR_RETURN(std::vector<int64_t> words, optimizer->StartNorms(storage));      // LAMB, LARS; add over ranks
//   optimizer->TakeNorms(words);
//   for (extents) WEFT_RETURN_IF_ERROR(optimizer->Update(storage, extent));
//   WEFT_RETURN_IF_ERROR(optimizer->End());
//
// The state lies beside what a reduction leaves on this rank (optimizer_state.h), and updates go through its windows (state_store.h).
// They go over ranges of params that lie side by side, are of one group and decay alike; padding is updated too, and stays zero. LAMB and
// LARS go param by param, as they need norms of whole params.
//
// Every number that ranks add up is an exact sum, so nothing depends on how params are cut, nor on which of the
// config's threads did what: sums and updates go over pieces (piece.h) that a team shares (thread_team.h).
//
// Thread-safety: one thread at a time, which the team's threads help. They are started in Make and joined in the
// destructor. Communicates with nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/layout/block.h"
#include "shard/layout/layout.h"
#include "shard/layout/storage.h"
#include "shard/optimizer/exact_sum.h"
#include "shard/optimizer/gradient_sums.h"
#include "shard/optimizer/kept_state.h"
#include "shard/optimizer/loss_scale.h"
#include "shard/optimizer/optimizer_config.h"
#include "shard/optimizer/optimizer_kernels.h"
#include "shard/optimizer/param_groups.h"
#include "shard/optimizer/piece.h"
#include "shard/optimizer/state_store.h"
#include "shard/optimizer/thread_team.h"

namespace weft {

class ShardOptimizer {
 public:
  // Registry and layout outlive it. `store` is of the same groups. UNSUPPORTED as CheckUpdatable, OUT_OF_MEMORY, SYSTEM_ERROR if
  // there are no threads to be had.
  static absl::StatusOr<std::unique_ptr<ShardOptimizer>> Make(
      const OptimizerConfig& config, const std::vector<OptimizerGroup>& groups,
      const Registry& registry, const Layout& layout, Isa isa, std::unique_ptr<StateStore> store,
      const BlockSource& source = {});

  // Of memory.
  size_t bytes() const { return kept_.bytes() + scratch_.bytes(); }

  // What it keeps from update to update.
  KeptState& kept() { return kept_; }

  const std::vector<OptimizerGroup>& groups() const { return groups_; }

  // A hash of them all.
  uint64_t groups_mark() const { return groups_mark_; }

  // Other numbers, from the next update on; a kind with the same state (CheckSameState).
  void SetGroup(int group, const OptimizerGroup& numbers);

  LossScale& loss_scale() { return loss_scale_; }

  int64_t update_count() const { return update_count_; }

  void SetUpdateCount(int64_t count) { update_count_ = count; }

  GradientSums SumGradients(const Storage& storage) const { return summer_.Sum(storage, *team_); }

  // Begins an update. `gradient_factor`: what every gradient is multiplied by.
  void Begin(double learning_rate, double gradient_factor);
  // The norms of whole params that the update needs, as words to be added over ranks; none for most kinds. All ranks have as
  // many. Errors, here and below, are the store's: the state is then of no use.
  absl::StatusOr<std::vector<int64_t>> StartNorms(const Storage& storage);
  void TakeNorms(const std::vector<int64_t>& words);
  // Updates this rank's part of an extent whose params are trainable. Of params of kind OWN the gradients are multiplied. Extents go in
  // the order of UpdateOrder(), or the store reads ahead in vain.
  absl::Status Update(const Storage& storage, int extent);
  // All were updated.
  absl::Status End();

 private:
  // Elements of an extent that are updated alike.
  struct UpdateRange {
    int extent = 0;
    int param = 0;     // the first
    size_t begin = 0;  // element in the space
    size_t count = 0;
    bool decays = true;
    int group = 0;
  };

  // What is updated of an extent in one visit of a window.
  struct Visit {
    StateWindow window;
    size_t first_piece = 0;  // of pieces_
    size_t piece_count = 0;
    std::vector<UpdateRange> matrices;  // MUON's, whole
    bool normed = false;                // has pieces whose norms are needed
    bool norms_change = false;          // and finding these changes the state
    bool updates_change = false;  // the update changes the state, and not only params and gradients
  };

  // Of an extent whose params are trainable.
  struct Updates {
    bool counts = true;  // this rank adds its sums; else another one has the same
    std::vector<Visit> visits;
  };

  ShardOptimizer(const OptimizerConfig& config, const std::vector<OptimizerGroup>& groups,
                 const Registry& registry, const Layout& layout, Isa isa,
                 std::unique_ptr<StateStore> store);

  const OptimizerGroup& GroupOfParam(int param) const {
    return groups_[static_cast<size_t>(registry_.params()[static_cast<size_t>(param)].group)];
  }

  // What follows from the kinds of the groups: pieces, and whose norms are needed.
  void Arrange();
  std::vector<UpdateRange> RangesOf(const std::vector<int>& params) const;
  // Where its reduced gradients are.
  std::byte* GradientsOf(const Storage& storage, const UpdateRange& range) const;
  OptimizerArrays ArraysOf(const Storage& storage, const UpdateRange& range) const;
  // What is updated of the params of an extent in that window; adds their pieces.
  Visit VisitOf(const StateWindow& window, const std::vector<UpdateRange>& ranges,
                const std::vector<int>& params);
  // The windows of all visits that `counts`, in the order in which they come.
  std::vector<int> WindowsOfVisits(absl::FunctionRef<bool(const Visit& visit)> counts) const;
  // Tells the store which windows an update will visit.
  void ExpectUpdate();
  // Opens the window of a visit, with main copies that are as their params.
  absl::Status Open(const Storage& storage, int extent, const Visit& visit, bool changes);
  void AddNorms(const Storage& storage, const Visit& visit, bool counts,
                std::vector<LambSums>& sums) const;
  LambSums NormsOf(const OptimizerArrays& arrays, const UpdateRange& range) const;
  void UpdatePiece(const Storage& storage, const UpdateRange& range) const;
  void UpdateMatrix(const Storage& storage, const UpdateRange& range) const;

  std::vector<OptimizerGroup> groups_;
  uint64_t groups_mark_ = 0;
  const Registry& registry_;
  const Layout& layout_;
  const Isa isa_;
  const MatrixProduct product_;
  LossScale loss_scale_;
  KeptState kept_;
  Block scratch_;                    // MUON's
  std::vector<int> order_;           // of extents, in which they are updated
  std::vector<Updates> updates_;     // by extent
  std::vector<UpdateRange> pieces_;  // what is updated, cut for threads; by visit
  const GradientSummer summer_;
  std::unique_ptr<ThreadTeam> team_;
  int64_t update_count_ = 0;
  double learning_rate_ = 0;  // of the update that was begun
  double factor_ = 1;
  std::vector<int> normed_;     // params whose norms are needed
  std::vector<int> normed_at_;  // by param: its place there, or -1
  std::vector<double> ratios_;  // LAMB, LARS: by param
};

}  // namespace weft
