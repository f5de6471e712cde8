#include "comm/node/range_of_file.h"

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/cgroup.h"
#include "base/mappings.h"
#include "base/new_fd.h"
#include "base/pages.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {
namespace {

// Bytes of the pages of a file that is memory. Files on disks and devices have other rules for who writes when.
absl::StatusOr<uint64_t> UnitOf(int fd) {
  struct statfs system = {};
  if (fstatfs(fd, &system) != 0) return SystemError(errno, "fstatfs");
  const auto kind = static_cast<uint32_t>(system.f_type);
  if (kind != TMPFS_MAGIC && kind != HUGETLBFS_MAGIC) {
    return MakeError(
        WEFT_UNSUPPORTED,
        "it is not of memory: only a memfd, or a file of tmpfs (/dev/shm) or hugetlbfs, "
        "can be registered");
  }
  return kind == HUGETLBFS_MAGIC ? static_cast<uint64_t>(system.f_bsize) : PageBytes();
}

// As peers will map it; says why they could not.
absl::Status TryToMap(int fd, uint64_t offset, uint64_t unit) {
  void* const mapped = mmap(nullptr, unit, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                            static_cast<off_t>(offset / unit * unit));
  if (mapped == MAP_FAILED) {
    const int error = errno;
    if (error != EACCES && error != EPERM) return SystemError(error, "mapping it as peers will");
    return MakeError(WEFT_INVALID_ARGUMENT,
                     "peers could not write to it: the descriptor must be open for reading and "
                     "writing, and the file not sealed against writing");
  }
  munmap(mapped, unit);
  return absl::OkStatus();
}

// The whole pages that [memory, memory + bytes) touches.
std::pair<char*, size_t> PagesAround(void* memory, size_t bytes) {
  const size_t page = PageBytes();
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const size_t before = address % page;
  return {static_cast<char*>(memory) - before, (before + bytes + page - 1) / page * page};
}

// Pages that are not there yet are taken now: later a lack of memory would be a signal.
absl::Status TakePagesOf(const std::string& root, void* memory, size_t bytes) {
  const auto [begin, size] = PagesAround(memory, bytes);
  std::vector<unsigned char> present(size / PageBytes());
  if (mincore(begin, size, present.data()) != 0) return SystemError(errno, "mincore");
  size_t missing = 0;
  for (const unsigned char page : present)
    missing += (page & 1) == 0 ? PageBytes() : 0;
  if (missing > 0) WEFT_RETURN_IF_ERROR(CheckCgroupMemory(root, missing));
  const int error = PopulateForWriting(begin, size);
  // An older kernel does not know the advice; the first touch then takes the page.
  if (error == 0 || error == EINVAL) return absl::OkStatus();
  if (error == ENOMEM || error == EFAULT || error == ENOSPC) {
    return MakeError(WEFT_OUT_OF_MEMORY,
                     fmt::format("{} of its pages are not there, and the system has no memory for "
                                 "them",
                                 FormatBytes(missing)));
  }
  return SystemError(error, "taking its pages");
}

absl::Status CheckEnd(int fd, uint64_t offset, uint64_t bytes) {
  struct stat file = {};
  if (fstat(fd, &file) != 0) return SystemError(errno, "fstat");
  const auto size = static_cast<uint64_t>(file.st_size);
  if (offset <= size && bytes <= size - offset) return absl::OkStatus();
  return MakeError(
      WEFT_INVALID_ARGUMENT,
      fmt::format("the file has {} bytes, fewer than {} from byte {} on", size, bytes, offset));
}

}  // namespace

absl::StatusOr<FileRanges::Range> RangeOfFile(const std::string& root, void* memory, size_t bytes,
                                              int fd, uint64_t offset) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if (memory == nullptr || bytes == 0 || bytes > PTRDIFF_MAX || offset > PTRDIFF_MAX ||
      address > UINTPTR_MAX - bytes) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     fmt::format("there are 1 to {} bytes, from byte 0 to {} of the file on",
                                 PTRDIFF_MAX, PTRDIFF_MAX));
  }
  UniqueFd own = DuplicateFd(fd);
  if (!own.valid() && errno == EBADF) {
    return MakeError(WEFT_INVALID_ARGUMENT, fmt::format("{} is no descriptor of an open file", fd));
  }
  if (!own.valid()) return SystemError(errno, "copying the descriptor");
  WEFT_ASSIGN_OR_RETURN(const uint64_t unit, UnitOf(own.get()));
  WEFT_RETURN_IF_ERROR(CheckEnd(own.get(), offset, bytes));
  WEFT_RETURN_IF_ERROR(CheckMappingOfFile(memory, bytes, own.get(), offset));
  WEFT_RETURN_IF_ERROR(TryToMap(own.get(), offset, unit));
  WEFT_RETURN_IF_ERROR(TakePagesOf(root, memory, bytes));
  return FileRanges::Range{.fd = std::move(own),
                           .offset = offset,
                           .bytes = bytes,
                           .address = static_cast<char*>(memory),
                           .unit = unit};
}

}  // namespace weft
