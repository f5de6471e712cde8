#include "tests/support/parked_thread.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/wait.h"

namespace weft::test {
namespace {

struct Plan {
  int left = 0;  // locks until the one to stop at; 0: none
  int told = -1;
  int release = -1;
};

thread_local constinit Plan plan;

// Nothing here takes a lock.
void CountLock() {
  if (plan.left == 0 || --plan.left > 0) return;
  const int saved = errno;
  const char parked = 'p';
  WEFT_CHECK(write(plan.told, &parked, 1) == 1);
  pollfd item{plan.release, POLLIN, 0};
  poll(&item, 1, ParkedThread::kPatienceMs);
  errno = saved;
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

ParkedThread::ParkedThread(int k, std::function<void()> body) {
  WEFT_CHECK(pipe(told_) == 0 && pipe(release_) == 0);
  thread_ = std::thread([this, k, body = std::move(body)] {
    plan = {.left = k, .told = told_[1], .release = release_[0]};
    body();
    plan = {};
    close(told_[1]);
  });
  char said = 0;
  parked_ = read(told_[0], &said, 1) == 1;
}

ParkedThread::~ParkedThread() {
  close(release_[1]);
  thread_.join();
  close(release_[0]);
  close(told_[0]);
}

std::string RunForkedChild(double seconds, AtEnd at_end, const std::function<std::string()>& body) {
  int said[2];
  WEFT_CHECK(pipe(said) == 0);
  const int64_t deadline_ns = MonotonicNs() + static_cast<int64_t>(seconds * 1e9);
  std::fflush(nullptr);  // or both say what is in the buffers
  const pid_t child = fork();
  WEFT_CHECK(child >= 0);
  if (child == 0) {
    const std::string problem = body();
    if (!problem.empty() && write(said[1], problem.data(), problem.size()) < 0) std::abort();
    if (at_end == AtEnd::kNothing) _exit(problem.empty() ? 0 : 1);
    std::exit(problem.empty() ? 0 : 1);
  }
  close(said[1]);
  // The pipe closes when the child ends.
  std::string problem;
  while (true) {
    pollfd item{said[0], POLLIN, 0};
    const int64_t left_ms = (deadline_ns - MonotonicNs()) / 1'000'000;
    if (left_ms <= 0 || poll(&item, 1, static_cast<int>(left_ms)) == 0) {
      problem = "the child did not come to its end";
      kill(child, SIGKILL);
      break;
    }
    char buffer[1024];
    const ssize_t count = read(said[0], buffer, sizeof(buffer));
    if (count == 0) break;
    if (count > 0) problem.append(buffer, static_cast<size_t>(count));
  }
  close(said[0]);
  int status = 0;
  WEFT_CHECK(waitpid(child, &status, 0) == child);
  if (problem.empty() && status != 0) problem = "wait status " + std::to_string(status);
  return problem;
}

}  // namespace weft::test

#define WEFT_COUNT_LOCKS(name, type)                                       \
  extern "C" int name(type* lock) {                                        \
    static int (*const next)(type*) = weft::test::Next<int(type*)>(#name); \
    const int result = next(lock);                                         \
    weft::test::CountLock();                                               \
    return result;                                                         \
  }

WEFT_COUNT_LOCKS(pthread_mutex_lock, pthread_mutex_t)
WEFT_COUNT_LOCKS(pthread_rwlock_rdlock, pthread_rwlock_t)
WEFT_COUNT_LOCKS(pthread_rwlock_wrlock, pthread_rwlock_t)
