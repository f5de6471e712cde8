#include "comm/node/heap_copy.h"

#include <cstring>

#include "base/status.h"
#include "comm/kernels/copy.h"
#include "comm/node/heap.h"
#include "comm/select/load_model.h"
#include "comm/select/tuning.h"

namespace weft {
namespace {

// Below it no machine's tuning streams, and the model, which may have to be measured first, is not asked.
constexpr size_t kStreamBytesMin = 1 << 20;

bool Streams(size_t bytes) {
  return bytes >= kStreamBytesMin && bytes >= Choose(ProcessModel().model, 1).stream_out_min_bytes;
}

}  // namespace

absl::StatusOr<void*> AllocateCopy(const void* from, size_t bytes) {
  WEFT_ASSIGN_OR_RETURN(void* const block, ProcessHeap().Allocate(bytes));
  if (Streams(bytes)) {
    FindStreamCopy(BestIsa())(block, from, bytes);
  } else {
    std::memcpy(block, from, bytes);
  }
  return block;
}

}  // namespace weft
