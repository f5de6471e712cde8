// Compiled with -mavx2 -mf16c: nothing here may be called on a CPU without them.
#include "comm/kernels/copy_isa.h"
#include "comm/kernels/copy_stream.h"

namespace weft {
namespace {

struct TwoHalves {
  __m256i low;
  __m256i high;

  WEFT_INLINE static TwoHalves Load(const char* from) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + 1)};
  }

  WEFT_INLINE static void Stream(char* to, const TwoHalves& line) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), line.low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to) + 1, line.high);
  }
};

}  // namespace

void StreamCopyAvx2(void* to, const void* from, size_t bytes) {
  StreamCopy<TwoHalves>(static_cast<char*>(to), static_cast<const char*>(from), bytes);
}

}  // namespace weft
