// Keeps the numbers of standard input, output and error from being given to anything else.
//
//   int main() {
//     HoldStandardFds();   // before the first file is opened
//
// The system gives a new descriptor the lowest free number. Where a program has closed one of 0, 1 and 2, as daemons do, that is
// the next socket or shared memory, and what the program prints then goes into it. So /dev/null takes the closed ones, and keeps
// them: the Go runtime and the C library's set-user-ID programs do the same. What is printed is lost, as it was before; a program
// that wants the number back takes it with dup2(), freopen() or close().
//
// Header-only, and it needs the C and C++ libraries only: programs that see no more than include/weft call it as well.
//
// Thread-safety: any thread, and after a fork.
#pragma once

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace weft {

// The highest number of a standard descriptor.
inline constexpr int kStandardFdMax = 2;

// Does nothing where all three are open, or where there is no /dev/null. Changes errno. Children that this process executes do
// not inherit /dev/null.
inline void HoldStandardFds() {
  for (int fd = 0; fd <= kStandardFdMax; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return;
    // Another thread has taken that number meanwhile.
    if (null > kStandardFdMax) close(null);
  }
}

}  // namespace weft
