// Compiled with -mavx2 -mf16c: nothing here may be called on a CPU without them.
#include "shard/optimizer/optimizer_isa.h"
#include "shard/optimizer/optimizer_updates.h"

namespace weft {

OptimizerKernels OptimizerKernelsAvx2() {
  return AllOptimizerKernels<WideLanes<4>>();
}

}  // namespace weft
