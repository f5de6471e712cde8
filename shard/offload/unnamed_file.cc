#include "shard/offload/unnamed_file.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/direct_io.h"
#include "base/files.h"
#include "base/new_fd.h"
#include "base/pages.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

constexpr mode_t kMode = 0600;

// Created, and its name removed at once. Errno says why not.
UniqueFd OpenByName(const std::string& directory) {
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto number = static_cast<uint64_t>(MonotonicNs());
    (void)SystemSeams().random->Fill(&number, sizeof(number));
    const std::string path = StrCat(directory, "/.weft-offload-", absl::Hex(number));
    UniqueFd fd = OpenFile(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, kMode);
    if (fd.valid()) unlink(path.c_str());
    if (fd.valid() || errno != EEXIST) return fd;
  }
  return UniqueFd();
}

absl::StatusOr<UniqueFd> Open(const std::string& directory) {
  UniqueFd fd = OpenFile(directory, O_RDWR | O_TMPFILE, kMode);
  // What file systems and kernels say that do not know O_TMPFILE.
  if (!fd.valid() && (errno == EOPNOTSUPP || errno == EISDIR)) fd = OpenByName(directory);
  if (!fd.valid())
    return FileError(errno, StrCat("making a file for offloaded state in ", directory));
  return fd;
}

uint64_t BytesFree(int fd) {
  struct statvfs facts {};

  if (fstatvfs(fd, &facts) != 0) return std::numeric_limits<uint64_t>::max();
  return facts.f_bavail * facts.f_frsize;
}

// Errno, or 0.
int MakeLong(int fd, uint64_t bytes) {
  // A signal undoes it on some file systems: with one coming again and again it would never end.
  constexpr int kAttempts = 8;
  int error_number = EINTR;
  for (int attempt = 0; attempt < kAttempts && error_number == EINTR; ++attempt)
    error_number = fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  const bool unknown = error_number == EOPNOTSUPP || error_number == ENOSYS ||
                       error_number == EINVAL || error_number == EPERM || error_number == EINTR;
  if (!unknown) return error_number;
  if (BytesFree(fd) < bytes) return ENOSPC;
  return ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

// What a transfer says of O_DIRECT, which some file systems take and then refuse. Other errors are for who needs the disk to say.
bool TakesDirect(int fd) {
  constexpr size_t kBlockBytes = 4096;
  alignas(kBlockBytes) static constexpr std::array<char, kBlockBytes> kZeros = {};
  return pwrite(fd, kZeros.data(), kZeros.size(), 0) >= 0 || errno != EINVAL;
}

}  // namespace

absl::StatusOr<UnnamedFile> MakeUnnamedFile(const std::string& directory, uint64_t bytes,
                                            bool direct) {
  const std::string what = StrCat("reserving ", FormatBytes(bytes), " (", bytes,
                                  " bytes) for offloaded state in ", directory);
  if (bytes > static_cast<uint64_t>(std::numeric_limits<off_t>::max()))
    return FileError(EFBIG, what);
  UnnamedFile file;
  WEFT_ASSIGN_OR_RETURN(file.fd, Open(directory));
  const int fd = file.fd.get();
  // Asked before, because the kernel answers what is above the limit with a signal that ends the program.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur)
    return FileError(EFBIG, StrCat(what, ", where files may have ", limit.rlim_cur, " bytes"));
  const uint64_t free_bytes = BytesFree(fd);
  const int error_number = MakeLong(fd, bytes);
  if (error_number != 0)
    return FileError(error_number, StrCat(what, ", where ", free_bytes, " bytes are free"));
  file.direct = direct && SetDirect(fd, true);
  if (file.direct && !TakesDirect(fd)) {
    if (!SetDirect(fd, false)) return FileError(errno, what);
    file.direct = false;
  }
  return file;
}

}  // namespace weft
