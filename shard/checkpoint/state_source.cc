#include "shard/checkpoint/state_source.h"

#include "base/status.h"

namespace weft {
namespace {

absl::Status NoSuchPart() {
  return MakeError(WEFT_INTERNAL_ERROR, "all parts of this source are in memory");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const void>> StateSource::Hold(int64_t /*until_ns*/) {
  return NoSuchPart();
}

absl::Status StateSource::ReadHeld(size_t /*tensor*/, weft_shard_state_kind_t /*kind*/,
                                   size_t /*begin*/, size_t /*count*/, void* /*to*/) {
  return NoSuchPart();
}

absl::Status StateSource::Write(size_t /*tensor*/, weft_shard_state_kind_t /*kind*/,
                                size_t /*begin*/, size_t /*count*/, const void* /*from*/) {
  return NoSuchPart();
}

}  // namespace weft
