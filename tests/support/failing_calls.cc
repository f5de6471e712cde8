#include "tests/support/failing_calls.h"

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weft::test {
namespace {

struct Plan {
  int left = 0;  // calls until the one that fails; 0: none will
  const char* name = nullptr;
  int error_number = 0;
  bool dies = false;              // instead
  const char* delayed = nullptr;  // this call
  int64_t delay_ns = 0;
  bool fails_late = false;  // the delayed call
};

thread_local Plan plan;

// True if this call is the one; errno is then set.
bool Strikes(const char* name, int error_number) {
  if (plan.delayed != nullptr && std::strcmp(name, plan.delayed) == 0) {
    plan.delayed = nullptr;
    const timespec delay{plan.delay_ns / 1'000'000'000, plan.delay_ns % 1'000'000'000};
    nanosleep(&delay, nullptr);
    errno = error_number;
    return plan.fails_late;
  }
  if (plan.left == 0 || --plan.left > 0) return false;
  if (plan.dies) kill(getpid(), SIGKILL);
  plan.name = name;
  plan.error_number = error_number;
  errno = error_number;
  return true;
}

}  // namespace

FailingCalls::FailingCalls(int k) {
  plan = {.left = k};
}

FailingCalls::~FailingCalls() {
  plan = {};
}

void DieAtCall(int k) {
  plan = {.left = k, .dies = true};
}

void DelayCall(const char* name, int64_t delay_ns) {
  plan = {.delayed = name, .delay_ns = delay_ns};
}

void FailCallLate(const char* name, int64_t delay_ns) {
  plan = {.delayed = name, .delay_ns = delay_ns, .fails_late = true};
}

bool FailingCalls::struck() const {
  return plan.name != nullptr;
}

std::string FailingCalls::what() const {
  if (!struck()) return "no call failed";
  return std::string(plan.name) + " failed with " + std::strerror(plan.error_number);
}

}  // namespace weft::test

using weft::test::Strikes;

// The linker sends calls of f to __wrap_f, and __real_f to the library's f.
#define WEFT_WRAP(result, name, error, failure, parameters, arguments) \
  extern "C" result __real_##name parameters;                          \
  extern "C" result __wrap_##name parameters;                          \
  result __wrap_##name parameters {                                    \
    if (Strikes(#name, error)) return failure;                         \
    return __real_##name arguments;                                    \
  }

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

extern "C" int __real_open(const char* path, int flags, ...);
extern "C" int __wrap_open(const char* path, int flags, ...);

int __wrap_open(const char* path, int flags, ...) {
  if (Strikes("open", EMFILE)) return -1;
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  return __real_open(path, flags, mode);
}

extern "C" int __real_fcntl(int fd, int command, ...);
extern "C" int __wrap_fcntl(int fd, int command, ...);

// Only commands with an int argument are used here.
int __wrap_fcntl(int fd, int command, ...) {
  if (Strikes("fcntl", EPERM)) return -1;
  va_list list;
  va_start(list, command);
  const int argument = va_arg(list, int);
  va_end(list);
  return __real_fcntl(fd, command, argument);
}
