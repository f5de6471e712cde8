// The optimizers' kernels of one instruction set.
#include "shard/optimizer/optimizer_isa.h"

#include "shard/optimizer/optimizer_adamw.h"
#include "shard/optimizer/optimizer_updates.h"

namespace weft {

template <>
const OptimizerKernels& KernelsFor<kKernelIsa>() {
  using Wide = WideLanes<kRegisterBytes == 0 ? 1 : kRegisterBytes / int{sizeof(double)}>;
  using Single = SingleLanes<kRegisterBytes == 0 ? 1 : kRegisterBytes / int{sizeof(float)}>;
  static constexpr OptimizerKernels kernels = {
      UpdateByAdamW<Single>, UpdateBySgd<Wide>,  UpdateByLion<Wide>, UpdateLambMoments<Wide>,
      ApplyLambUpdate<Wide>, UpdateByLars<Wide>, ScaleValues<Wide>,  SumBlocks<Wide>};
  return kernels;
}

}  // namespace weft
