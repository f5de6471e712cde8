// A rank's send and receive buffer, each of maxbytes with room around it for canaries.
//
// Thread-safety: used by the rank's thread only. Owns the memory.
#ifndef WEFT_BENCH_WEFT_PERF_BUFFERS_H_
#define WEFT_BENCH_WEFT_PERF_BUFFERS_H_

#include <cstddef>

#include "weft/group.h"

#include "bench/weft_perf/options.h"
#include "bench/weft_perf/outcome.h"

namespace weft::perf {

class Buffer {
 public:
  static constexpr size_t kCanaryBytes = 64;

  Buffer() = default;
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // All pages are touched: untouched ones would read as one shared page of zeros. Memory::kShared: collective over
  // `group`, with which the memory goes.
  Outcome Allocate(size_t bytes, size_t shift_bytes_max, Memory memory,
                   weft_group_t group = nullptr);

  // Page aligned; [data(), data() + bytes + shift_bytes_max) is the operation's.
  unsigned char* data() const { return block_ + kPage; }

  // What Allocate took.
  size_t allocated() const { return allocated_; }

  // Puts canaries right before and after [offset, offset + bytes), and counts those that changed.
  void SetCanaries(size_t offset, size_t bytes);
  size_t ChangedCanaries(size_t offset, size_t bytes) const;

 private:
  static constexpr size_t kPage = 4096;

  unsigned char* block_ = nullptr;
  size_t allocated_ = 0;
  Memory memory_ = Memory::kPrivate;
};

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_BUFFERS_H_
