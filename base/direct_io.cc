#include "base/direct_io.h"

#include <fcntl.h>

namespace weft {

bool SetDirect(int fd, bool direct) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

}  // namespace weft
