#include "base/hidden_thread.h"

#include <csignal>
#include <system_error>
#include <utility>

#include <pthread.h>

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

}  // namespace

absl::StatusOr<std::thread> StartHiddenThread(const char* name, std::function<void()> body) {
  const BlockedSignals blocked;
  try {
    return std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      body();
    });
  } catch (const std::system_error& error) {
    return SystemError(error.code().value(), "starting a thread");
  }
}

}  // namespace weft
