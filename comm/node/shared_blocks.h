// The blocks that ranks of this process share with the other ranks of a group: one place for all of them, in the
// heap of the group's rank 0 (weft_mem_alloc_shared).
//
//   ProcessSharedBlocks().Add(memory, bytes, owner);
//   if (const auto place = ProcessSharedBlocks().Find(out, out_bytes)) ...   // a result for all ranks
//   ProcessSharedBlocks().Remove(memory);
//
// The place of a block says where it is whatever address a process has it at: two ranks have given the same
// memory if and only if heap and offset are the same.
//
// Thread-safety: all members, any thread. MayHold() is lock-free; Find() takes a mutex if MayHold() is true.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "base/mutex.h"
#include "comm/node/node_peer.h"

namespace weft {

// Memory in the heap of `owner`, which stays mapped as long as this is kept.
struct SharedPlace {
  std::shared_ptr<NodePeer> owner;
  uint64_t offset = 0;

  uint64_t heap_id() const { return owner->identity().heap_id; }
};

class SharedBlocks {
 public:
  // Ranks that are threads of this process have the same address: each adds it, and each removes it.
  void Add(const void* memory, size_t bytes, std::shared_ptr<NodePeer> owner);
  // No effect if nothing that was added begins at `memory`.
  void Remove(const void* memory);

  // False if `memory` is surely in no block, which is told by two loads.
  bool MayHold(const void* memory) const {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    return address < end_.load(std::memory_order_acquire) &&
           address >= begin_.load(std::memory_order_acquire);
  }

  // The addresses of the block that holds `memory`; empty if none does.
  std::span<char> BlockOf(const void* memory) const;

  // Where [memory, memory + bytes) is, if it lies in one block.
  std::optional<SharedPlace> Find(const void* memory, size_t bytes) const;

 private:
  struct Block {
    size_t bytes = 0;
    int users = 0;
    std::shared_ptr<NodePeer> owner;
  };

  void SetRange() WEFT_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<uintptr_t, Block> blocks_ WEFT_GUARDED_BY(mutex_);  // by address
  // From the first block's first byte to the last one's end.
  std::atomic<uintptr_t> begin_{UINTPTR_MAX};
  std::atomic<uintptr_t> end_{0};
};

// Those of this process.
SharedBlocks& ProcessSharedBlocks();

}  // namespace weft
