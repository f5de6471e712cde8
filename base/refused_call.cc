#include "base/refused_call.h"

#include "base/status.h"

namespace weft {

bool IsRefusedCall(const absl::Status& status) {
  return absl::IsPermissionDenied(status) && ResultOf(status) == WEFT_SYSTEM_ERROR;
}

}  // namespace weft
