// A queue of requests that a few threads carry out by pread and pwrite: works everywhere, and takes more CPU time than io_uring.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<BlockQueue> queue, ThreadQueue::Open(file, {.threads = 4, .depth = 8}));
//
// Threads: its own, hidden ones (base/hidden_thread.h), started by Open and joined by the destructor. They sleep when there is nothing to do.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "shard/offload/block_queue.h"

namespace weft {

class ThreadQueue : public BlockQueue {
 public:
  struct Settings {
    size_t threads = 4;
    size_t depth = 8;
  };

  // Takes `file` unless it fails. SYSTEM_ERROR if there is no thread to be had.
  static absl::StatusOr<std::unique_ptr<ThreadQueue>> Open(UniqueFd& file,
                                                           const Settings& settings);
  ThreadQueue(const ThreadQueue&) = delete;
  ThreadQueue& operator=(const ThreadQueue&) = delete;
  ~ThreadQueue() override;

  bool Start(const BlockRequest& request) override;
  void Submit() override;
  size_t Take(std::span<BlockEnd> ends, int64_t deadline_ns) override;

  size_t depth() const override { return depth_; }

  std::string_view how() const override { return how_; }

 private:
  explicit ThreadQueue(const Settings& settings);

  absl::Status StartThreads(size_t count);
  void Loop();
  // The next request, when there is one; false at the end.
  bool Next(BlockRequest* request) WEFT_EXCLUDES(mutex_);
  void End(const BlockEnd& end) WEFT_EXCLUDES(mutex_);

  const size_t depth_;
  const std::string how_;
  UniqueFd file_;
  size_t open_ = 0;  // started and not taken; the caller's
  Mutex mutex_;
  std::condition_variable started_or_ending_;
  std::condition_variable ended_;
  // A ring of depth_ places: [first_, first_ + waiting_) wait for a thread.
  std::vector<BlockRequest> requests_ WEFT_GUARDED_BY(mutex_);
  size_t first_ WEFT_GUARDED_BY(mutex_) = 0;
  size_t waiting_ WEFT_GUARDED_BY(mutex_) = 0;
  std::vector<BlockEnd> ends_ WEFT_GUARDED_BY(mutex_);
  bool ending_ WEFT_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace weft
