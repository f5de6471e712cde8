// Plain C++ for any CPU; what the other instruction sets are compared with.
#include "shard/optimizer/optimizer_isa.h"
#include "shard/optimizer/optimizer_updates.h"

namespace weft {

OptimizerKernels OptimizerKernelsScalar() {
  return AllOptimizerKernels<WideLanes<1>>();
}

}  // namespace weft
