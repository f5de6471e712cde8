// How the optimizer's state of a rank is cut into windows, which are read into memory and written back as a whole.
//
//   const StateWindows windows = CutIntoWindows(groups, registry, layout, window_bytes);
//   windows.places[3].offset; windows.of_extent[0]; windows.stretches[0]
//
// Windows are numbered, and lie in the file, in the order in which updates go, so an update reads and writes the file from its beginning to
// its end. A window is cut where the optimizer's threads cut their work (piece.h), and may have the ends of many small params of
// several extents. In a window lie all params that are offloaded, then all main copies, all first moments and all second ones, each from a
// multiple of BlockStore::kAlignment on. Frozen params that are offloaded lie behind all others, in windows that no update visits.
//
// Thread-safety: a value and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/shard_state.h"

#include "shard/layout/layout.h"
#include "shard/layout/registry.h"
#include "shard/optimizer/optimizer_state.h"
#include "shard/optimizer/param_groups.h"
#include "shard/optimizer/state_store.h"

namespace weft {

// Where a window lies in the file: multiples of BlockStore::kAlignment. Bytes are 0 where nothing is kept.
struct WindowPlace {
  uint64_t offset = 0;
  size_t bytes = 0;
};

// Elements of one extent and one window that lie side by side and keep the same, and where.
struct WindowedStretch {
  StateStretch elements;
  int window = 0;
  std::array<size_t, WEFT_SHARD_STATE_KINDS> at =
      {};  // by kind, in bytes from the window's beginning

  size_t At(weft_shard_state_kind_t kind) const { return at[static_cast<size_t>(kind)]; }
};

// Of an element that needs it.
size_t StateBytesOf(const StateNeeds& needs, weft_shard_state_kind_t kind);

struct StateWindows {
  std::vector<WindowPlace> places;                      // by window
  std::vector<std::vector<StateWindow>> of_extent;      // by extent
  std::vector<std::vector<WindowedStretch>> stretches;  // by extent, by first element
  bool has_values = false;                              // of params that are offloaded
  uint64_t file_bytes = 0;
  size_t largest_bytes = 0;  // of a window
  // What an update moves if no window is still in memory: where norms of whole params are needed, windows are read twice.
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
};

// A window has `window_bytes` at most, but for a matrix of MUON that is larger, and at least one row of kCutElements elements.
StateWindows CutIntoWindows(std::span<const OptimizerGroup> groups, const Registry& registry,
                            const Layout& layout, size_t window_bytes);

}  // namespace weft
