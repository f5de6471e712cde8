// The optimizer of a context: its state on this rank's parts, and the update of these.
//
//   WEFT_ASSIGN_OR_RETURN(auto optimizer, ShardOptimizer::Allocate(config, groups, registry, layout, isa));
//   GradientSums sums = optimizer->SumGradients(storage);     // of this rank's share; add over ranks
//   optimizer->Begin(learning_rate, gradient_factor);
//   std::vector<int64_t> words = optimizer->StartNorms(storage);      // LAMB, LARS; add over ranks
//   optimizer->TakeNorms(words);
//   for (extents) optimizer->Update(storage, extent);
//
// The state lies beside what a reduction leaves on this rank (optimizer_state.h). Updates go over ranges of params that lie side by
// side, are of one group and decay alike; padding is updated too, and stays zero. LAMB and LARS go param by param, as they
// need norms of whole params.
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
#include "shard/optimizer/gradient_sums.h"
#include "shard/optimizer/loss_scale.h"
#include "shard/optimizer/optimizer_config.h"
#include "shard/optimizer/optimizer_kernels.h"
#include "shard/optimizer/optimizer_state.h"
#include "shard/optimizer/param_groups.h"
#include "shard/optimizer/piece.h"
#include "shard/optimizer/thread_team.h"

namespace weft {

class ShardOptimizer {
 public:
  // Registry and layout outlive it. UNSUPPORTED as CheckUpdatable, OUT_OF_MEMORY, SYSTEM_ERROR if
  // there are no threads to be had.
  static absl::StatusOr<std::unique_ptr<ShardOptimizer>> Allocate(
      const OptimizerConfig& config, const std::vector<OptimizerGroup>& groups,
      const Registry& registry, const Layout& layout, Isa isa, const BlockSource& source = {});

  size_t bytes() const { return state_.bytes(); }

  const std::vector<OptimizerGroup>& groups() const { return groups_; }

  // A hash of them all.
  uint64_t groups_mark() const { return groups_mark_; }

  // Other numbers, from the next update on; a kind with the same state (CheckSameState).
  void SetGroup(int group, const OptimizerGroup& numbers);

  // Covers what this rank keeps for the param; a main copy that is to be made anew does not count.
  Digest DigestOf(int param) const;

  LossScale& loss_scale() { return loss_scale_; }

  int64_t update_count() const { return update_count_; }

  void SetUpdateCount(int64_t count) { update_count_ = count; }

  // What this rank keeps for a param beside its values: [count] each, from element `begin` of it; nullptr where there is no
  // such state.
  struct Kept {
    size_t begin = 0;
    size_t count = 0;
    float* main = nullptr;
    float* first_moment = nullptr;
    float* second_moment = nullptr;
  };

  Kept StateOf(const Storage& storage, int param) const;
  // Somebody is told where its main copy is, to read or to write it: it is made from the param if that has not been done.
  void TellMain(const Storage& storage, int param);

  // Whether there is a state of that kind for the param, on this rank or on others.
  bool KeepsMain(int param) const;
  int MomentsOf(int param) const;

  // The param was written by somebody else, or all were: its main copy is made from it before the next update. Those of others
  // are more than their params say, and stay.
  void ParamWritten(int param);
  void ParamsWritten();
  // The main copies were written too, by whoever was told where they are: they count. One that nobody was ever told of is
  // still made from its param.
  void MainsWritten();

  GradientSums SumGradients(const Storage& storage) const { return summer_.Sum(storage, *team_); }

  // Begins an update. `gradient_factor`: what every gradient is multiplied by.
  void Begin(const Storage& storage, double learning_rate, double gradient_factor);
  // The norms of whole params that the update needs, as words to be added over ranks; none for most kinds. All ranks have as
  // many.
  std::vector<int64_t> StartNorms(const Storage& storage);
  void TakeNorms(const std::vector<int64_t>& words);
  // Updates this rank's part of an extent whose params are trainable. Of params of kind OWN the gradients are multiplied.
  void Update(const Storage& storage, int extent);

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

  // Of an extent whose params are trainable.
  struct Updates {
    bool counts = true;      // this rank adds its sums; else another one has the same
    size_t first_piece = 0;  // of pieces_
    size_t piece_count = 0;
    std::vector<UpdateRange> matrices;  // MUON's, whole
  };

  // Of a param that has none nothing is looked at.
  struct MainCopy {
    bool stale = true;   // no more than the param says; ranks agree on this alone
    bool made = false;   // from the param as it is
    bool known = false;  // somebody was told where it is
  };

  ShardOptimizer(const OptimizerConfig& config, const std::vector<OptimizerGroup>& groups,
                 const Registry& registry, const Layout& layout, Isa isa);

  const OptimizerGroup& GroupOfParam(int param) const {
    return groups_[static_cast<size_t>(registry_.params()[static_cast<size_t>(param)].group)];
  }

  // What follows from the kinds of the groups: pieces, and whose norms are needed.
  void Arrange();
  std::vector<UpdateRange> RangesOf(const std::vector<int>& params) const;
  // Where its reduced gradients are.
  std::byte* GradientsOf(const Storage& storage, const UpdateRange& range) const;
  OptimizerArrays ArraysOf(const Storage& storage, const UpdateRange& range) const;
  // The elements of a param that this rank keeps a state for.
  UpdateRange KeptOf(int param) const;
  void WidenParam(const Storage& storage, int param);
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
  OptimizerState state_;
  std::vector<Updates> updates_;     // by extent
  std::vector<UpdateRange> pieces_;  // what is updated, cut for threads; by extent
  const GradientSummer summer_;
  std::unique_ptr<ThreadTeam> team_;
  int64_t update_count_ = 0;
  std::vector<MainCopy> mains_;  // by param
  double learning_rate_ = 0;     // of the update that was begun
  double factor_ = 1;
  std::vector<int> normed_;     // params whose norms are needed
  std::vector<int> normed_at_;  // by param: its place there, or -1
  std::vector<double> ratios_;  // LAMB, LARS: by param
};

}  // namespace weft
