// Whether it makes sense to try again.
//
//   const absl::StatusOr<int> stream = net->Connect(endpoint);
//   if (IsRefusedCall(stream.status())) return stream.status();      // now, not at the deadline
//
// Thread-safety: pure.
#pragma once

#include "absl/status/status.h"

namespace weft {

// RefusedCallError()'s (base/status.h) of a call that is refused here, whoever asks and however often: a filter, or a kernel without it.
bool IsRefusedCall(const absl::Status& status);

}  // namespace weft
