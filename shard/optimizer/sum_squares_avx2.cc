// Compiled with -mavx2 -mf16c: nothing here may be called on a CPU without them.
#include "shard/optimizer/optimizer_isa.h"
#include "shard/optimizer/square_blocks.h"

namespace weft {

SquareBlocksKernel SquareBlocksAvx2() {
  return SumBlocks<WideLanes<4>>;
}

}  // namespace weft
