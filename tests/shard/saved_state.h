// States of contexts as a checkpoint has them: saved by the ranks of one layout, put together, and restored by those of another.
//
//   const WholeState saved = RunFrom({.preset = WEFT_SHARD_ZERO1, .ranks = 3}, nullptr, 0, 4);     // four steps
//   RunFrom({.preset = WEFT_SHARD_HPZ, .ranks = 3}, &saved, 4, 2);                                 // two more
//
// Putting together checks that each element of each state was written by one rank, and that what several ranks keep is the same.
#pragma once

#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "weft/shard_state.h"

#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "shard/context/context.h"
#include "tests/shard/small_model.h"

namespace weft {

inline constexpr weft_shard_preset_t kStatePresets[] = {
    WEFT_SHARD_NO_SHARD,   WEFT_SHARD_ZERO1,        WEFT_SHARD_ZERO2, WEFT_SHARD_GRAD_OP,
    WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_HPZ,   WEFT_SHARD_FRACTION};
inline constexpr CutRule kStateCuts[] = {CutRule::kElements, CutRule::kRows, CutRule::kParams};
inline constexpr weft_shard_state_kind_t kStateKinds[] = {
    WEFT_SHARD_STATE_VALUE, WEFT_SHARD_STATE_MAIN, WEFT_SHARD_STATE_MOMENT1,
    WEFT_SHARD_STATE_MOMENT2};
static_assert(std::size(kStateKinds) == WEFT_SHARD_STATE_KINDS);

// The small model, but larger, and without trainable float64: matrices, scalars, empty and frozen params, params that are
// smaller than any cut.
std::vector<ModelParam> StateModel();

struct StateCase {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  int ranks = 1;
  CutRule cut = CutRule::kElements;
  OptimizerConfig optimizer = {};
  std::vector<int> infinite = {};  // steps in which rank 0 has an infinite gradient
  size_t offload_bytes = 0;        // optimizer state is in files, and so much memory is for it
  bool offload_params = false;     // with it, params that are sharded at rest
};

std::string NameOf(const StateCase& setup);

// With a dynamic loss scale that changes every other step.
OptimizerConfig StateOptimizer(weft_optimizer_kind_t kind, double momentum = 0);

// A finalized context of the model, all of it zero; values that differ.
absl::StatusOr<std::unique_ptr<Context>> MakeTrained(const std::shared_ptr<ProcessGroup>& group,
                                                     const StateCase& setup);
// With options of the caller's; nothing is offloaded but by these.
absl::StatusOr<std::unique_ptr<Context>> MakeTrained(const std::shared_ptr<ProcessGroup>& group,
                                                     const StateCase& setup,
                                                     const ContextOptions& options);
absl::Status LoadValues(Context& context);

// Steps number `first` and so on, whose gradients depend on their number. All updates are asked for alike.
weft_shard_update_t StateUpdate();
absl::Status TrainSteps(Context& context, const StateCase& setup, int rank, int first, int count);

// The whole state of a run, as a program keeps it that knows nothing of ranks.
struct WholeState {
  using States = std::array<std::vector<char>, std::size(kStateKinds)>;  // empty: there is none
  std::vector<States> params;
  weft_shard_state_scalars_t scalars = {};

  // What is not the same, in words; empty if all is.
  std::string DifferenceFrom(const WholeState& other) const;
};

// What one rank keeps.
struct Saved {
  std::vector<std::array<weft_shard_state_part_t, std::size(kStateKinds)>> parts;
  std::vector<WholeState::States> kept;  // the whole parts
  weft_shard_state_scalars_t scalars = {};
};

absl::StatusOr<Saved> SaveState(Context& context);

// What the ranks write together.
WholeState MergeStates(const std::vector<Saved>& ranks, const OptimizerConfig& optimizer);

// Into the parts alone; and all of it, as docs/sharding.md says.
absl::Status RestoreParts(Context& context, const WholeState& from);
absl::Status RestoreState(Context& context, const WholeState& from);

// Begins from `from`, or from values that are loaded; trains; returns what there is then.
WholeState RunFrom(const StateCase& setup, const WholeState* from, int first, int count);

}  // namespace weft
