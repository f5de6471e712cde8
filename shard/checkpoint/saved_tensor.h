// What a checkpoint has of a tensor: its name in the whole model, its shape, which states of it there are, and which rank's file has
// which elements. Elements are counted within the whole tensor, so it is the same whatever the preset and the number of ranks.
//
//   SavedTensor{.name = "blocks.0.attn.qkv", .shape = {192, 64}, .dtype = WEFT_BFLOAT16, .kinds = WEFT_SHARD_STATE_ALL,
//               .cuts = {{.rank = 0, .begin = 0, .end = 6144}, {.rank = 1, .begin = 6144, .end = 12288}}}
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/shard_state.h"
#include "weft/shard_step.h"

#include "shard/checkpoint/element_type.h"

namespace weft {

// Elements [begin, end) of the tensor, which `rank` has written.
struct TensorCut {
  int rank = 0;
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TensorCut&) const = default;
};

struct SavedTensor {
  std::string name;
  std::vector<int64_t> shape;        // empty: a scalar
  ElementType dtype = WEFT_FLOAT32;  // of its values; other states are float32
  uint32_t kinds = 0;                // WEFT_SHARD_STATE_* bits
  std::vector<TensorCut> cuts = {};  // the same for all kinds
  bool frozen = false;               // a param that is not trained
  // What a param is updated by; nothing: it is frozen, no param, of a context without an optimizer, or of a checkpoint of version 1.
  std::optional<weft_optimizer_kind_t> optimizer = std::nullopt;

  bool Has(weft_shard_state_kind_t kind) const { return (kinds >> kind & 1) != 0; }

  ElementType DtypeOf(weft_shard_state_kind_t kind) const {
    return kind == WEFT_SHARD_STATE_VALUE ? dtype : WEFT_FLOAT32;
  }

  // The product of the shape.
  size_t count() const;
};

// "value", "main", "moment1", "moment2".
const char* StateKindName(weft_shard_state_kind_t kind);
std::optional<weft_shard_state_kind_t> StateKindOf(std::string_view name);

// "adamw", "sgd", "lion", "lamb", "lars", "own", "muon".
const char* OptimizerName(weft_optimizer_kind_t kind);
std::optional<weft_optimizer_kind_t> OptimizerOf(std::string_view name);

// "blocks.0.attn.qkv@moment1[6144:12288)": the entry of a cut in its rank's file.
std::string EntryName(std::string_view tensor, weft_shard_state_kind_t kind, size_t begin,
                      size_t end);

// "[192, 64]".
std::string ShapeText(const std::vector<int64_t>& shape);

// The first element that no cut has, or count() if all are there. Cuts may overlap: replicas.
size_t FirstMissing(const SavedTensor& tensor);

}  // namespace weft
