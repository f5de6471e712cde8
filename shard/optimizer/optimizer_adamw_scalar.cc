// Plain C++ for any CPU; what the other instruction sets are compared with.
#include "shard/optimizer/optimizer_adamw.h"
#include "shard/optimizer/optimizer_isa.h"

namespace weft {

AdamWKernel AdamWScalar() {
  return UpdateByAdamW<SingleLanes<1>>;
}

}  // namespace weft
