#include "shard/offload/state_windows.h"

#include <algorithm>
#include <numeric>

#include "shard/layout/cut.h"
#include "shard/offload/block_store.h"
#include "shard/optimizer/piece.h"

namespace weft {
namespace {

constexpr size_t kKinds = WEFT_SHARD_STATE_KINDS;
// A window's kinds are rounded up to it.
constexpr size_t kRounding = kKinds * BlockStore::kAlignment;

// Fills one window after the other.
class WindowCutter {
 public:
  WindowCutter(size_t window_bytes, size_t extents, StateWindows* windows)
      : windows_(*windows), bytes_max_(window_bytes > kRounding ? window_bytes - kRounding : 0) {
    windows_.of_extent.resize(extents);
    windows_.stretches.resize(extents);
  }

  // State of one param, which an update visits. A matrix of MUON stays whole.
  void Add(int extent, const UpdatedElements& elements, const OptimizerGroup& group,
           const StateNeeds& needs) {
    AddElements(extent, elements, needs, group.kind == WEFT_OPTIMIZER_MUON, [&] {
      is_visited_ = true;
      normed_ = normed_ || NeedsNorms(group);
      norms_change_ = norms_change_ || NormsChangeState(group);
      updates_change_ = updates_change_ || UpdateChangesState(group, needs);
    });
  }

  // A frozen param that is offloaded.
  void AddFrozen(int extent, const UpdatedElements& elements, const StateNeeds& needs) {
    AddElements(extent, elements, needs, /*whole=*/false, [] {});
  }

  // The last window, or the last one before some that are apart.
  void Finish() {
    if (!is_empty_) Close();
  }

 private:
  template <typename Added>
  void AddElements(int extent, const UpdatedElements& elements, const StateNeeds& needs, bool whole,
                   const Added& added) {
    size_t first = elements.first;
    const size_t end = elements.first + elements.count;
    while (first < end) {
      size_t next = whole ? end : LastCut(first, end, needs);
      if ((next == first || !Fits(next - first, needs)) && !is_empty_) {
        Close();
        continue;
      }
      // Even where a window holds no more: it has to hold something.
      if (next == first) next = std::min(end, NextCut(first, kCutElements));
      AddPart(extent, {.first = first, .count = next - first, .needs = needs});
      added();
      first = next;
    }
  }

  static size_t NextCut(size_t element, size_t grid) { return (element / grid + 1) * grid; }

  size_t bytes() const { return std::accumulate(bytes_.begin(), bytes_.end(), size_t{0}); }

  bool Fits(size_t count, const StateNeeds& needs) const {
    return bytes() + count * needs.bytes() <= bytes_max_;
  }

  // The end of what fits of [first, end): where pieces are cut, or rows if a window has no room for a piece; `first` if nothing fits.
  size_t LastCut(size_t first, size_t end, const StateNeeds& needs) const {
    if (!needs.any()) return end;
    const size_t room = bytes_max_ > bytes() ? (bytes_max_ - bytes()) / needs.bytes() : 0;
    if (room >= end - first) return end;
    const size_t grid =
        kPieceElements * needs.bytes() <= bytes_max_ ? kPieceElements : kCutElements;
    return std::max(first, (first + room) / grid * grid);
  }

  void AddPart(int extent, const StateStretch& part) {
    const auto number = static_cast<int>(windows_.places.size());
    is_empty_ = false;
    windows_.has_values = windows_.has_values || part.needs.value_bytes > 0;
    std::vector<StateWindow>& of_extent = windows_.of_extent[static_cast<size_t>(extent)];
    if (of_extent.empty() || of_extent.back().number != number)
      of_extent.push_back({.number = number, .begin = part.first});
    of_extent.back().count = part.first + part.count - of_extent.back().begin;
    std::vector<WindowedStretch>& stretches = windows_.stretches[static_cast<size_t>(extent)];
    const bool joins = !stretches.empty() && stretches.back().window == number &&
                       stretches.back().elements.needs == part.needs;
    if (joins) {
      stretches.back().elements.count += part.count;
    } else {
      stretches.push_back({.elements = part, .window = number, .at = bytes_});
      open_.push_back({extent, stretches.size() - 1});
    }
    for (size_t kind = 0; kind < kKinds; ++kind)
      bytes_[kind] +=
          part.count * StateBytesOf(part.needs, static_cast<weft_shard_state_kind_t>(kind));
  }

  void Close() {
    std::array<size_t, kKinds> bases = {};
    size_t bytes = 0;
    for (size_t kind = 0; kind < kKinds; ++kind) {
      bases[kind] = bytes;
      bytes += static_cast<size_t>(RoundUpToBlock(bytes_[kind]));
    }
    for (const auto& [extent, index] : open_) {
      WindowedStretch& stretch = windows_.stretches[static_cast<size_t>(extent)][index];
      for (size_t kind = 0; kind < kKinds; ++kind)
        stretch.at[kind] += bases[kind];
    }
    windows_.places.push_back({.offset = windows_.file_bytes, .bytes = bytes});
    windows_.file_bytes += bytes;
    windows_.largest_bytes = std::max(windows_.largest_bytes, bytes);
    windows_.read_bytes += (is_visited_ ? bytes : 0) + (normed_ ? bytes : 0);
    windows_.written_bytes += (norms_change_ ? bytes : 0) + (updates_change_ ? bytes : 0);
    open_.clear();
    is_empty_ = true;
    bytes_ = {};
    is_visited_ = normed_ = norms_change_ = updates_change_ = false;
  }

  struct Open {
    int extent;
    size_t index;  // of its stretches
  };

  StateWindows& windows_;
  const size_t bytes_max_;
  // The window that is being filled.
  std::vector<Open> open_;
  bool is_empty_ = true;
  std::array<size_t, kKinds> bytes_ = {};  // of it so far
  bool is_visited_ = false;
  bool normed_ = false;
  bool norms_change_ = false;
  bool updates_change_ = false;
};

}  // namespace

size_t StateBytesOf(const StateNeeds& needs, weft_shard_state_kind_t kind) {
  switch (kind) {
    case WEFT_SHARD_STATE_VALUE:
      return needs.value_bytes;
    case WEFT_SHARD_STATE_MAIN:
      return needs.main ? sizeof(float) : 0;
    case WEFT_SHARD_STATE_MOMENT1:
      return needs.moments >= 1 ? sizeof(float) : 0;
    default:
      return needs.moments >= 2 ? sizeof(float) : 0;
  }
}

StateWindows CutIntoWindows(std::span<const OptimizerGroup> groups, const Registry& registry,
                            const Layout& layout, size_t window_bytes) {
  StateWindows windows;
  WindowCutter cutter(window_bytes, layout.extents.size(), &windows);
  const std::vector<std::vector<int>> params_of = ParamsByExtent(layout);
  for (const int extent : UpdateOrder(layout)) {
    for (const int param : params_of[static_cast<size_t>(extent)]) {
      const UpdatedElements kept = StateOfParam(registry, layout, param);
      const ParamSpec& spec = registry.params()[static_cast<size_t>(param)];
      if (kept.count == 0) continue;
      cutter.Add(extent, kept, groups[static_cast<size_t>(spec.group)],
                 NeedsOfParam(groups, registry, layout, param));
    }
  }
  cutter.Finish();
  for (size_t extent = 0; extent < layout.extents.size(); ++extent) {
    const Space& space = layout.SpaceOf(layout.extents[extent]);
    if (!space.frozen || !space.offloaded) continue;
    for (const int param : params_of[extent]) {
      const UpdatedElements kept = StateOfParam(registry, layout, param);
      if (kept.count == 0) continue;
      cutter.AddFrozen(static_cast<int>(extent), kept,
                       NeedsOfParam(groups, registry, layout, param));
    }
  }
  cutter.Finish();
  return windows;
}

}  // namespace weft
