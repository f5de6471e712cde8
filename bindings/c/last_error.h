// The last failure of each thread, behind weft_last_error() and weft_last_error_info().
//
// Thread-safety: every thread has its own.
#pragma once

#include "weft/types.h"

#include "absl/status/status.h"

namespace weft {

// Keeps message and fields of a failure for this thread and returns its result code; for Ok keeps
// nothing and returns WEFT_SUCCESS.
weft_result_t SetLastError(const absl::Status& status);

}  // namespace weft
