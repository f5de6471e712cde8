// Which of this process's memory is ordinary: private, readable, writable, and no stack.
//
//   WEFT_RETURN_IF_ERROR(CheckOrdinaryMemory(memory, bytes));
//
// Asked before pages are replaced under an address, so that no file, device, stack or shared memory is
// lost by it. The answer is as of the call: who may unmap the range is the caller's affair.
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"

namespace weft {

// Ok if all of [memory, memory + bytes) is. INVALID_ARGUMENT with a sentence that says which address is
// not and why; SYSTEM_ERROR if /proc/self/maps cannot be read.
absl::Status CheckOrdinaryMemory(const void* memory, size_t bytes);

// As above, for mappings given as text in the form of /proc/<pid>/maps.
absl::Status CheckOrdinaryMemory(std::string_view maps, const void* memory, size_t bytes);

}  // namespace weft
