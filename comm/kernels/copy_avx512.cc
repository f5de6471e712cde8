// Compiled with -mavx512f,bw,vl,dq: nothing here may be called on a CPU without them.
#include "comm/kernels/copy_isa.h"
#include "comm/kernels/copy_stream.h"

namespace weft {
namespace {

struct WholeLine {
  __m512i bytes;

  WEFT_INLINE static WholeLine Load(const char* from) { return {_mm512_loadu_si512(from)}; }

  WEFT_INLINE static void Stream(char* to, const WholeLine& line) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line.bytes);
  }
};

}  // namespace

void StreamCopyAvx512(void* to, const void* from, size_t bytes) {
  StreamCopy<WholeLine>(static_cast<char*>(to), static_cast<const char*>(from), bytes);
}

}  // namespace weft
