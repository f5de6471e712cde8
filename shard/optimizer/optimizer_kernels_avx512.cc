// Compiled with -mavx512f,bw,vl,dq: nothing here may be called on a CPU without them.
#include "shard/optimizer/optimizer_isa.h"
#include "shard/optimizer/optimizer_updates.h"

namespace weft {

OptimizerKernels OptimizerKernelsAvx512() {
  return AllOptimizerKernels<WideLanes<8>>();
}

}  // namespace weft
