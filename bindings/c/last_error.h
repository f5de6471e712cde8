// The last failure of each thread, behind weft_last_error() and weft_last_error_info().
//
// Thread-safety: every thread has its own.
#pragma once

#include "weft/error.h"
#include "weft/types.h"

#include "absl/status/status.h"

namespace weft {

// Keeps message and fields of a failure for this thread and returns its result code.
weft_result_t KeepFailure(const absl::Status& failure);

// As KeepFailure; for Ok, keeps nothing and returns WEFT_SUCCESS.
inline weft_result_t SetLastError(const absl::Status& status) {
  return status.ok() ? WEFT_SUCCESS : KeepFailure(status);
}

// The fields of a status, without struct_size; all unknown for Ok.
weft_error_info_t ErrorInfoOf(const absl::Status& status);

}  // namespace weft
