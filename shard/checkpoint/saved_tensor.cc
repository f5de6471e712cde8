#include "shard/checkpoint/saved_tensor.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace weft {
namespace {

constexpr const char* kStateKindNames[WEFT_SHARD_STATE_KINDS] = {"value", "main", "moment1",
                                                                 "moment2"};

// By weft_optimizer_kind_t.
constexpr const char* kOptimizerNames[] = {"adamw", "sgd", "lion", "lamb", "lars", "own", "muon"};
static_assert(std::size(kOptimizerNames) == WEFT_OPTIMIZER_MUON + 1);

}  // namespace

size_t SavedTensor::count() const {
  size_t product = 1;
  for (const int64_t dimension : shape)
    product *= static_cast<size_t>(dimension);
  return product;
}

const char* StateKindName(weft_shard_state_kind_t kind) {
  return kStateKindNames[kind];
}

std::optional<weft_shard_state_kind_t> StateKindOf(std::string_view name) {
  for (int kind = 0; kind < WEFT_SHARD_STATE_KINDS; ++kind) {
    if (name == kStateKindNames[kind]) return static_cast<weft_shard_state_kind_t>(kind);
  }
  return std::nullopt;
}

const char* OptimizerName(weft_optimizer_kind_t kind) {
  return kOptimizerNames[kind];
}

std::optional<weft_optimizer_kind_t> OptimizerOf(std::string_view name) {
  for (size_t kind = 0; kind < std::size(kOptimizerNames); ++kind) {
    if (name == kOptimizerNames[kind]) return static_cast<weft_optimizer_kind_t>(kind);
  }
  return std::nullopt;
}

std::string EntryName(std::string_view tensor, weft_shard_state_kind_t kind, size_t begin,
                      size_t end) {
  return StrCat(tensor, "@", StateKindName(kind), "[", begin, ":", end, ")");
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t dimension : shape)
    text += StrCat(text.size() == 1 ? "" : ", ", dimension);
  return text + "]";
}

size_t FirstMissing(const SavedTensor& tensor) {
  std::vector<TensorCut> cuts = tensor.cuts;
  std::sort(cuts.begin(), cuts.end(),
            [](const TensorCut& a, const TensorCut& b) { return a.begin < b.begin; });
  size_t covered = 0;
  for (const TensorCut& cut : cuts) {
    if (cut.begin > covered) return covered;
    covered = std::max(covered, cut.end);
  }
  return covered;
}

}  // namespace weft
