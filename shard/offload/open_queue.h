// Which queue carries offloaded state: io_uring where it is there, else threads. WEFT_OFFLOAD_IO may say.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<BlockQueue> queue, OpenBlockQueue(file, {.io = OffloadIoOf(GetOptions().offload_io)}));
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "shard/offload/block_queue.h"

namespace weft {

enum class OffloadIo {
  kAuto,   // io_uring; where it is not, threads, and one warning in the process says why
  kUring,  // or an error
  kThreads,
};

// Of a value of WEFT_OFFLOAD_IO: auto, uring or threads.
OffloadIo OffloadIoOf(std::string_view text);

struct BlockQueueConfig {
  OffloadIo io = OffloadIo::kAuto;
  // Where most requests lie; they outlive the queue.
  std::span<const std::span<std::byte>> buffers = {};
  size_t depth = 8;
  size_t threads = 4;  // if there are threads
};

// Takes `file` unless it fails: UNSUPPORTED for kUring where there is none, SYSTEM_ERROR if there is no thread to be had.
absl::StatusOr<std::unique_ptr<BlockQueue>> OpenBlockQueue(UniqueFd& file,
                                                           const BlockQueueConfig& config);

}  // namespace weft
