// The values of tensors of a checkpoint, one tensor after the other, in pieces of as many as fit, so that small ones cost no read each. Floating-point
// values may become those of another type.
//
//   ValueCopy copy(saved, total_bytes, [&](const void* bytes, size_t count) { return file.Write(bytes, count); }, done);
//   for (const size_t index : order) WEFT_RETURN_IF_ERROR(copy.Add(index));
//   WEFT_RETURN_IF_ERROR(copy.Flush());
//
// INTERRUPTED, as this thread's check says, before a piece.
//
// Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "shard/checkpoint/element_type.h"
#include "shard/checkpoint/saved_checkpoint.h"

namespace weft {

// Of a file that is copied, so much is in memory at a time.
inline constexpr size_t kPieceBytes = 16 << 20;

class ValueCopy {
 public:
  using Write = std::function<absl::Status(const void* data, size_t bytes)>;

  // `bytes`: of all that will be added, as they were saved. `saved` outlives it. `done`: of bytes that were written; may be empty.
  ValueCopy(const SavedCheckpoint& saved, size_t bytes, Write write, BytesDone done);

  // All values of that tensor of the manifest, as they are, or as another type that they can be converted to.
  absl::Status Add(size_t tensor, std::optional<ElementType> as = std::nullopt);
  // What is left of them.
  absl::Status Flush();

 private:
  // *bytes: of what was written.
  absl::Status WriteConverted(size_t* bytes);

  const SavedCheckpoint& saved_;
  const Write write_;
  const BytesDone done_;
  const size_t room_;  // at least an element: all bytes are no more, or it is a piece
  std::unique_ptr<char[]> piece_;
  size_t used_ = 0;
  std::vector<WantedPart> wanted_;
  std::vector<ElementType> as_;  // of each of them
  bool converts_ = false;        // one of them
  std::unique_ptr<char[]> converted_;
};

}  // namespace weft
