// Blocks of weft's that a caller keeps by a pointer into them: of its heap, of devices, pinned.
//
//   WEFT_ASSIGN_OR_RETURN(void* const block, KeepBlock(kCall, pointer));
//   WEFT_ASSIGN_OR_RETURN(const weft_mem_info_t info, MemoryInfoOf(block));
//   ...
//   (void)FreeBlock(block);
//
// Thread-safety: any thread.
#pragma once

#include "weft/mem.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

// Adds an owner to the block that holds `pointer`, and returns where it begins. In mem.cc. The errors of weft_mem_retain, which
// name `call`.
absl::StatusOr<void*> KeepBlock(const char* call, const void* pointer);

// What weft_mem_query says; struct_size is not set.
absl::StatusOr<weft_mem_info_t> MemoryInfoOf(const void* pointer);

// Takes one owner away; without any the block is given back.
absl::Status FreeBlock(void* block);

// The same behind what is in `stream` now. UNSUPPORTED of host memory that is not pinned.
absl::Status FreeBlockBehind(void* block, void* stream);

// FreeBlock for who cannot say which streams use the block: of a device and pinned, behind the legacy stream of its device.
absl::Status FreeDroppedBlock(void* block);

}  // namespace weft
