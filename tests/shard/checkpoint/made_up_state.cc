#include "tests/shard/checkpoint/made_up_state.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/text.h"
#include "comm/kernels/dtype.h"

namespace weft::test {
namespace {

constexpr weft_shard_state_kind_t kMadeUpKinds[] = {WEFT_SHARD_STATE_VALUE, WEFT_SHARD_STATE_MAIN,
                                                    WEFT_SHARD_STATE_MOMENT1,
                                                    WEFT_SHARD_STATE_MOMENT2};

}  // namespace

MadeUpModel::MadeUpModel(uint64_t seed, size_t elements) {
  const auto n = static_cast<int64_t>(elements);
  tensors = {
      {.name = "embed.weight",
       .shape = {n, 3},
       .dtype = WEFT_BFLOAT16,
       .kinds = WEFT_SHARD_STATE_ALL},
      {.name = "blocks.0.weight",
       .shape = {7, n},
       .kinds = WEFT_SHARD_STATE_VALUES | WEFT_SHARD_STATE_MOMENTS},
      {.name = "blocks.0.scale",
       .shape = {},
       .kinds = WEFT_SHARD_STATE_VALUES | WEFT_SHARD_STATE_MOMENTS},
      {.name = "blocks.0.mask", .shape = {5}, .dtype = WEFT_BOOL, .kinds = WEFT_SHARD_STATE_VALUES},
      {.name = "none", .shape = {0, 4}, .kinds = WEFT_SHARD_STATE_VALUES},
      {.name = "head \"quoted\" \n é",
       .shape = {n + 1},
       .dtype = WEFT_FLOAT64,
       .kinds = WEFT_SHARD_STATE_VALUES}};
  std::mt19937_64 random(seed);
  for (const SavedTensor& tensor : tensors) {
    contents.emplace_back(WEFT_SHARD_STATE_KINDS);
    for (const weft_shard_state_kind_t kind : kMadeUpKinds) {
      if (!tensor.Has(kind)) continue;
      std::string& bytes = contents.back()[kind];
      bytes.resize(tensor.count() * DtypeSize(tensor.DtypeOf(kind)));
      for (char& byte : bytes)
        byte = static_cast<char>(random());
    }
  }
  scalars = {.struct_size = sizeof(scalars),
             .steps_begun = 12,
             .train_steps_begun = 11,
             .update_count = 10,
             .loss_scale = 65536.0 / 3,
             .loss_scale_good_steps = 9,
             .loss_scale_overflows_left = 2,
             .nonfinite_steps = 1};
}

MadeUpState::MadeUpState(const MadeUpModel& model, int cut, int cuts, size_t overlap)
    : scalars(model.scalars), model_(model), cut_(cut), cuts_(cuts), overlap_(overlap) {
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    kept_.emplace_back(WEFT_SHARD_STATE_KINDS);
    const StatePart part = Interval(i);
    for (const weft_shard_state_kind_t kind : kMadeUpKinds) {
      const SavedTensor& tensor = model.tensors[i];
      const size_t size = DtypeSize(tensor.DtypeOf(kind));
      if (tensor.Has(kind))
        kept_.back()[kind] = model.contents[i][kind].substr(part.begin * size, part.count * size);
    }
  }
}

StatePart MadeUpState::Interval(size_t tensor) const {
  const size_t count = model_.tensors[tensor].count();
  const auto cut = static_cast<size_t>(cut_);
  const auto cuts = static_cast<size_t>(cuts_);
  StatePart part;
  part.write_begin = count * cut / cuts;
  part.write_count = count * (cut + 1) / cuts - part.write_begin;
  part.begin = part.write_begin - std::min(part.write_begin, overlap_);
  part.count = std::min(count, part.write_begin + part.write_count + overlap_) - part.begin;
  return part;
}

absl::StatusOr<StatePart> MadeUpState::Part(size_t tensor, weft_shard_state_kind_t kind) {
  StatePart part = Interval(tensor);
  part.data = kept_[tensor][kind].data();
  return part;
}

void MadeUpState::Clear() {
  for (std::vector<std::string>& kinds : kept_) {
    for (std::string& bytes : kinds)
      std::fill(bytes.begin(), bytes.end(), '\x5a');
  }
  scalars = {};
}

std::string MadeUpState::Difference(uint32_t kinds) const {
  for (size_t i = 0; i < model_.tensors.size(); ++i) {
    const SavedTensor& tensor = model_.tensors[i];
    const StatePart part = Interval(i);
    for (const weft_shard_state_kind_t kind : kMadeUpKinds) {
      const size_t size = DtypeSize(tensor.DtypeOf(kind));
      if (!tensor.Has(kind) || (kinds >> kind & 1) == 0) continue;
      if (kept_[i][kind] != model_.contents[i][kind].substr(part.begin * size, part.count * size))
        return StrCat(StateKindName(kind), " of ", tensor.name, " on ", cut_, " of ", cuts_);
    }
  }
  if (kinds == WEFT_SHARD_STATE_ALL && std::memcmp(&scalars, &model_.scalars, sizeof(scalars)) != 0)
    return StrCat("scalars on ", cut_, " of ", cuts_);
  return "";
}

}  // namespace weft::test
