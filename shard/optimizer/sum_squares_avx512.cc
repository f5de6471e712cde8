// Compiled with -mavx512f,bw,vl,dq: nothing here may be called on a CPU without them.
#include "shard/optimizer/optimizer_isa.h"
#include "shard/optimizer/square_blocks.h"

namespace weft {

SquareBlocksKernel SquareBlocksAvx512() {
  return SumBlocks<WideLanes<8>>;
}

}  // namespace weft
