#include "base/refused_call.h"

#include <cerrno>

#include "base/status.h"
#include "base/text.h"

namespace weft {

absl::Status RefusedCallError(int error_number, std::string_view call, std::string_view what) {
  const absl::Status error = SystemError(error_number, StrCat(what, ": ", call));
  if (error_number != ENOSYS && error_number != EPERM && error_number != EACCES) return error;
  return MakeError(
      ResultOf(error),
      StrCat(error.message(), "; the kernel or a seccomp filter (of a container, say) ",
             "does not allow ", call));
}

}  // namespace weft
