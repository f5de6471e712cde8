// Plain C++ for any CPU; what the other instruction sets are compared with.
#include "shard/optimizer/optimizer_isa.h"
#include "shard/optimizer/square_blocks.h"

namespace weft {

SquareBlocksKernel SquareBlocksScalar() {
  return SumBlocks<WideLanes<1>>;
}

}  // namespace weft
