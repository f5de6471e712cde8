// A queue of requests that the kernel carries out by itself: io_uring. Submitting and taking happen in the caller's calls; there is no thread.
//
//   WEFT_ASSIGN_OR_RETURN(const UringModule* uring, LoadUringModule());
//   WEFT_ASSIGN_OR_RETURN(auto queue, UringQueue::Open(*uring, file, {.depth = 8, .buffers = slots}));
//
// Requests in registered buffers spare the kernel to look up and hold their pages each time. Where it does not take them (RLIMIT_MEMLOCK), requests
// are plain ones.
//
// Thread-safety: as BlockQueue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "shard/offload/block_queue.h"
#include "shard/offload/uring_module.h"

namespace weft {

class UringQueue : public BlockQueue {
 public:
  struct Settings {
    size_t depth = 8;
    // Where most requests lie; they outlive the queue.
    std::span<const std::span<std::byte>> buffers = {};
  };

  // Takes `file` unless it fails. `module` outlives the queue. UNSUPPORTED where there is no io_uring, or where this process may not use it.
  static absl::StatusOr<std::unique_ptr<UringQueue>> Open(const UringModule& module, UniqueFd& file,
                                                          const Settings& settings);
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;
  ~UringQueue() override;

  bool Start(const BlockRequest& request) override;
  void Submit() override;
  size_t Take(std::span<BlockEnd> ends, int64_t deadline_ns) override;

  size_t depth() const override { return depth_; }

  std::string_view how() const override { return how_; }

 private:
  UringQueue(const UringModule& module, size_t depth, UringRing* ring,
             std::vector<std::span<std::byte>> buffers);

  int32_t BufferOf(const std::byte* memory, size_t bytes) const;
  size_t TakeEnded(std::span<BlockEnd> ends);

  const UringModule& module_;
  const size_t depth_;
  UringRing* const ring_;
  const std::vector<std::span<std::byte>> buffers_;  // registered
  const std::string how_;
  UniqueFd file_;
  size_t open_ = 0;                // started and not taken
  std::deque<uint64_t> handed_;    // tags: started, and not with the kernel yet, in order
  std::vector<BlockEnd> refused_;  // ended without the kernel
  int32_t broken_ = 0;             // the kernel takes nothing any more: errno
};

}  // namespace weft
