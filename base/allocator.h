// Private memory whose size depends on the caller's data, from the allocator of weft/mem.h.
//
//   WEFT_ASSIGN_OR_RETURN(PrivateMemory buffer,
//                         PrivateMemory::Allocate(bytes, 64, "a message of rank 3"));
//   std::memcpy(buffer.data(), ...);
//
// Messages that came before their receive, temporaries of user reductions. Handles and control
// structures come from operator new. The allocator may be changed until the first group is made or the
// first memory is taken, so what it gave is always returned to the same one.
// Thread-safety: any thread; a PrivateMemory is a value, move only.
#pragma once

#include <cstddef>
#include <string_view>

#include "weft/mem.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

// Sets the process's allocator; nullptr: operator new. BAD_STATE once it is fixed. Both functions must
// be there.
absl::Status SetAllocator(const weft_allocator_t* allocator);

// From now on SetAllocator refuses; called when a group is made.
void FixAllocator();

class PrivateMemory {
 public:
  PrivateMemory() = default;
  PrivateMemory(PrivateMemory&& other) noexcept;
  PrivateMemory& operator=(PrivateMemory&& other) noexcept;
  ~PrivateMemory();

  // `bytes` at a multiple of `alignment`, a power of two; not zeroed. OUT_OF_MEMORY says how much was
  // wanted and `what` for. 0 bytes: empty, and nobody is asked.
  static absl::StatusOr<PrivateMemory> Allocate(size_t bytes, size_t alignment,
                                                std::string_view what);

  std::byte* data() const { return data_; }

  size_t bytes() const { return bytes_; }

 private:
  PrivateMemory(std::byte* data, size_t bytes, size_t alignment)
      : data_(data), bytes_(bytes), alignment_(alignment) {}

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  size_t alignment_ = 0;
};

}  // namespace weft
