#include "shard/offload/state_windows.h"

#include <algorithm>

#include "shard/layout/cut.h"
#include "shard/offload/block_store.h"
#include "shard/optimizer/piece.h"

namespace weft {
namespace {

constexpr size_t kAlignmentFloats = BlockStore::kAlignment / sizeof(float);
// A window's three kinds are rounded up to it.
constexpr size_t kRoundingFloats = 3 * kAlignmentFloats;

constexpr size_t RoundUpFloats(size_t floats) {
  return (floats + kAlignmentFloats - 1) / kAlignmentFloats * kAlignmentFloats;
}

// Fills one window after the other.
class WindowCutter {
 public:
  WindowCutter(size_t window_bytes, size_t extents, StateWindows* windows)
      : windows_(*windows), floats_max_(FloatsMax(window_bytes)) {
    windows_.of_extent.resize(extents);
    windows_.stretches.resize(extents);
  }

  // State of one param. A matrix of MUON stays whole.
  void Add(int extent, const UpdatedElements& elements, const OptimizerGroup& group,
           const StateNeeds& needs) {
    const bool whole = group.kind == WEFT_OPTIMIZER_MUON;
    size_t first = elements.first;
    const size_t end = elements.first + elements.count;
    while (first < end) {
      size_t next = whole ? end : LastCut(first, end, needs);
      if ((next == first || !Fits(next - first, needs)) && !IsEmpty()) {
        Close();
        continue;
      }
      // Even where a window holds no more: it has to hold something.
      if (next == first) next = std::min(end, NextCut(first, kCutElements));
      AddPart(extent, {.first = first, .count = next - first, .needs = needs});
      normed_ = normed_ || NeedsNorms(group);
      norms_change_ = norms_change_ || NormsChangeState(group);
      updates_change_ = updates_change_ || UpdateChangesState(group, needs);
      first = next;
    }
  }

  // The last window.
  void Finish() {
    if (!IsEmpty()) Close();
  }

 private:
  static size_t FloatsMax(size_t window_bytes) {
    const size_t floats = window_bytes / sizeof(float);
    return floats > kRoundingFloats ? floats - kRoundingFloats : 0;
  }

  static size_t NextCut(size_t element, size_t grid) { return (element / grid + 1) * grid; }

  bool IsEmpty() const { return is_empty_; }

  size_t floats() const { return main_ + first_moment_ + second_moment_; }

  bool Fits(size_t count, const StateNeeds& needs) const {
    return floats() + count * needs.floats() <= floats_max_;
  }

  // The end of what fits of [first, end): where pieces are cut, or rows if a window has no room for a piece; `first` if nothing fits.
  size_t LastCut(size_t first, size_t end, const StateNeeds& needs) const {
    if (needs.floats() == 0) return end;
    const size_t room = floats_max_ > floats() ? (floats_max_ - floats()) / needs.floats() : 0;
    if (room >= end - first) return end;
    const size_t grid =
        kPieceElements * needs.floats() <= floats_max_ ? kPieceElements : kCutElements;
    return std::max(first, (first + room) / grid * grid);
  }

  void AddPart(int extent, const StateStretch& part) {
    const auto number = static_cast<int>(windows_.places.size());
    is_empty_ = false;
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
      stretches.push_back({.elements = part,
                           .window = number,
                           .main_at = main_,
                           .first_moment_at = first_moment_,
                           .second_moment_at = second_moment_});
      open_.push_back({extent, stretches.size() - 1});
    }
    main_ += part.needs.main ? part.count : 0;
    first_moment_ += part.needs.moments >= 1 ? part.count : 0;
    second_moment_ += part.needs.moments >= 2 ? part.count : 0;
  }

  void Close() {
    const size_t first_moment_base = RoundUpFloats(main_);
    const size_t second_moment_base = first_moment_base + RoundUpFloats(first_moment_);
    const size_t floats = second_moment_base + RoundUpFloats(second_moment_);
    for (const auto& [extent, index] : open_) {
      WindowedStretch& stretch = windows_.stretches[static_cast<size_t>(extent)][index];
      stretch.first_moment_at += first_moment_base;
      stretch.second_moment_at += second_moment_base;
    }
    const size_t bytes = floats * sizeof(float);
    windows_.places.push_back({.offset = windows_.file_bytes, .bytes = bytes});
    windows_.file_bytes += bytes;
    windows_.largest_bytes = std::max(windows_.largest_bytes, bytes);
    windows_.read_bytes += normed_ ? 2 * bytes : bytes;
    windows_.written_bytes += (norms_change_ ? bytes : 0) + (updates_change_ ? bytes : 0);
    open_.clear();
    is_empty_ = true;
    main_ = first_moment_ = second_moment_ = 0;
    normed_ = norms_change_ = updates_change_ = false;
  }

  struct Open {
    int extent;
    size_t index;  // of its stretches
  };

  StateWindows& windows_;
  const size_t floats_max_;
  // The window that is being filled.
  std::vector<Open> open_;
  bool is_empty_ = true;
  size_t main_ = 0;  // float32 of it so far, by kind
  size_t first_moment_ = 0;
  size_t second_moment_ = 0;
  bool normed_ = false;
  bool norms_change_ = false;
  bool updates_change_ = false;
};

}  // namespace

StateWindows CutIntoWindows(std::span<const OptimizerGroup> groups, const Registry& registry,
                            const Layout& layout, size_t window_bytes) {
  StateWindows windows;
  WindowCutter cutter(window_bytes, layout.extents.size(), &windows);
  const std::vector<std::vector<int>> params_of = ParamsByExtent(layout);
  for (const int extent : UpdateOrder(layout)) {
    for (const int param : params_of[static_cast<size_t>(extent)]) {
      const UpdatedElements kept = StateOfParam(registry, layout, param);
      const ParamSpec& spec = registry.params()[static_cast<size_t>(param)];
      const OptimizerGroup& group = groups[static_cast<size_t>(spec.group)];
      if (kept.count == 0) continue;
      cutter.Add(extent, kept, group, NeedsOf(group, spec.dtype));
    }
  }
  cutter.Finish();
  return windows;
}

}  // namespace weft
