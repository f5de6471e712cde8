#include "base/write_file.h"

#include <cerrno>

#include <unistd.h>

#include "base/status.h"

namespace weft {

absl::Status WriteAndClose(UniqueFd fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(errno, "writing");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (close(fd.Release()) != 0) return SystemError(errno, "closing");
  return absl::OkStatus();
}

}  // namespace weft
