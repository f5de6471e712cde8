#include "tests/support/failing_calls.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <ctime>
#include <functional>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/wrapped_call.h"

namespace weft::test {
namespace {

struct Plan {
  int left = 0;          // calls until the one that fails; 0: none will
  int error_wanted = 0;  // 0: the call's own
  const char* name = nullptr;
  int error_number = 0;
  bool dies = false;              // instead
  const char* awaited = nullptr;  // the call before which `meanwhile` runs
  std::function<void()> meanwhile;
  ThenCall then = ThenCall::kIsMade;
};

thread_local Plan thread_plan;

std::mutex process_mutex;
Plan process_plan;  // guarded by it
std::atomic<bool> process_planned{false};

void SetPlan(CallsOf calls, const Plan& plan) {
  if (calls == CallsOf::kThisThread) {
    thread_plan = plan;
    return;
  }
  const std::lock_guard<std::mutex> lock(process_mutex);
  process_plan = plan;
  process_planned = plan.left > 0;
}

Plan PlanOf(CallsOf calls) {
  if (calls == CallsOf::kThisThread) return thread_plan;
  const std::lock_guard<std::mutex> lock(process_mutex);
  return process_plan;
}

bool StrikesBy(Plan& plan, const char* name, int error_number) {
  if (plan.left == 0 || --plan.left > 0) return false;
  if (plan.dies) kill(getpid(), SIGKILL);
  plan.name = name;
  plan.error_number = plan.error_wanted != 0 ? plan.error_wanted : error_number;
  errno = plan.error_number;
  return true;
}

void Sleep(int64_t duration_ns) {
  const timespec duration{duration_ns / 1'000'000'000, duration_ns % 1'000'000'000};
  nanosleep(&duration, nullptr);
}

}  // namespace

bool Strikes(const char* name, int error_number) {
  Plan& plan = thread_plan;
  if (plan.awaited != nullptr && std::strcmp(name, plan.awaited) == 0) {
    const Plan now = std::exchange(plan, {});  // calls in `meanwhile` are not planned
    now.meanwhile();
    errno = error_number;
    return now.then == ThenCall::kFails;
  }
  if (StrikesBy(plan, name, error_number)) return true;
  if (!process_planned) return false;
  const std::lock_guard<std::mutex> lock(process_mutex);
  return StrikesBy(process_plan, name, error_number);
}

FailingCalls::FailingCalls(int k, int error_number, CallsOf calls) : calls_(calls) {
  SetPlan(calls, {.left = k, .error_wanted = error_number});
}

FailingCalls::~FailingCalls() {
  SetPlan(calls_, {});
}

void DieAtCall(int k, CallsOf calls) {
  SetPlan(calls, {.left = k, .dies = true});
}

void BeforeCall(const char* name, std::function<void()> meanwhile, ThenCall then) {
  thread_plan = {.awaited = name, .meanwhile = std::move(meanwhile), .then = then};
}

void DelayCall(const char* name, int64_t delay_ns) {
  BeforeCall(
      name, [delay_ns] { Sleep(delay_ns); }, ThenCall::kIsMade);
}

void FailCallLate(const char* name, int64_t delay_ns) {
  BeforeCall(
      name, [delay_ns] { Sleep(delay_ns); }, ThenCall::kFails);
}

bool FailingCalls::struck() const {
  return PlanOf(calls_).name != nullptr;
}

std::string FailingCalls::what() const {
  const Plan plan = PlanOf(calls_);
  if (plan.name == nullptr) return "no call failed";
  return std::string(plan.name) + " failed with " + std::strerror(plan.error_number);
}

}  // namespace weft::test

WEFT_WRAP(int, socket, EMFILE, -1, (int a, int b, int c), (a, b, c))
WEFT_WRAP(int, bind, EADDRINUSE, -1, (int a, const sockaddr* b, socklen_t c), (a, b, c))
WEFT_WRAP(int, listen, EADDRINUSE, -1, (int a, int b), (a, b))
WEFT_WRAP(int, accept4, EMFILE, -1, (int a, sockaddr* b, socklen_t* c, int d), (a, b, c, d))
WEFT_WRAP(int, connect, ECONNREFUSED, -1, (int a, const sockaddr* b, socklen_t c), (a, b, c))
WEFT_WRAP(int, getsockopt, ENOBUFS, -1, (int a, int b, int c, void* d, socklen_t* e),
          (a, b, c, d, e))
WEFT_WRAP(int, setsockopt, ENOMEM, -1, (int a, int b, int c, const void* d, socklen_t e),
          (a, b, c, d, e))
WEFT_WRAP(int, getsockname, ENOBUFS, -1, (int a, sockaddr* b, socklen_t* c), (a, b, c))
WEFT_WRAP(int, getpeername, ENOBUFS, -1, (int a, sockaddr* b, socklen_t* c), (a, b, c))
WEFT_WRAP(ssize_t, recv, ECONNRESET, -1, (int a, void* b, size_t c, int d), (a, b, c, d))
WEFT_WRAP(ssize_t, send, EPIPE, -1, (int a, const void* b, size_t c, int d), (a, b, c, d))
WEFT_WRAP(int, ppoll, ENOMEM, -1, (pollfd * a, nfds_t b, const timespec* c, const sigset_t* d),
          (a, b, c, d))
WEFT_WRAP(int, poll, ENOMEM, -1, (pollfd * a, nfds_t b, int c), (a, b, c))
WEFT_WRAP(ssize_t, sendmsg, ETOOMANYREFS, -1, (int a, const msghdr* b, int c), (a, b, c))
WEFT_WRAP(ssize_t, recvmsg, ENOMEM, -1, (int a, msghdr* b, int c), (a, b, c))
WEFT_WRAP(ssize_t, read, EIO, -1, (int a, void* b, size_t c), (a, b, c))
WEFT_WRAP(ssize_t, pread, EIO, -1, (int a, void* b, size_t c, off_t d), (a, b, c, d))
WEFT_WRAP(ssize_t, write, ENOSPC, -1, (int a, const void* b, size_t c), (a, b, c))
WEFT_WRAP(int, mkostemp, EMFILE, -1, (char* a, int b), (a, b))
WEFT_WRAP(int, link, EPERM, -1, (const char* a, const char* b), (a, b))
WEFT_WRAP(int, memfd_create, ENOSYS, -1, (const char* a, unsigned int b), (a, b))
WEFT_WRAP(int, ftruncate, EFBIG, -1, (int a, off_t b), (a, b))
WEFT_WRAP(int, fallocate, ENOSPC, -1, (int a, int b, off_t c, off_t d), (a, b, c, d))
WEFT_WRAP(void*, mmap, ENOMEM, MAP_FAILED, (void* a, size_t b, int c, int d, int e, off_t f),
          (a, b, c, d, e, f))
WEFT_WRAP(int, madvise, ENOMEM, -1, (void* a, size_t b, int c), (a, b, c))
WEFT_WRAP(int, fstat, EIO, -1, (int a, struct stat* b), (a, b))
WEFT_WRAP(int, eventfd, EMFILE, -1, (unsigned int a, int b), (a, b))
WEFT_WRAP(ssize_t, getrandom, ENOSYS, -1, (void* a, size_t b, unsigned int c), (a, b, c))

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names.
extern "C" int __real_open(const char* path, int flags, ...);
extern "C" int __wrap_open(const char* path, int flags, ...);
extern "C" int __real_fcntl(int fd, int command, ...);
extern "C" int __wrap_fcntl(int fd, int command, ...);

// NOLINTEND(bugprone-reserved-identifier)

int __wrap_open(const char* path, int flags, ...) {
  if (weft::test::Strikes("open", EMFILE)) return -1;
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  return __real_open(path, flags, mode);
}

// Only commands with an int argument are used here. F_GETFD asks whether a descriptor is open, which the system always answers.
int __wrap_fcntl(int fd, int command, ...) {
  if (command != F_GETFD && weft::test::Strikes("fcntl", EPERM)) return -1;
  va_list list;
  va_start(list, command);
  const int argument = va_arg(list, int);
  va_end(list);
  return __real_fcntl(fd, command, argument);
}
