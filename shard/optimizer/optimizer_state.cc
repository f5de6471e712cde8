#include "shard/optimizer/optimizer_state.h"

#include <algorithm>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"

namespace weft {
namespace {

absl::Status CannotUpdate(const ParamSpec& param, const std::string& what) {
  return MakeError(WEFT_UNSUPPORTED, {.operation = "finalize"},
                   StrCat("parameter ", param.name, " ", what));
}

// Whether some rank updates a part of the param, and another one the rest.
bool IsCut(const Layout& layout, const Place& place, size_t count) {
  const Extent& extent = layout.extents[static_cast<size_t>(place.extent)];
  if (!layout.SpaceOf(extent).placement.optimizer_sharded) return false;
  for (size_t rank = 0; rank + 1 < extent.cuts.size(); ++rank) {
    const size_t owned = OwnedBy(extent, place, count, rank).count;
    if (owned != 0) return owned != count;
  }
  return false;
}

}  // namespace

Matrix MatrixOf(const ParamSpec& param) {
  return {static_cast<size_t>(param.shape[0]), static_cast<size_t>(param.shape[1])};
}

absl::Status CheckUpdatable(std::span<const OptimizerGroup> groups, const Registry& registry,
                            const Layout& layout) {
  for (size_t i = 0; i < registry.params().size(); ++i) {
    const ParamSpec& param = registry.params()[i];
    const weft_optimizer_kind_t kind = groups[static_cast<size_t>(param.group)].kind;
    const Space& space = layout.spaces[static_cast<size_t>(layout.places[i].space)];
    if (space.offloaded && !param.frozen && kind == WEFT_OPTIMIZER_OWN) {
      return CannotUpdate(param,
                          "is of kind OWN, so its part is yours to update in memory, and params "
                          "that are sharded are to rest in a file; offload the state alone, or put "
                          "it into a param group of another kind");
    }
    if (param.frozen || kind == WEFT_OPTIMIZER_OWN) continue;
    if (param.dtype == WEFT_FLOAT64) {
      return CannotUpdate(
          param,
          "is float64, which the optimizers do not update; freeze it, or update its "
          "parts yourself, in a param group of kind OWN");
    }
    if (kind != WEFT_OPTIMIZER_MUON) continue;
    if (param.shape.size() != 2) {
      return CannotUpdate(param,
                          StrCat("has ", param.shape.size(),
                                 " dimensions, and MUON updates matrices; put it into a param "
                                 "group of another kind"));
    }
    if (param.count != 0 && IsCut(layout, layout.places[i], param.count)) {
      return CannotUpdate(param,
                          StrCat("of unit ", registry.UnitName(param.unit),
                                 " is cut between ranks, and MUON needs the whole matrix on one; "
                                 "give the unit a policy with cut WEFT_SHARD_CUT_TENSOR"));
    }
  }
  return absl::OkStatus();
}

bool UpdatesAny(const Registry& registry, const Layout& layout, int param) {
  const ParamSpec& spec = registry.params()[static_cast<size_t>(param)];
  const Place& place = layout.places[static_cast<size_t>(param)];
  if (spec.frozen || spec.count == 0) return false;
  const UpdatedElements own = UpdatedBy(layout, layout.extents[static_cast<size_t>(place.extent)]);
  return place.begin < own.first + own.count && own.first < place.begin + spec.count;
}

UpdatedElements UpdatedBy(const Layout& layout, const Extent& extent) {
  const bool cut = layout.SpaceOf(extent).placement.optimizer_sharded;
  if (!cut) return {extent.range.begin, extent.range.count};
  return {layout.OwnFirst(extent), layout.OwnCount(extent)};
}

std::byte* UpdatedParamsAt(const Storage& storage, const Layout& layout, const Extent& extent,
                           size_t begin) {
  const Space& space = layout.SpaceOf(extent);
  std::byte* const params = space.placement.optimizer_sharded
                                ? storage.OwnParams(layout, extent).data
                                : storage.Data(extent.range.space, extent.range.begin);
  return params + (begin - UpdatedBy(layout, extent).first) * DtypeSize(space.dtype);
}

StateNeeds NeedsOf(const OptimizerGroup& group, weft_dtype_t dtype) {
  if (group.kind == WEFT_OPTIMIZER_OWN) return {};
  return {.main = dtype != WEFT_FLOAT32, .moments = MomentCount(group)};
}

StateNeeds NeedsOfParam(std::span<const OptimizerGroup> groups, const Registry& registry,
                        const Layout& layout, int param) {
  const auto index = static_cast<size_t>(param);
  const ParamSpec& spec = registry.params()[index];
  if (spec.count == 0) return {};
  StateNeeds needs;
  if (!spec.frozen) needs = NeedsOf(groups[static_cast<size_t>(spec.group)], spec.dtype);
  const Space& space = layout.spaces[static_cast<size_t>(layout.places[index].space)];
  if (space.offloaded) needs.value_bytes = DtypeSize(spec.dtype);
  return needs;
}

bool NormsChangeState(const OptimizerGroup& group) {
  return group.kind == WEFT_OPTIMIZER_LAMB;
}

// LAMB's moments have been updated with its norms.
bool UpdateChangesState(const OptimizerGroup& group, const StateNeeds& needs) {
  return needs.main || needs.value_bytes > 0 || (needs.moments > 0 && !NormsChangeState(group));
}

std::vector<std::vector<int>> ParamsByExtent(const Layout& layout) {
  std::vector<std::vector<int>> params(layout.extents.size());
  for (size_t param = 0; param < layout.places.size(); ++param) {
    const int extent = layout.places[param].extent;
    if (extent >= 0) params[static_cast<size_t>(extent)].push_back(static_cast<int>(param));
  }
  return params;
}

std::vector<int> UpdateOrder(const Layout& layout) {
  std::vector<int> order;
  for (size_t i = layout.buckets.size(); i > 0; --i) {
    const std::vector<int>& extents = layout.buckets[i - 1].pack.extents;
    order.insert(order.end(), extents.begin(), extents.end());
  }
  return order;
}

UpdatedElements StateOfParam(const Registry& registry, const Layout& layout, int param) {
  const ParamSpec& spec = registry.params()[static_cast<size_t>(param)];
  const Place& place = layout.places[static_cast<size_t>(param)];
  const bool frozen = spec.frozen && !layout.spaces[static_cast<size_t>(place.space)].offloaded;
  if (frozen || spec.count == 0) return {};
  const UpdatedElements own = UpdatedBy(layout, layout.extents[static_cast<size_t>(place.extent)]);
  const size_t begin = std::max(place.begin, own.first);
  const size_t end = std::min(place.begin + RoundUpToCut(spec.count), own.first + own.count);
  if (begin >= end) return {};
  return {begin, end - begin};
}

std::vector<StateStretch> StretchesOf(std::span<const OptimizerGroup> groups,
                                      const Registry& registry, const Layout& layout,
                                      const std::vector<int>& params) {
  std::vector<StateStretch> stretches;
  for (const int param : params) {
    const UpdatedElements kept = StateOfParam(registry, layout, param);
    if (kept.count == 0) continue;
    const StateNeeds needs = NeedsOfParam(groups, registry, layout, param);
    if (stretches.empty() || !(stretches.back().needs == needs))
      stretches.push_back({.first = kept.first, .needs = needs});
    stretches.back().count += kept.count;
  }
  return stretches;
}

size_t StateBytes(std::span<const OptimizerGroup> groups, const Registry& registry,
                  const Layout& layout) {
  size_t floats = 0;
  for (const std::vector<int>& params : ParamsByExtent(layout)) {
    for (const StateStretch& stretch : StretchesOf(groups, registry, layout, params))
      floats += stretch.needs.floats() * stretch.count;
  }
  return floats * sizeof(float);
}

size_t ScratchBytes(std::span<const OptimizerGroup> groups, const Registry& registry,
                    const Layout& layout) {
  size_t most = 0;
  for (size_t i = 0; i < registry.params().size(); ++i) {
    const ParamSpec& spec = registry.params()[i];
    const bool muon = groups[static_cast<size_t>(spec.group)].kind == WEFT_OPTIMIZER_MUON;
    if (!muon || !UpdatesAny(registry, layout, static_cast<int>(i))) continue;
    most = std::max(most, MuonScratchFloats(MatrixOf(spec)));
  }
  return most * sizeof(float);
}

}  // namespace weft
