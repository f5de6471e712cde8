// Memory for what is on its way between ranks, kept for the next operation: pages that were touched once need not be cleared again.
//
//   auto buffers = std::make_shared<NetBuffers>(GetOptions().net_bytes);
//   NetBuffer scratch = buffers->Take(bytes);       // scratch.data(); not cleared, aligned to a cache line
//   // its destructor gives it back
//
// Kept are at most so many bytes; what is more is the system's again at once.
//
// Thread-safety: any thread. A buffer keeps its pool.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace weft {

class NetBuffers;

class NetBuffer {
 public:
  NetBuffer() = default;
  NetBuffer(NetBuffer&& other) noexcept = default;
  NetBuffer& operator=(NetBuffer&& other) noexcept;

  ~NetBuffer() { GiveBack(); }

  std::byte* data() const;

 private:
  friend class NetBuffers;

  void GiveBack();

  std::unique_ptr<std::byte[]> memory_;
  size_t bytes_ = 0;
  std::shared_ptr<NetBuffers> from_;
};

class NetBuffers : public std::enable_shared_from_this<NetBuffers> {
 public:
  explicit NetBuffers(size_t kept_bytes_max) : kept_bytes_max_(kept_bytes_max) {}

  // std::bad_alloc if there is no memory.
  NetBuffer Take(size_t bytes);

 private:
  friend class NetBuffer;

  struct Block {
    std::unique_ptr<std::byte[]> memory;
    size_t bytes = 0;
  };

  void Keep(Block block);

  const size_t kept_bytes_max_;
  Mutex mutex_;
  std::vector<Block> kept_ WEFT_GUARDED_BY(mutex_);  // the latest last
  size_t kept_bytes_ WEFT_GUARDED_BY(mutex_) = 0;
};

}  // namespace weft
