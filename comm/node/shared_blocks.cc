#include "comm/node/shared_blocks.h"

#include <iterator>
#include <utility>

#include "comm/group/of_this_process.h"

namespace weft {

void SharedBlocks::SetRange() {
  const bool none = blocks_.empty();
  const auto last = none ? blocks_.end() : std::prev(blocks_.end());
  begin_.store(none ? UINTPTR_MAX : blocks_.begin()->first, std::memory_order_release);
  end_.store(none ? 0 : last->first + last->second.bytes, std::memory_order_release);
}

void SharedBlocks::Add(const void* memory, size_t bytes, std::shared_ptr<NodePeer> owner) {
  MutexLock lock(mutex_);
  Block& block = blocks_[reinterpret_cast<uintptr_t>(memory)];
  block.bytes = bytes;
  block.owner = std::move(owner);
  ++block.users;
  SetRange();
}

void SharedBlocks::Remove(const void* memory) {
  std::shared_ptr<NodePeer>
      owner;  // goes without the mutex: it may be the last one, and unmap a heap
  MutexLock lock(mutex_);
  const auto block = blocks_.find(reinterpret_cast<uintptr_t>(memory));
  if (block == blocks_.end() || --block->second.users > 0) return;
  owner = std::move(block->second.owner);
  blocks_.erase(block);
  SetRange();
}

std::span<char> SharedBlocks::BlockOf(const void* memory) const {
  if (!MayHold(memory)) return {};
  const auto address = reinterpret_cast<uintptr_t>(memory);
  MutexLock lock(mutex_);
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return {};
  const auto& [begin, block] = *std::prev(after);
  if (address - begin >= block.bytes) return {};
  return {reinterpret_cast<char*>(begin), block.bytes};
}

std::optional<SharedPlace> SharedBlocks::Find(const void* memory, size_t bytes) const {
  if (!MayHold(memory)) return std::nullopt;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  MutexLock lock(mutex_);
  auto found = blocks_.upper_bound(address);
  if (found == blocks_.begin()) return std::nullopt;
  --found;
  const auto& [begin, block] = *found;
  if (address - begin >= block.bytes || bytes > block.bytes - (address - begin)) {
    return std::nullopt;
  }
  const auto base = reinterpret_cast<uintptr_t>(block.owner->base());
  return SharedPlace{block.owner, address - base};
}

SharedBlocks& ProcessSharedBlocks() {
  return OfThisProcess<SharedBlocks>();
}

}  // namespace weft
