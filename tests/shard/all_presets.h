// Every preset, and the sizes of the axes that a mesh of so many ranks has for it: those with replicas want two.
#pragma once

#include <vector>

#include "weft/shard.h"

namespace weft {

inline constexpr weft_shard_preset_t kAllPresets[] = {
    WEFT_SHARD_NO_SHARD,   WEFT_SHARD_ZERO1,        WEFT_SHARD_ZERO2, WEFT_SHARD_GRAD_OP,
    WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_HPZ,   WEFT_SHARD_FRACTION};

inline bool WantsTwoAxes(weft_shard_preset_t preset) {
  return preset == WEFT_SHARD_HYBRID_SHARD || preset == WEFT_SHARD_HPZ;
}

// For MakeContext; an even number of ranks where the preset wants two axes.
inline std::vector<int> SizesOfAxes(weft_shard_preset_t preset, int ranks) {
  return WantsTwoAxes(preset) ? std::vector<int>{ranks / 2, 2} : std::vector<int>{};
}

// All, or those that want one axis if there are not two.
inline std::vector<weft_shard_preset_t> PresetsFor(int ranks) {
  std::vector<weft_shard_preset_t> presets;
  for (const weft_shard_preset_t preset : kAllPresets) {
    if (!WantsTwoAxes(preset) || ranks % 2 == 0) presets.push_back(preset);
  }
  return presets;
}

}  // namespace weft
