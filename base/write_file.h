// The last step of making a file: all of its bytes, and the descriptor closed.
//
//   WEFT_RETURN_IF_ERROR(WriteAndClose(std::move(fd), text));
//   rename(aside, path);
//
// Thread-safety: any thread.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "base/fd.h"

namespace weft {

// Writes all of `bytes` to `fd` and closes it. SystemError() of what failed; some file systems tell of a
// full disk only when the file is closed.
absl::Status WriteAndClose(UniqueFd fd, std::string_view bytes);

}  // namespace weft
