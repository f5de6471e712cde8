// What updates of this rank's parts keep from step to step: moments in float32, and float32 main copies of params of 16 bits.
//
//   WEFT_ASSIGN_OR_RETURN(OptimizerState state, OptimizerState::Allocate(groups, registry, layout, source));
//   const UpdatedElements own = UpdatedBy(layout, extent);           // elements of the extent that this rank updates
//   const StateArrays arrays = state.At(extent, first_element);
//
// How much is kept of a param depends on its group. Params of an extent that lie side by side and keep the same make a stretch;
// of what an extent keeps there is one block per kind, in which stretches lie one behind the other. So where all params are of one
// group, arrays lie as the params do.
//
// Thread-safety: constant after Allocate; who may write which elements is the optimizer's affair.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/layout/block.h"
#include "shard/layout/layout.h"
#include "shard/layout/registry.h"
#include "shard/optimizer/muon.h"
#include "shard/optimizer/param_groups.h"

namespace weft {

// Elements of a space.
struct UpdatedElements {
  size_t first = 0;
  size_t count = 0;
};

// Those of an extent whose params are trainable that this rank updates.
UpdatedElements UpdatedBy(const Layout& layout, const Extent& extent);

// What is kept of an element, in float32 each.
struct StateNeeds {
  bool main = false;  // a main copy
  int moments = 0;
  bool operator==(const StateNeeds&) const = default;
};

StateNeeds NeedsOf(const OptimizerGroup& group, weft_dtype_t dtype);

// Where it is; nullptr for what is not kept.
struct StateArrays {
  float* main = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;
};

// The params of each extent, in the order in which they lie there.
std::vector<std::vector<int>> ParamsByExtent(const Layout& layout);

// UNSUPPORTED for params that their groups cannot update: trainable float64 but for OWN; of MUON what is no matrix, or lies on several
// ranks. The same on all ranks.
absl::Status CheckUpdatable(std::span<const OptimizerGroup> groups, const Registry& registry,
                            const Layout& layout);

// The shape of a param of two dimensions.
Matrix MatrixOf(const ParamSpec& param);

// Whether this rank updates any of the param's elements, which are all if it is of MUON.
bool UpdatesAny(const Registry& registry, const Layout& layout, int param);

// Bytes of the state of all extents, and of MUON's scratch. `groups` are those that the params name.
size_t StateBytes(std::span<const OptimizerGroup> groups, const Registry& registry,
                  const Layout& layout);

class OptimizerState {
 public:
  OptimizerState() = default;
  // OUT_OF_MEMORY says how much.
  static absl::StatusOr<OptimizerState> Allocate(std::span<const OptimizerGroup> groups,
                                                 const Registry& registry, const Layout& layout,
                                                 const BlockSource& source);

  size_t bytes() const;

  // MUON's, for the largest matrix that this rank updates.
  float* scratch() const { return reinterpret_cast<float*>(scratch_.data()); }

  // Of element `begin` of the space, one that this rank updates, and of those that follow it in the same param or in neighbours
  // of its group.
  StateArrays At(int extent, size_t begin) const;

 private:
  struct Stretch {
    size_t first = 0;  // element in the space
    size_t count = 0;
    StateNeeds needs;
    size_t main_at = 0;  // of its first element in the extent's blocks
    size_t first_moment_at = 0;
    size_t second_moment_at = 0;
  };

  struct OfExtent {
    std::vector<Stretch> stretches;  // by first
    Block main;                      // float32 each; empty if not needed
    Block first_moment;
    Block second_moment;
  };

  friend size_t StateBytes(std::span<const OptimizerGroup> groups, const Registry& registry,
                           const Layout& layout);

  // Those of one extent's params; empty for frozen ones.
  static std::vector<Stretch> StretchesOf(std::span<const OptimizerGroup> groups,
                                          const Registry& registry, const Layout& layout,
                                          const std::vector<int>& params);

  std::vector<OfExtent> extents_;
  Block scratch_;
};

}  // namespace weft
