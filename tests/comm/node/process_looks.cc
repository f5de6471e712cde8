#include "process_looks.h"

#include <cerrno>
#include <cstdarg>
#include <fstream>
#include <string>

#include <poll.h>
#include <sys/syscall.h>

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names.
extern "C" int __real_poll(pollfd* items, nfds_t count, int timeout_ms);
extern "C" int __wrap_poll(pollfd* items, nfds_t count, int timeout_ms);
extern "C" long __real_syscall(long number, ...);
extern "C" long __wrap_syscall(long number, ...);

// NOLINTEND(bugprone-reserved-identifier)

namespace weft::test {

ProcessLooks& ProcessLooks::Get() {
  thread_local ProcessLooks looks;
  return looks;
}

bool AwaitEnd(int descriptor) {
  pollfd item{descriptor, POLLIN, 0};
  return __real_poll(&item, 1, 20'000) == 1;
}

int PidOf(int pidfd) {
  std::ifstream file("/proc/self/fdinfo/" + std::to_string(pidfd));
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("Pid:", 0) == 0) return std::stoi(line.substr(4));
  }
  return 0;
}

}  // namespace weft::test

// Only a look at whether a process has ended asks for one descriptor without waiting.
int __wrap_poll(pollfd* items, nfds_t count, int timeout_ms) {
  const auto& looks = weft::test::ProcessLooks::Get();
  if (looks.before && count == 1 && timeout_ms == 0 && items->events == POLLIN) {
    looks.before(items->fd);
  }
  return __real_poll(items, count, timeout_ms);
}

long __wrap_syscall(long number, ...) {
  if (number == SYS_pidfd_open && weft::test::ProcessLooks::Get().no_pidfds) {
    errno = ENOSYS;
    return -1;
  }
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments)
    argument = va_arg(list, long);
  va_end(list);
  return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
                        arguments[4], arguments[5]);
}
