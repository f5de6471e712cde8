// Reads and writes of one file that are under way at the same time. A seam: threads (thread_queue.h), io_uring (uring_queue.h), a fake in tests.
//
//   if (queue.Start({.kind = BlockRequest::kRead, .offset = 0, .memory = to, .bytes = n, .tag = 7})) ...
//   queue.Submit();
//   const size_t count = queue.Take(ends, deadline_ns);       // ends[0].tag == 7, ends[0].moved == n
//
// A request is one attempt: it may move fewer bytes than it asks for, or fail for now (EINTR, EAGAIN). To go on is for who started it
// (queued_store.h), as is keeping the memory until the request's end was taken.
//
// Thread-safety: one thread at a time, not always the same one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weft {

struct BlockRequest {
  enum Kind : uint32_t { kRead, kWrite };

  Kind kind = kRead;
  uint32_t bytes = 0;
  uint64_t offset = 0;
  std::byte* memory = nullptr;  // only read by a write
  uint64_t tag = 0;             // the caller's
};

struct BlockEnd {
  uint64_t tag = 0;
  int64_t moved = 0;  // bytes, or -errno
};

class BlockQueue {
 public:
  // Nothing is under way any more; whoever cannot wait for that never destroys the queue.
  virtual ~BlockQueue() = default;

  // Takes a request, unless depth() are started and not taken: then false, and nothing has happened. It may begin with Submit() only.
  virtual bool Start(const BlockRequest& request) = 0;

  // Begins what was started. Whatever hinders it now does not hinder a later call, or is told as the requests' ends.
  virtual void Submit() = 0;

  // Takes ends, as many as there are and fit, and says how many. If there is none yet, waits for one until `deadline_ns` of MonotonicNs's clock,
  // 0 for not at all. 0 may come early: look at the clock.
  virtual size_t Take(std::span<BlockEnd> ends, int64_t deadline_ns) = 0;

  // The most that may be started and not taken.
  virtual size_t depth() const = 0;

  // "io_uring", "4 threads".
  virtual std::string_view how() const = 0;
};

}  // namespace weft
