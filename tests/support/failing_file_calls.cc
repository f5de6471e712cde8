// The calls that write files durably, for tests of what does: there are too many of them elsewhere.
#include <cerrno>
#include <cstdio>

#include <dirent.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "tests/support/wrapped_call.h"

WEFT_WRAP(int, fsync, EIO, -1, (int a), (a))
WEFT_WRAP(int, fdatasync, EIO, -1, (int a), (a))
WEFT_WRAP(ssize_t, pwrite, ENOSPC, -1, (int a, const void* b, size_t c, off_t d), (a, b, c, d))
WEFT_WRAP(int, rename, EIO, -1, (const char* a, const char* b), (a, b))
WEFT_WRAP(int, unlink, EIO, -1, (const char* a), (a))
WEFT_WRAP(int, mkdir, ENOSPC, -1, (const char* a, mode_t b), (a, b))
WEFT_WRAP(int, rmdir, EIO, -1, (const char* a), (a))
WEFT_WRAP(int, lstat, EIO, -1, (const char* a, struct stat* b), (a, b))
WEFT_WRAP(dirent*, readdir, EIO, nullptr, (DIR * a), (a))

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names.
extern "C" int __real_close(int fd);
extern "C" int __wrap_close(int fd);

// NOLINTEND(bugprone-reserved-identifier)

// Linux closes it whatever close() returns.
int __wrap_close(int fd) {
  const bool strikes = weft::test::Strikes("close", EIO);
  const int error_number = errno;
  const int result = __real_close(fd);
  if (!strikes) return result;
  errno = error_number;
  return -1;
}
