#include "shard/offload/open_queue.h"

#include <atomic>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/offload/load_uring.h"
#include "shard/offload/thread_queue.h"
#include "shard/offload/uring_queue.h"

namespace weft {
namespace {

absl::StatusOr<std::unique_ptr<BlockQueue>> OpenUring(UniqueFd& file,
                                                      const BlockQueueConfig& config) {
  WEFT_ASSIGN_OR_RETURN(const UringModule* const module, LoadUringModule());
  WEFT_ASSIGN_OR_RETURN(
      std::unique_ptr<BlockQueue> queue,
      UringQueue::Open(*module, file, {.depth = config.depth, .buffers = config.buffers}));
  return queue;
}

absl::StatusOr<std::unique_ptr<BlockQueue>> OpenThreads(UniqueFd& file,
                                                        const BlockQueueConfig& config) {
  WEFT_ASSIGN_OR_RETURN(
      std::unique_ptr<BlockQueue> queue,
      ThreadQueue::Open(file, {.threads = config.threads, .depth = config.depth}));
  return queue;
}

void WarnOnce(const absl::Status& why) {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true, std::memory_order_relaxed)) return;
  LogWarn("offloaded state is read and written by threads: ", FromAbsl(why.message()),
          ". That takes more CPU time; WEFT_OFFLOAD_IO=threads says that it is meant");
}

}  // namespace

OffloadIo OffloadIoOf(std::string_view text) {
  if (text == "uring") return OffloadIo::kUring;
  return text == "threads" ? OffloadIo::kThreads : OffloadIo::kAuto;
}

absl::StatusOr<std::unique_ptr<BlockQueue>> OpenBlockQueue(UniqueFd& file,
                                                           const BlockQueueConfig& config) {
  if (config.io == OffloadIo::kThreads) return OpenThreads(file, config);
  absl::StatusOr<std::unique_ptr<BlockQueue>> queue = OpenUring(file, config);
  if (queue.ok()) return queue;
  if (config.io == OffloadIo::kUring)
    return Annotate(queue.status(), "WEFT_OFFLOAD_IO=uring, but ");
  WarnOnce(queue.status());
  return OpenThreads(file, config);
}

}  // namespace weft
