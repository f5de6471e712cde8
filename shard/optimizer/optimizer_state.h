// What updates of this rank's parts keep from step to step: moments in float32, and float32 main copies of params of 16 bits.
//
//   const UpdatedElements own = UpdatedBy(layout, extent);           // elements of the extent that this rank updates
//   for (const StateStretch& stretch : StretchesOf(groups, registry, layout, params)) ...
//
// How much is kept of a param depends on its group. Params of an extent that lie side by side and keep the same make a stretch. Where
// it is kept is a StateStore's affair (state_store.h).
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "shard/layout/layout.h"
#include "shard/layout/registry.h"
#include "shard/layout/storage.h"
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

// Where they rest in memory, from element `begin` of the space on: params lie whole in their space, or as this rank's part alone.
std::byte* UpdatedParamsAt(const Storage& storage, const Layout& layout, const Extent& extent,
                           size_t begin);

// What is kept of an element, in float32 each but for its value.
struct StateNeeds {
  bool main = false;  // a main copy
  int moments = 0;
  size_t value_bytes = 0;  // of the param itself, where it rests with its state (Space::offloaded)

  size_t floats() const { return (main ? 1 : 0) + static_cast<size_t>(moments); }

  size_t bytes() const { return value_bytes + floats() * sizeof(float); }

  bool any() const { return bytes() > 0; }

  bool operator==(const StateNeeds&) const = default;
};

StateNeeds NeedsOf(const OptimizerGroup& group, weft_dtype_t dtype);

// Of a param, which may be frozen, with its value if that is offloaded. `groups` are those that the params name.
StateNeeds NeedsOfParam(std::span<const OptimizerGroup> groups, const Registry& registry,
                        const Layout& layout, int param);

// Whether an update changes something of what is kept: its norms (ShardOptimizer::StartNorms), and what follows.
bool NormsChangeState(const OptimizerGroup& group);
bool UpdateChangesState(const OptimizerGroup& group, const StateNeeds& needs);

// Elements that lie side by side and keep the same.
struct StateStretch {
  size_t first = 0;  // element in the space
  size_t count = 0;
  StateNeeds needs;
};

// The params of each extent, in the order in which they lie there.
std::vector<std::vector<int>> ParamsByExtent(const Layout& layout);

// The extents whose params are trainable, in the order in which updates go: that in which forward will want the params.
std::vector<int> UpdateOrder(const Layout& layout);

// UNSUPPORTED for params that their groups cannot update: trainable float64 but for OWN; of MUON what is no matrix, or lies on several
// ranks; of OWN what is offloaded. The same on all ranks.
absl::Status CheckUpdatable(std::span<const OptimizerGroup> groups, const Registry& registry,
                            const Layout& layout);

// The shape of a param of two dimensions.
Matrix MatrixOf(const ParamSpec& param);

// Whether this rank updates any of the param's elements, which are all if it is of MUON.
bool UpdatesAny(const Registry& registry, const Layout& layout, int param);

// Bytes of the state of all extents. `groups` are those that the params name.
size_t StateBytes(std::span<const OptimizerGroup> groups, const Registry& registry,
                  const Layout& layout);

// What MUON works in, for the largest matrix that this rank updates.
size_t ScratchBytes(std::span<const OptimizerGroup> groups, const Registry& registry,
                    const Layout& layout);

// Elements of a param that this rank keeps something of, with the padding behind it, which is updated too; none of empty ones, and of frozen
// ones unless they are offloaded.
UpdatedElements StateOfParam(const Registry& registry, const Layout& layout, int param);

// Those of `params`, all of one extent.
std::vector<StateStretch> StretchesOf(std::span<const OptimizerGroup> groups,
                                      const Registry& registry, const Layout& layout,
                                      const std::vector<int>& params);

}  // namespace weft
