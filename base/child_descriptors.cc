// A table that the handler in the child reads as it is: whoever was about to change it in the parent does not exist there.
#include "base/child_descriptors.h"

#include <array>
#include <atomic>

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace weft {
namespace {

// Each a descriptor and 1; 0: free.
std::array<std::atomic<int>, kKeptMax> kept{};

void GiveUpInChild() {
  const int instead = eventfd(0, EFD_CLOEXEC);
  for (std::atomic<int>& entry : kept) {
    const int fd = entry.exchange(0) - 1;
    if (fd < 0) continue;
    if (instead < 0 || dup3(instead, fd, O_CLOEXEC) < 0) close(fd);
  }
  if (instead >= 0) close(instead);
}

}  // namespace

void KeepFromChildren(int fd) {
  static const int registered = pthread_atfork(nullptr, nullptr, GiveUpInChild);
  if (registered != 0 || fd < 0) return;
  for (std::atomic<int>& entry : kept) {
    int free = 0;
    if (entry.compare_exchange_strong(free, fd + 1)) return;
  }
}

void ForgetKept(int fd) {
  for (std::atomic<int>& entry : kept) {
    int known = fd + 1;
    if (entry.compare_exchange_strong(known, 0)) return;
  }
}

}  // namespace weft
