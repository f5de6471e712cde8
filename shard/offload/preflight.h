// Whether a store returns what was written, tried before anything depends on it.
//
//   WEFT_RETURN_IF_ERROR(TryStore(store));
//
// Thread-safety: as the store.
#pragma once

#include "absl/status/status.h"
#include "shard/offload/block_store.h"

namespace weft {

// Writes the first block, reads it back, compares, and makes it zeros again. CORRUPT if it is another one; else the store's error.
// The store is of BlockStore::kAlignment bytes at least.
absl::Status TryStore(BlockStore& store);

}  // namespace weft
