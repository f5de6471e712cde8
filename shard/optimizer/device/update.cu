// The optimizers: shard/optimizer/device/update.h.
#include "comm/device/kernels/team.cuh"
#include "shard/optimizer/device/kernel_list.h"
#include "shard/optimizer/device/update.h"

namespace weft::device {

#define WEFT_DEFINE(name, Step, Update, G)       \
  WEFT_KERNEL(name, UpdateParameters<Step>, 2) { \
    Update<G>(parameters, ThisWorker());         \
  }
WEFT_UPDATE_KERNELS(WEFT_DEFINE)

WEFT_KERNEL(weft_lamb_apply, UpdateParameters<LambStep>, 2) {
  ApplyByLamb(parameters, ThisWorker());
}

}  // namespace weft::device
