// Compiled with -mavx512f,bw,vl,dq: nothing here may be called on a CPU without them.
#include "shard/optimizer/optimizer_adamw.h"
#include "shard/optimizer/optimizer_isa.h"

namespace weft {

AdamWKernel AdamWAvx512() {
  return UpdateByAdamW<SingleLanes<16>>;
}

}  // namespace weft
