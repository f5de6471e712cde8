#include "base/hidden_thread.h"

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <sys/resource.h>

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
