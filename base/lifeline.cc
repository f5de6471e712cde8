#include "base/lifeline.h"

#include <atomic>
#include <cerrno>

#include <pthread.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/new_fd.h"
#include "base/status.h"

namespace weft {
namespace {

// The two ends of this process's pipe, or -1. Atomic because a forked child gives them up though another thread of its
// parent may have held the mutex.
std::atomic<int> reading_end{-1};
std::atomic<int> writing_end{-1};

void CloseInChild() {
  for (std::atomic<int>* const end : {&reading_end, &writing_end}) {
    if (const int fd = end->exchange(-1); fd >= 0) close(fd);
  }
}

absl::StatusOr<Lifeline> OwnPipe() {
  static Mutex& mutex = *new Mutex;
  MutexLock lock(mutex);
  static const int registered = pthread_atfork(nullptr, nullptr, CloseInChild);
  if (registered != 0) return SystemError(registered, "preparing for forks (pthread_atfork)");
  if (writing_end.load() < 0) {
    PipeEnds ends = MakePipe();
    if (!ends.valid()) {
      return SystemError(errno, "making the pipe by which peers learn that this process has ended");
    }
    reading_end = ends.read.Release();
    writing_end = ends.write.Release();
  }
  UniqueFd fd = DuplicateFd(reading_end);
  if (!fd.valid()) return SystemError(errno, "copying the descriptor that peers watch");
  return Lifeline{std::move(fd), Lifeline::Kind::kPipe};
}

}  // namespace

absl::StatusOr<Lifeline> OwnLifeline() {
  UniqueFd pidfd = OpenProcess(getpid());
  if (pidfd.valid()) return Lifeline{std::move(pidfd), Lifeline::Kind::kPidfd};
  if (errno == EMFILE || errno == ENFILE) return SystemError(errno, "pidfd_open of this process");
  return OwnPipe();
}

}  // namespace weft
