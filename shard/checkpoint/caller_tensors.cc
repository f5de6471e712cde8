#include "shard/checkpoint/caller_tensors.h"

#include <utility>

#include "base/status.h"

namespace weft {

void CallerTensors::Add(SavedTensor tensor, size_t begin, size_t count, void* data) {
  tensor.kinds = WEFT_SHARD_STATE_VALUES;
  tensors_.push_back(std::move(tensor));
  parts_.push_back(
      {.data = data, .begin = begin, .count = count, .write_begin = begin, .write_count = count});
}

absl::StatusOr<StatePart> CallerTensors::Part(size_t tensor, weft_shard_state_kind_t /*kind*/) {
  return parts_[tensor];
}

absl::StatusOr<weft_shard_state_scalars_t> CallerTensors::Scalars() {
  return MakeError(WEFT_INTERNAL_ERROR, "tensors of the caller's have no numbers");
}

absl::Status CallerTensors::SetScalars(const weft_shard_state_scalars_t& /*scalars*/) {
  return MakeError(WEFT_INTERNAL_ERROR, "tensors of the caller's have no numbers");
}

}  // namespace weft
