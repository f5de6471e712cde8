// What of a unit is sharded between ranks, and how long it is unsharded: what a preset stands for.
//
//   const Placement placement = PlacementOf(WEFT_SHARD_FULL_SHARD);
//
//   preset        | params at rest | between forward and backward | gradients | optimizer
//   NO_SHARD      | unsharded      | -                            | unsharded | unsharded
//   ZERO1         | unsharded      | -                            | unsharded | own part
//   ZERO2         | unsharded      | -                            | own part  | own part
//   GRAD_OP       | own part       | unsharded                    | own part  | own part
//   FULL_SHARD    | own part       | own part                     | own part  | own part
//   HYBRID_SHARD  | as FULL_SHARD between the ranks of the mesh's last axis, the same on its other ranks
//   HPZ           | as FULL_SHARD, but between forward and backward a part by the ranks of the mesh's last axis
//   FRACTION      | as FULL_SHARD, but unsharded between two uses as far as a budget allows
//
// (HPZ: Wang et al.: ZeRO++: Extremely Efficient Collective Communication for Giant Model Training, 2023.
// Rajbhandari et al.: ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, SC20; GRAD_OP is
// what PyTorch calls SHARD_GRAD_OP, which is not the paper's ZeRO-2: params are sharded at rest.)
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/shard.h"

#include "absl/status/statusor.h"

namespace weft {

// Where a space may be cut.
enum class CutRule : uint8_t {
  kElements,  // anywhere
  kRows,      // between blocks of rows of a param
  kParams     // between params
};

struct Placement {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  bool params_sharded = false;  // at rest
  bool gradients_sharded = false;
  bool optimizer_sharded = false;
  bool kept_between = true;  // params_sharded: unsharded from forward to backward
  bool replicated = false;   // cut along the last axis of the mesh, the same along the others
  bool inner_part = false;   // a part by the last axis of the mesh is kept from forward to backward
  bool float32_gradients = false;  // of params of 16 bits
  CutRule cut = CutRule::kElements;
  size_t cut_rows = 1;                                 // kRows: rows that stay together
  weft_shard_wire_t wire = WEFT_SHARD_WIRE_GRADIENTS;  // of float32 gradients
  bool operator==(const Placement&) const = default;
};

// `preset` is a value of the enum.
constexpr Placement PlacementOf(weft_shard_preset_t preset) {
  const bool params_sharded = preset >= WEFT_SHARD_GRAD_OP;
  return {.preset = preset,
          .params_sharded = params_sharded,
          .gradients_sharded = preset >= WEFT_SHARD_ZERO2,
          .optimizer_sharded = preset >= WEFT_SHARD_ZERO1,
          .kept_between = preset <= WEFT_SHARD_GRAD_OP,
          .replicated = preset == WEFT_SHARD_HYBRID_SHARD,
          .inner_part = preset == WEFT_SHARD_HPZ};
}

// A placement as four values: where each state of a unit is.
struct Places {
  weft_shard_place_t params = WEFT_SHARD_PLACE_BY_PRESET;
  weft_shard_place_t between = WEFT_SHARD_PLACE_BY_PRESET;
  weft_shard_place_t gradients = WEFT_SHARD_PLACE_BY_PRESET;
  weft_shard_place_t optimizer = WEFT_SHARD_PLACE_BY_PRESET;
  bool operator==(const Places&) const = default;
};

Places PlacesOf(const Placement& placement);

// `placement` with those of `given` that are not BY_PRESET. INVALID_ARGUMENT names two that do not go together.
absl::StatusOr<Placement> Replace(Placement placement, const Places& given);

// "params WHOLE, between WHOLE, gradients SHARDED, optimizer SHARDED".
std::string PlacesText(const Placement& placement);

// Params are unsharded at rest, but each rank updates a part of them, so the parts are gathered afterwards.
constexpr bool GathersUpdates(const Placement& placement) {
  return placement.optimizer_sharded && !placement.params_sharded;
}

// "ddp", "zero1", "full-shard"...: the word of weft_shard_preset_name; "unknown" for a number that is no preset.
const char* StrategyName(int preset);

// "FULL_SHARD"; "unknown" for a number that is no preset.
const char* PresetName(int preset);

// The preset that StrategyName spells so, or "zero3", FULL_SHARD. INVALID_ARGUMENT has the names there are.
absl::StatusOr<weft_shard_preset_t> PresetByName(std::string_view name);

}  // namespace weft
