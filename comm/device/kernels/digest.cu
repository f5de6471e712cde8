// BLAKE3: comm/device/element/digest.h.
#include "comm/device/element/digest.h"
#include "comm/device/kernels/team.cuh"

namespace weft::device {

WEFT_KERNEL(weft_digest_chunks, ChunksParameters, 2) {
  DigestChunks(parameters, ThisWorker());
}

WEFT_KERNEL(weft_digest_parents, ParentsParameters, 2) {
  DigestParents(parameters, ThisWorker());
}

}  // namespace weft::device
