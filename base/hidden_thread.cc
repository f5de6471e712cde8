#include "base/hidden_thread.h"

#include <cerrno>
#include <csignal>
#include <new>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <sys/resource.h>

#include "base/mutex.h"
#include "base/status.h"

namespace weft {
namespace {

// For a scope: a thread that starts in it blocks all signals.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }

  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// Of threads that are started without a wish; 0: not known.
size_t DefaultStackBytes() {
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) != 0) return 0;
  size_t bytes = 0;
  if (pthread_attr_getstacksize(&attributes, &bytes) != 0) bytes = 0;
  pthread_attr_destroy(&attributes);
  return bytes;
}

void SetDefaultStackBytes(size_t bytes) {
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) != 0) return;
  if (pthread_attr_setstacksize(&attributes, bytes) == 0)
    (void)pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

// Of RoomyStacks, and never destroyed: threads may start while the process exits. A child made by fork() gets a mutex that nobody holds: it may start threads too, and has none of its parent's.
Mutex& DefaultStackMutex() {
  static auto* const mutex = [] {
    pthread_atfork(nullptr, nullptr, [] { new (&DefaultStackMutex()) Mutex; });
    return new Mutex;
  }();
  return *mutex;
}

// For a scope: a thread that starts in it has a stack of kLeastStackBytes at least. The C library takes the limit on stacks for the
// size of those of threads, and in one of 64 KiB no name can be looked up. The default is the whole process's, and std::thread
// has no other way: so it is touched for a moment only, and where it is large enough, as nearly always, not at all. Two of weft's
// threads that start others take turns, so that neither takes the other's setting for the program's.
class RoomyStacks {
 public:
  RoomyStacks() : lock_(DefaultStackMutex()), before_bytes_(DefaultStackBytes()) {
    if (IsSmall()) SetDefaultStackBytes(kLeastStackBytes);
  }

  RoomyStacks(const RoomyStacks&) = delete;
  RoomyStacks& operator=(const RoomyStacks&) = delete;

  ~RoomyStacks() {
    if (IsSmall()) SetDefaultStackBytes(before_bytes_);
  }

 private:
  bool IsSmall() const { return before_bytes_ != 0 && before_bytes_ < kLeastStackBytes; }

  const MutexLock lock_;
  const size_t before_bytes_;  // 0: not known
};

constexpr int kLowNice = 10;

// Of the calling thread alone: what Linux takes for a process here is a thread, and 0 is the caller.
void LowerPriority() {
  errno = 0;
  const int nice_value = getpriority(PRIO_PROCESS, 0);
  if (nice_value != -1 || errno == 0) (void)setpriority(PRIO_PROCESS, 0, nice_value + kLowNice);
}

}  // namespace

absl::StatusOr<std::thread> StartHiddenThread(const char* name, std::function<void()> body,
                                              ThreadPriority priority) {
  const BlockedSignals blocked;
  const RoomyStacks roomy;
  try {
    return std::thread([name, priority, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      if (priority == ThreadPriority::kLow) LowerPriority();
      body();
    });
  } catch (const std::system_error& error) {
    return SystemError(error.code().value(), "starting a thread");
  }
}

}  // namespace weft
