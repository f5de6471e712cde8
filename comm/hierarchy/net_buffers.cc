#include "comm/hierarchy/net_buffers.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "base/cache_line.h"

namespace weft {
namespace {

constexpr size_t kSmallestBytes = 4096;

}  // namespace

NetBuffer& NetBuffer::operator=(NetBuffer&& other) noexcept {
  if (this == &other) return *this;
  GiveBack();
  memory_ = std::move(other.memory_);
  bytes_ = other.bytes_;
  from_ = std::move(other.from_);
  return *this;
}

std::byte* NetBuffer::data() const {
  if (memory_ == nullptr) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(memory_.get());
  return memory_.get() + (kCacheLineBytes - address % kCacheLineBytes) % kCacheLineBytes;
}

void NetBuffer::GiveBack() {
  if (memory_ == nullptr) return;
  from_->Keep({std::move(memory_), bytes_});
  from_.reset();
}

NetBuffer NetBuffers::Take(size_t bytes) {
  NetBuffer buffer;
  buffer.from_ = shared_from_this();
  // Sizes of which there are few, so that the next operation finds its own.
  buffer.bytes_ = std::bit_ceil(std::max(bytes + kCacheLineBytes, kSmallestBytes));
  {
    MutexLock lock(mutex_);
    for (auto at = kept_.rbegin(); at != kept_.rend(); ++at) {
      if (at->bytes != buffer.bytes_) continue;
      buffer.memory_ = std::move(at->memory);
      kept_bytes_ -= at->bytes;
      kept_.erase(std::next(at).base());
      return buffer;
    }
  }
  buffer.memory_ = std::make_unique_for_overwrite<std::byte[]>(buffer.bytes_);
  return buffer;
}

// What was not used for longest makes room.
void NetBuffers::Keep(Block block) {
  std::vector<Block> dropped;  // freed without the lock
  MutexLock lock(mutex_);
  kept_bytes_ += block.bytes;
  kept_.push_back(std::move(block));
  while (kept_bytes_ > kept_bytes_max_) {
    kept_bytes_ -= kept_.front().bytes;
    dropped.push_back(std::move(kept_.front()));
    kept_.erase(kept_.begin());
  }
}

}  // namespace weft
