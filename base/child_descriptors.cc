// A table that the handler in the child reads as it is: whoever was about to change it in the parent does not exist there.
#include "base/child_descriptors.h"

#include <algorithm>
#include <array>
#include <atomic>

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace weft {
namespace {

// Each a descriptor and 1; 0: free. Those from `kept_end` on were never used.
std::array<std::atomic<int>, kKeptMax> kept{};
std::atomic<int> kept_end{0};

void GiveUpInChild() {
  const int instead = eventfd(0, EFD_CLOEXEC);
  for (int i = 0; i < kept_end.load(); ++i) {
    const int fd = kept[static_cast<size_t>(i)].exchange(0) - 1;
    if (fd < 0) continue;
    if (instead < 0 || dup3(instead, fd, O_CLOEXEC) < 0) close(fd);
  }
  if (instead >= 0) close(instead);
}

}  // namespace

void KeepFromChildren(int fd) {
  static const int registered = pthread_atfork(nullptr, nullptr, GiveUpInChild);
  if (registered != 0 || fd < 0) return;
  for (int i = 0; i < kKeptMax; ++i) {
    int free = 0;
    if (!kept[static_cast<size_t>(i)].compare_exchange_strong(free, fd + 1)) continue;
    int end = kept_end.load();
    while (end < i + 1 && !kept_end.compare_exchange_weak(end, i + 1)) {
    }
    return;
  }
}

void ForgetKept(int fd) {
  const int end = kept_end.load();
  for (int i = 0; i < end; ++i) {
    int entry = fd + 1;
    if (kept[static_cast<size_t>(i)].compare_exchange_strong(entry, 0)) return;
  }
}

}  // namespace weft
