#include "base/seams.h"

#include <cerrno>

#include <sys/random.h>

#include "base/status.h"

namespace weft {

absl::Status SystemRandom::Fill(void* data, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t count = getrandom(static_cast<char*>(data) + done, bytes - done, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, "could not get random bytes from the kernel");
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

const Seams& SystemSeams() {
  static SystemClock* const clock = new SystemClock;
  static SystemNet* const net = new SystemNet;
  static SystemRandom* const random = new SystemRandom;
  static SystemProc* const proc = new SystemProc;
  static const Seams seams{clock, net, random, proc};
  return seams;
}

}  // namespace weft
