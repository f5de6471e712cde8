#include "comm/kernels/copy.h"

namespace weft {

CopyKernel FindStreamCopy(Isa isa) {
  return ForIsa(isa, []<Isa kIsa>() -> CopyKernel { return StreamCopy<kIsa>; });
}

}  // namespace weft
