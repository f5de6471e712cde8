// The streaming copy of one instruction set.
#include "comm/kernels/copy.h"
#include "comm/kernels/lanes.h"

namespace weft {

#if defined(__AVX2__)
namespace {

constexpr size_t kStreamedBytes = 64;

#if defined(__AVX512F__)
struct Line {
  __m512i bytes;

  WEFT_INLINE static Line Load(const char* from) { return {_mm512_loadu_si512(from)}; }

  WEFT_INLINE static void Stream(char* to, const Line& line) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line.bytes);
  }
};
#else
struct Line {
  __m256i low;
  __m256i high;

  WEFT_INLINE static Line Load(const char* from) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + 1)};
  }

  WEFT_INLINE static void Stream(char* to, const Line& line) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), line.low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to) + 1, line.high);
  }
};
#endif

}  // namespace

template <>
void StreamCopy<kKernelIsa>(void* destination, const void* source, size_t bytes) {
  char* const to = static_cast<char*>(destination);
  const char* const from = static_cast<const char*>(source);
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
#else
template <>
void StreamCopy<kKernelIsa>(void* to, const void* from, size_t bytes) {
  if (bytes != 0) __builtin_memcpy(to, from, bytes);  // pointers may be null when there is nothing
}
#endif

}  // namespace weft
