// Tensors of the program's own that are to stand in a checkpoint beside its contexts: slices, where it has cut them itself.
//
// Thread-safety: one thread at a time; the memory is the caller's.
#pragma once

#include <cstddef>
#include <vector>

#include "shard/checkpoint/state_source.h"

namespace weft {

class CallerTensors : public StateSource {
 public:
  // This rank has elements [begin, begin + count) at `data`, and writes them.
  void Add(SavedTensor tensor, size_t begin, size_t count, void* data);

  const std::vector<SavedTensor>& tensors() const override { return tensors_; }

  absl::StatusOr<StatePart> Part(size_t tensor, weft_shard_state_kind_t kind) override;

  bool HasScalars() const override { return false; }

  absl::StatusOr<weft_shard_state_scalars_t> Scalars() override;
  absl::Status SetScalars(const weft_shard_state_scalars_t& scalars) override;

  absl::Status Written(uint32_t /*kinds*/) override { return absl::OkStatus(); }

 private:
  std::vector<SavedTensor> tensors_;
  std::vector<StatePart> parts_;
};

}  // namespace weft
