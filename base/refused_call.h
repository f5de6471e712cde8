// Errors of system calls that old kernels lack and that the filters of containers refuse.
//
//   if (fd < 0) return RefusedCallError(errno, "memfd_create", "could not make shared memory");
//
// Thread-safety: any thread.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace weft {

// SystemError() with "<what>: <call>: <text of error_number>", and where the call itself seems to be refused
// (ENOSYS, EPERM, EACCES) by whom.
absl::Status RefusedCallError(int error_number, std::string_view call, std::string_view what);

}  // namespace weft
