// A table that the handler in the child reads as it is: whoever was about to change it in the parent does not exist there.
#include "base/child_descriptors.h"

#include <array>
#include <atomic>

#include <pthread.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/new_fd.h"

namespace weft {
namespace {

// Each a descriptor and 1; 0: free.
std::array<std::atomic<int>, kKeptMax> kept{};

void GiveUpInChild() {
  const UniqueFd instead = MakeEvent(0);
  for (std::atomic<int>& entry : kept) {
    const int fd = entry.exchange(0) - 1;
    if (fd < 0) continue;
    if (!instead.valid() || !ReplaceFd(fd, instead.get())) close(fd);
  }
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
