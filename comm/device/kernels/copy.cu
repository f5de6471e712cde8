// Copies: comm/device/element/copy.h.
#include "comm/device/element/copy.h"
#include "comm/device/kernels/kernel_list.h"
#include "comm/device/kernels/team.cuh"

namespace weft::device {

#define WEFT_DEFINE(name, In, Out)                   \
  WEFT_KERNEL(name, CastParameters, 2) {             \
    CastElements<In, Out>(parameters, ThisWorker()); \
  }
WEFT_CAST_KERNELS(WEFT_DEFINE)

WEFT_KERNEL(weft_gather, PiecesParameters, 2) {
  MovePieces<true>(parameters, ThisWorker());
}

WEFT_KERNEL(weft_scatter, PiecesParameters, 2) {
  MovePieces<false>(parameters, ThisWorker());
}

WEFT_KERNEL(weft_fill, FillParameters, 2) {
  FillBytes(parameters, ThisWorker());
}

}  // namespace weft::device
