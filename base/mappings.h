// Which of this process's memory is ordinary: private, readable, writable, and no stack; and which is a file's.
//
//   WEFT_RETURN_IF_ERROR(CheckOrdinaryMemory(memory, bytes));
//   WEFT_RETURN_IF_ERROR(CheckMappingOfFile(memory, bytes, fd, offset));
//
// Asked before pages are replaced under an address, so that no file, device, stack or shared memory is
// lost by it. The answer is as of the call: who may unmap the range is the caller's affair.
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <sys/types.h>

#include "absl/status/status.h"

namespace weft {

// Ok if all of [memory, memory + bytes) is. INVALID_ARGUMENT with a sentence that says which address is
// not and why; SYSTEM_ERROR if /proc/self/maps cannot be read.
absl::Status CheckOrdinaryMemory(const void* memory, size_t bytes);

// As above, for mappings given as text in the form of /proc/<pid>/maps.
absl::Status CheckOrdinaryMemory(std::string_view maps, const void* memory, size_t bytes);

// Ok if all of [memory, memory + bytes) is a shared, readable and writable mapping of the file behind `fd`, whose byte
// `offset` is at `memory`. Errors as above.
absl::Status CheckMappingOfFile(const void* memory, size_t bytes, int fd, uint64_t offset);

// A place in a file.
struct MappedFile {
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t offset = 0;
};

// As above, for mappings given as text.
absl::Status CheckMappingOfFile(std::string_view maps, const void* memory, size_t bytes,
                                const MappedFile& file);

}  // namespace weft
