#include "comm/kernels/copy.h"

#include <cstring>

#include "comm/kernels/copy_isa.h"

namespace weft {
namespace {

void PlainCopy(void* to, const void* from, size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);  // pointers may be null when there is nothing
}

}  // namespace

CopyKernel FindStreamCopy(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
      return StreamCopyAvx2;
    case Isa::kAvx512:
      return StreamCopyAvx512;
#endif
    default:
      return PlainCopy;
  }
}

}  // namespace weft
