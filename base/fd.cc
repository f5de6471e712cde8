#include "base/fd.h"

#include <unistd.h>

namespace weft {

// Linux frees the number even when close() is interrupted, so it is never repeated.
void UniqueFd::Reset() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace weft
