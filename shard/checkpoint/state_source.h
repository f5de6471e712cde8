// What a checkpoint saves and restores, as its writer and reader see it: tensors, of which this rank keeps an interval each, and numbers.
// A shard context is one (context_state.h), tensors of the program's own are another (caller_tensors.h).
//
// Elements are counted within the whole tensor, whatever part of it this rank has.
//
// Thread-safety: of the thread that makes the calls of the checkpoint; what Part() tells may be read from any.
// A source all of whose parts have data leaves ReadHeld and Write as they are, and Hold, if it holds nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/shard_state.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/checkpoint/manifest.h"
#include "shard/checkpoint/saved_tensor.h"

namespace weft {

// What this rank keeps of one state of a tensor.
struct StatePart {
  void* data = nullptr;  // [count]; nullptr if it is read and written by the calls of the source
  size_t begin = 0;      // elements [begin, begin + count) of the tensor
  size_t count = 0;
  size_t write_begin = 0;  // within these, what this rank is to write
  size_t write_count = 0;
};

class StateSource {
 public:
  virtual ~StateSource() = default;

  // Names, shapes, types and kinds of the tensors that this rank has something of; without cuts. Constant.
  virtual const std::vector<SavedTensor>& tensors() const = 0;

  // What the tensor is updated by now, which a program may change; nothing if by nothing of weft's.
  virtual std::optional<weft_optimizer_kind_t> OptimizerOf(size_t /*tensor*/) const {
    return std::nullopt;
  }

  // With which numbers; none without an optimizer.
  virtual std::vector<SavedGroup> Groups() const { return {}; }

  // Of a kind that the tensor has.
  virtual absl::StatusOr<StatePart> Part(size_t tensor, weft_shard_state_kind_t kind) = 0;

  // While it lives, parts of the kinds that it holds stay as they are: whoever changes them waits. Any thread may then read them, one at a
  // time.
  // They wait until that time on MonotonicNs's clock at most.
  virtual absl::StatusOr<std::shared_ptr<const void>> Hold(int64_t until_ns);

  virtual bool Holds(weft_shard_state_kind_t /*kind*/) const { return false; }

  // Elements of a part that has no data, and is held.
  virtual absl::Status ReadHeld(size_t tensor, weft_shard_state_kind_t kind, size_t begin,
                                size_t count, void* to);

  // Parts are about to be written, of any kind: waits until nobody holds them.
  virtual absl::Status BeginWriting() { return absl::OkStatus(); }

  virtual absl::Status Write(size_t tensor, weft_shard_state_kind_t kind, size_t begin,
                             size_t count, const void* from);

  // Whether it has numbers; if not, the next two are not called.
  virtual bool HasScalars() const = 0;
  virtual absl::StatusOr<weft_shard_state_scalars_t> Scalars() = 0;
  virtual absl::Status SetScalars(const weft_shard_state_scalars_t& scalars) = 0;

  // The parts of all tensors were written, of these kinds (bits). Collective over the ranks that share the source.
  virtual absl::Status Written(uint32_t kinds) = 0;
};

// With the name that the program has given it, "" if it has given none.
struct NamedSource {
  std::string name;
  StateSource* source = nullptr;
};

}  // namespace weft
