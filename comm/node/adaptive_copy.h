// Copies into memory that peers read, by the kind of stores that is quicker at the moment.
//
//   AdaptiveCopy copy(FindStreamCopy(isa), false);
//   copy.Copy(slot, input, bytes);
//   state.Publish(...);                         // what was copied is visible to whoever sees this
//
// A store to a line that a peer has read must take the line back first. What that costs depends on where
// the two cores are, which in a virtual machine changes while a program runs; stores that bypass the
// caches cost the same everywhere, and make the peer read from memory. So both are timed now and then on
// the copies that have to be made anyway, and the cheaper one is taken (docs/perf/collectives.md). The
// choice is this rank's own: peers cannot tell the difference.
//
// Thread-safety: none; one per rank of a group, under the group's issue or step lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "comm/kernels/copy.h"

namespace weft {

class AdaptiveCopy {
 public:
  AdaptiveCopy() = default;

  // `streams`: what to begin with.
  AdaptiveCopy(CopyKernel stream, bool streams) : stream_(stream), streams_(streams) {}

  // At least one byte.
  void Copy(void* to, const void* from, size_t bytes) {
    if (bytes >= kWordBytes && bytes <= 2 * kWordBytes) {  // a call would be longer than the copy
      const char* const last = static_cast<const char*>(from) + bytes - kWordBytes;
      uint64_t words[2];
      std::memcpy(&words[0], from, kWordBytes);
      std::memcpy(&words[1], last, kWordBytes);
      std::memcpy(to, &words[0], kWordBytes);
      std::memcpy(static_cast<char*>(to) + bytes - kWordBytes, &words[1], kWordBytes);
    } else if (bytes >= kLeastBytes && --copies_until_look_ == 0) {
      CopyAndLook(static_cast<char*>(to), static_cast<const char*>(from), bytes);
    } else if (bytes >= kLeastBytes && streams_) {
      stream_(to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  }

  bool streams() const { return streams_; }

 private:
  static constexpr size_t kLeastBytes = 1024;
  static constexpr size_t kWordBytes = sizeof(uint64_t);

  void CopyAndLook(char* to, const char* from, size_t bytes);

  CopyKernel stream_ = nullptr;
  bool streams_ = false;
  bool look_at_stream_ = false;
  uint32_t copies_until_look_ = 1;
  double plain_line_ns_ = 0;  // 0: not known yet
  double stream_line_ns_ = 0;
};

}  // namespace weft
