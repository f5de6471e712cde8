// Compiled with -mavx2 -mfma -mf16c: nothing here may be called on a CPU without them.
#include "shard/optimizer/optimizer_adamw.h"
#include "shard/optimizer/optimizer_isa.h"

namespace weft {

AdamWKernel AdamWAvx2() {
  return UpdateByAdamW<SingleLanes<8>>;
}

}  // namespace weft
