#include "shard/optimizer/resident_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

float* FloatsOf(const Block& block, size_t at) {
  return reinterpret_cast<float*>(block.data()) + at;
}

absl::Status AllocateFloats(const BlockSource& source, size_t count, Block* block) {
  const size_t bytes = count * sizeof(float);
  absl::StatusOr<Block> made = Block::Allocate(source, WEFT_SHARD_TIER_OPTIMIZER, bytes);
  if (!made.ok()) {
    return Annotate(made.status(),
                    StrCat("allocating ", bytes, " bytes for the optimizer's state: "));
  }
  *block = *std::move(made);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateStore>> ResidentState::Allocate(
    std::span<const OptimizerGroup> groups, const Registry& registry, const Layout& layout,
    const BlockSource& source) {
  std::unique_ptr<ResidentState> state(new ResidentState);
  for (const std::vector<int>& params : ParamsByExtent(layout)) {
    const auto extent = static_cast<int>(state->extents_.size());
    OfExtent& of = state->extents_.emplace_back();
    Placed next;
    for (const StateStretch& stretch : StretchesOf(groups, registry, layout, params)) {
      next.stretch = stretch;
      of.stretches.push_back(next);
      next.main_at += stretch.needs.main ? stretch.count : 0;
      next.first_moment_at += stretch.needs.moments >= 1 ? stretch.count : 0;
      next.second_moment_at += stretch.needs.moments >= 2 ? stretch.count : 0;
    }
    if (!of.stretches.empty()) {
      const UpdatedElements own = UpdatedBy(layout, layout.extents[static_cast<size_t>(extent)]);
      of.windows.push_back({.number = extent, .begin = own.first, .count = own.count});
    }
    WEFT_RETURN_IF_ERROR(AllocateFloats(source, next.main_at, &of.main));
    WEFT_RETURN_IF_ERROR(AllocateFloats(source, next.first_moment_at, &of.first_moment));
    WEFT_RETURN_IF_ERROR(AllocateFloats(source, next.second_moment_at, &of.second_moment));
  }
  return state;
}

size_t ResidentState::bytes() const {
  size_t bytes = 0;
  for (const OfExtent& of : extents_)
    bytes += of.main.bytes() + of.first_moment.bytes() + of.second_moment.bytes();
  return bytes;
}

absl::Status ResidentState::Read(int extent, const UpdatedElements& elements,
                                 weft_shard_state_kind_t kind, void* to) {
  std::memcpy(to, At(extent, elements.first).Of(kind), elements.count * sizeof(float));
  return absl::OkStatus();
}

absl::Status ResidentState::Write(int extent, const UpdatedElements& elements,
                                  weft_shard_state_kind_t kind, const void* from) {
  std::memcpy(At(extent, elements.first).Of(kind), from, elements.count * sizeof(float));
  return absl::OkStatus();
}

StateArrays ResidentState::At(int extent, size_t begin) const {
  const OfExtent& of = extents_[static_cast<size_t>(extent)];
  auto after = std::upper_bound(
      of.stretches.begin(), of.stretches.end(), begin,
      [](size_t element, const Placed& placed) { return element < placed.stretch.first; });
  WEFT_CHECK(after != of.stretches.begin());
  const Placed& placed = *--after;
  const size_t at = begin - placed.stretch.first;
  const StateNeeds& needs = placed.stretch.needs;
  StateArrays arrays;
  if (needs.main) arrays.main = FloatsOf(of.main, placed.main_at + at);
  if (needs.moments >= 1)
    arrays.first_moment = FloatsOf(of.first_moment, placed.first_moment_at + at);
  if (needs.moments >= 2)
    arrays.second_moment = FloatsOf(of.second_moment, placed.second_moment_at + at);
  return arrays;
}

}  // namespace weft
