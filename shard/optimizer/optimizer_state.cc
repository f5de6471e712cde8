#include "shard/optimizer/optimizer_state.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

float* FloatsOf(const Block& block, size_t at) {
  return reinterpret_cast<float*>(block.data()) + at;
}

size_t ScratchFloats(std::span<const OptimizerGroup> groups, const Registry& registry,
                     const Layout& layout) {
  size_t most = 0;
  for (size_t i = 0; i < registry.params().size(); ++i) {
    const ParamSpec& spec = registry.params()[i];
    const bool muon = groups[static_cast<size_t>(spec.group)].kind == WEFT_OPTIMIZER_MUON;
    if (!muon || !UpdatesAny(registry, layout, static_cast<int>(i))) continue;
    most = std::max(most, MuonScratchFloats(MatrixOf(spec)));
  }
  return most;
}

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

StateNeeds NeedsOf(const OptimizerGroup& group, weft_dtype_t dtype) {
  if (group.kind == WEFT_OPTIMIZER_OWN) return {};
  return {.main = dtype != WEFT_FLOAT32, .moments = MomentCount(group)};
}

std::vector<std::vector<int>> ParamsByExtent(const Layout& layout) {
  std::vector<std::vector<int>> params(layout.extents.size());
  for (size_t param = 0; param < layout.places.size(); ++param) {
    const int extent = layout.places[param].extent;
    if (extent >= 0) params[static_cast<size_t>(extent)].push_back(static_cast<int>(param));
  }
  return params;
}

std::vector<OptimizerState::Stretch> OptimizerState::StretchesOf(
    std::span<const OptimizerGroup> groups, const Registry& registry, const Layout& layout,
    const std::vector<int>& params) {
  std::vector<Stretch> stretches;
  Stretch next;
  for (const int param : params) {
    const ParamSpec& spec = registry.params()[static_cast<size_t>(param)];
    if (spec.frozen || spec.count == 0) continue;
    const Place& place = layout.places[static_cast<size_t>(param)];
    const UpdatedElements own =
        UpdatedBy(layout, layout.extents[static_cast<size_t>(place.extent)]);
    // Padding has a state too: it is updated with its param.
    const size_t begin = std::max(place.begin, own.first);
    const size_t end = std::min(place.begin + RoundUpToCut(spec.count), own.first + own.count);
    if (begin >= end) continue;
    const StateNeeds needs = NeedsOf(groups[static_cast<size_t>(spec.group)], spec.dtype);
    if (stretches.empty() || !(stretches.back().needs == needs)) {
      next.first = begin;
      next.needs = needs;
      stretches.push_back(next);
    }
    const size_t count = end - begin;
    stretches.back().count += count;
    next.main_at += needs.main ? count : 0;
    next.first_moment_at += needs.moments >= 1 ? count : 0;
    next.second_moment_at += needs.moments >= 2 ? count : 0;
  }
  return stretches;
}

size_t StateBytes(std::span<const OptimizerGroup> groups, const Registry& registry,
                  const Layout& layout) {
  size_t floats = 0;
  for (const std::vector<int>& params : ParamsByExtent(layout)) {
    for (const auto& stretch : OptimizerState::StretchesOf(groups, registry, layout, params)) {
      floats += ((stretch.needs.main ? 1 : 0) + static_cast<size_t>(stretch.needs.moments)) *
                stretch.count;
    }
  }
  return (floats + ScratchFloats(groups, registry, layout)) * sizeof(float);
}

absl::StatusOr<OptimizerState> OptimizerState::Allocate(std::span<const OptimizerGroup> groups,
                                                        const Registry& registry,
                                                        const Layout& layout,
                                                        const BlockSource& source) {
  const auto allocate = [&](size_t count, Block& block) -> absl::Status {
    const size_t bytes = count * sizeof(float);
    absl::StatusOr<Block> made = Block::Allocate(source, WEFT_SHARD_TIER_OPTIMIZER, bytes);
    if (!made.ok()) {
      return Annotate(made.status(),
                      StrCat("allocating ", bytes, " bytes for the optimizer's state: "));
    }
    block = *std::move(made);
    return absl::OkStatus();
  };
  OptimizerState state;
  for (const std::vector<int>& params : ParamsByExtent(layout)) {
    OfExtent& of = state.extents_.emplace_back();
    of.stretches = StretchesOf(groups, registry, layout, params);
    size_t main = 0, first = 0, second = 0;
    for (const Stretch& stretch : of.stretches) {
      main += stretch.needs.main ? stretch.count : 0;
      first += stretch.needs.moments >= 1 ? stretch.count : 0;
      second += stretch.needs.moments >= 2 ? stretch.count : 0;
    }
    WEFT_RETURN_IF_ERROR(allocate(main, of.main));
    WEFT_RETURN_IF_ERROR(allocate(first, of.first_moment));
    WEFT_RETURN_IF_ERROR(allocate(second, of.second_moment));
  }
  WEFT_RETURN_IF_ERROR(allocate(ScratchFloats(groups, registry, layout), state.scratch_));
  return state;
}

size_t OptimizerState::bytes() const {
  size_t bytes = scratch_.bytes();
  for (const OfExtent& of : extents_)
    bytes += of.main.bytes() + of.first_moment.bytes() + of.second_moment.bytes();
  return bytes;
}

StateArrays OptimizerState::At(int extent, size_t begin) const {
  const OfExtent& of = extents_[static_cast<size_t>(extent)];
  auto after = std::upper_bound(
      of.stretches.begin(), of.stretches.end(), begin,
      [](size_t element, const Stretch& stretch) { return element < stretch.first; });
  WEFT_CHECK(after != of.stretches.begin());
  const Stretch& stretch = *--after;
  const size_t at = begin - stretch.first;
  StateArrays arrays;
  if (stretch.needs.main) arrays.main = FloatsOf(of.main, stretch.main_at + at);
  if (stretch.needs.moments >= 1) {
    arrays.first_moment = FloatsOf(of.first_moment, stretch.first_moment_at + at);
  }
  if (stretch.needs.moments >= 2) {
    arrays.second_moment = FloatsOf(of.second_moment, stretch.second_moment_at + at);
  }
  return arrays;
}

}  // namespace weft
