// The loop of a streaming copy; Line says how one instruction set moves 64 bytes. Internal linkage, see
// lanes.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "comm/kernels/lanes.h"

namespace weft {
namespace {

constexpr size_t kStreamedBytes = 64;

// Line::Load(from) is the 64 bytes at `from`, Line::Stream(to, line) writes them to an aligned `to`.
template <typename Line>
WEFT_INLINE void StreamCopy(char* to, const char* from, size_t bytes) {
  constexpr size_t kUnrolled = 4;  // loads in flight before the stores that wait for them
  const size_t head = -reinterpret_cast<uintptr_t>(to) % kStreamedBytes;
  if (bytes < head + kStreamedBytes) {  // no whole line
    if (bytes != 0) __builtin_memcpy(to, from, bytes);
    return;
  }
  if (head != 0) __builtin_memcpy(to, from, head);
  size_t done = head;
  for (; done + kUnrolled * kStreamedBytes <= bytes; done += kUnrolled * kStreamedBytes) {
    Line lines[kUnrolled];
#pragma GCC unroll 4
    for (size_t i = 0; i < kUnrolled; ++i)
      lines[i] = Line::Load(from + done + i * kStreamedBytes);
#pragma GCC unroll 4
    for (size_t i = 0; i < kUnrolled; ++i)
      Line::Stream(to + done + i * kStreamedBytes, lines[i]);
  }
  for (; done + kStreamedBytes <= bytes; done += kStreamedBytes)
    Line::Stream(to + done, Line::Load(from + done));
  if (done != bytes) __builtin_memcpy(to + done, from + done, bytes - done);
  // A release store is an ordinary store on x86, which orders what ordinary stores did before it but
  // nothing streamed: without this a peer could see the flag before the data.
  _mm_sfence();
}

}  // namespace
}  // namespace weft
