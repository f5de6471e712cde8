// min_loc and max_loc: comm/device/element/located.h.
#include "comm/device/element/located.h"
#include "comm/device/kernels/kernel_list.h"
#include "comm/device/kernels/team.cuh"

namespace weft::device {

#define WEFT_DEFINE(name, E, kMinimum)                    \
  WEFT_KERNEL(name, ReduceParameters, 2) {                \
    LocateSources<E, kMinimum>(parameters, ThisWorker()); \
  }
WEFT_LOCATED_KERNELS(WEFT_DEFINE)

}  // namespace weft::device
