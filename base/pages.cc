// Shared memory fails late and hard: SIGXFSZ when a file grows, SIGBUS when a page is touched. So whatever can be refused is
// asked for first, and the order in Create counts: size, pages, seals, mapping. Nobody else may see the descriptor before it
// is sealed. Every call that a signal can interrupt is repeated, but not for ever: a profiler's signals may come faster than
// a call can end.
#include "base/pages.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/new_fd.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif
#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT 1  // Linux 4.4
#endif

namespace weft {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Signals that come faster than a call can begin are not waited for to end.
constexpr int kInterruptionsMax = 1000;

template <typename Call>
int Retry(Call call) {
  int result = call();
  for (int i = 0; result < 0 && errno == EINTR && i < kInterruptionsMax; ++i)
    result = call();
  return result;
}

size_t RoundUp(size_t bytes) {
  return (bytes + PageBytes() - 1) / PageBytes() * PageBytes();
}

bool Reasonable(size_t bytes) {
  return bytes > 0 && bytes <= static_cast<size_t>(PTRDIFF_MAX) - PageBytes();
}

absl::Status RangeError(const char* what, size_t offset, size_t bytes, size_t size) {
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("could not ", what, " ", bytes, " bytes at offset ", offset,
                          " of shared memory of ", size, " bytes: out of range"));
}

bool InRange(size_t offset, size_t bytes, size_t size) {
  return offset <= size && bytes <= size - offset;
}

// A file that would become larger than RLIMIT_FSIZE allows costs its process a SIGXFSZ.
absl::Status CheckFileSize(size_t bytes, std::string_view what) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur) return absl::OkStatus();
  return SystemError(EFBIG, StrCat(what, ": the limit on the size of files, ulimit -f, is ",
                                   FormatBytes(limit.rlim_cur), " and holds for it too"));
}

// Memory files of the Linux kernel can be asked for pages; those of kernels that stand in for it may not be.
absl::Status AllocateError(int error_number, std::string_view what) {
  absl::Status error = RefusedCallError(error_number, "fallocate", what);
  if (error_number != EOPNOTSUPP) return error;
  return MakeError(ResultOf(error),
                   StrCat(error.message(),
                          "; the system that runs this process, a sandbox such as gVisor perhaps, "
                          "cannot set shared memory aside, which every group needs; run the ranks "
                          "on a Linux kernel itself (in a container by runc, not runsc)"));
}

// Which limits a mapping of `bytes` may have met.
std::string LimitsOnMapping(int error_number) {
  std::string text;
  const auto add = [&](int resource, const char* what) {
    rlimit limit = {};
    if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return;
    if (limit.rlim_cur != RLIM_INFINITY) text += StrCat("; ", what, FormatBytes(limit.rlim_cur));
  };
  if (error_number == ENOMEM) add(RLIMIT_AS, "the limit on addresses, ulimit -v, is ");
  if (error_number == EAGAIN) {
    add(RLIMIT_MEMLOCK,
        "after mlockall all addresses count against the limit on locked memory, ulimit -l, of ");
  }
  return text;
}

// Whether new mappings of this process get all their pages at once and keep them: mlockall(MCL_FUTURE).
// Seen in a page: no call tells.
bool LocksNewMappings() {
  void* const probe =
      mmap(nullptr, PageBytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return false;
  unsigned char resident = 0;
  const bool locks = mincore(probe, PageBytes(), &resident) == 0 && (resident & 1) != 0;
  munmap(probe, PageBytes());
  return locks;
}

}  // namespace

size_t PageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::string FormatBytes(size_t bytes) {
  if (bytes < 1024) return StrCat(bytes, " bytes");
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

Pages::Pages(Pages&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  if (this != &other) {
    Unmap();
    fd_ = std::move(other.fd_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Pages::~Pages() {
  Unmap();
}

absl::StatusOr<Pages> Pages::Create(const char* name, size_t bytes, Backing backing) {
  if (!Reasonable(bytes)) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("could not make shared memory of ", bytes, " bytes"));
  }
  Pages pages;
  pages.size_ = RoundUp(bytes);
  const std::string size_text = FormatBytes(pages.size_);
  pages.fd_ = CreateMemoryFile(name);
  if (!pages.fd_.valid()) {
    return RefusedCallError(errno, "memfd_create",
                            StrCat("could not make ", size_text, " of shared memory"));
  }
  WEFT_RETURN_IF_ERROR(
      CheckFileSize(pages.size_, StrCat("could not make ", size_text, " of shared memory")));
  const int fd = pages.fd_.get();
  if (Retry([&] { return ftruncate(fd, static_cast<off_t>(pages.size_)); }) < 0) {
    return SystemError(errno, StrCat("could not size shared memory to ", size_text));
  }
  if (backing == Backing::kAllocated) WEFT_RETURN_IF_ERROR(pages.Allocate(0, pages.size_));
  if (fcntl(fd, F_ADD_SEALS, kSeals) < 0) {
    return SystemError(errno, StrCat("could not seal ", size_text, " of shared memory"));
  }
  WEFT_RETURN_IF_ERROR(pages.Map());
  return pages;
}

absl::StatusOr<Pages> Pages::Adopt(UniqueFd fd, size_t bytes) {
  if (!Reasonable(bytes)) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("could not map shared memory of ", bytes, " bytes"));
  }
  Pages pages;
  pages.fd_ = std::move(fd);
  pages.size_ = RoundUp(bytes);
  const int seals = fcntl(pages.fd_.get(), F_GET_SEALS);
  constexpr int kWanted = F_SEAL_SHRINK | F_SEAL_GROW;
  if (seals < 0 || (seals & kWanted) != kWanted || (seals & F_SEAL_WRITE) != 0) {
    return MakeError(WEFT_CORRUPT,
                     "a peer's descriptor is not shared memory sealed against changes of its size");
  }
  struct stat info = {};
  if (fstat(pages.fd_.get(), &info) < 0) {
    return SystemError(errno, "could not read the size of a peer's shared memory");
  }
  if (info.st_size != static_cast<off_t>(pages.size_)) {
    return MakeError(WEFT_CORRUPT, StrCat("a peer's shared memory has ", info.st_size,
                                          " bytes, expected ", pages.size_));
  }
  WEFT_RETURN_IF_ERROR(pages.Map());
  return pages;
}

// In a process that locks all its memory a new mapping gets pages for all of it, also for what the file has
// none: sparse memory would be taken whole. What is not accessible gets none, so access comes last.
absl::Status Pages::Map() {
  const bool locks = LocksNewMappings();
  void* const address =
      mmap(nullptr, size_, locks ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    return SystemError(error, StrCat("could not map ", FormatBytes(size_), " of shared memory",
                                     LimitsOnMapping(error)));
  }
  data_ = static_cast<std::byte*>(address);
  if (!locks) return absl::OkStatus();
  munlock(address, size_);
  if (mprotect(address, size_, PROT_READ | PROT_WRITE) != 0) {
    return SystemError(errno, StrCat("could not get at ", FormatBytes(size_), " of shared memory"));
  }
  // What the process wanted, page by page. Best effort: without it the memory works, and may be swapped out.
  (void)mlock2(address, size_, MLOCK_ONFAULT);
  return absl::OkStatus();
}

absl::Status Pages::MapOver(void* address, size_t offset, size_t bytes) {
  if (!InRange(offset, bytes, size_)) return RangeError("map", offset, bytes, size_);
  if (mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_.get(),
           static_cast<off_t>(offset)) == MAP_FAILED) {
    return SystemError(
        errno, fmt::format("could not map {} of shared memory at {}", FormatBytes(bytes), address));
  }
  return absl::OkStatus();
}

absl::Status MapPrivateOver(void* address, size_t bytes) {
  if (mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
           0) == MAP_FAILED) {
    return SystemError(errno, fmt::format("could not map {} of private memory at {}",
                                          FormatBytes(bytes), address));
  }
  return absl::OkStatus();
}

void Pages::Unmap() {
  if (data_ != nullptr) munmap(std::exchange(data_, nullptr), size_);
}

// On older kernels fallocate gives back all that it has taken when a signal comes, so a process that handles one
// every millisecond gets smaller pieces.
absl::Status Pages::Allocate(size_t offset, size_t bytes) {
  if (!InRange(offset, bytes, size_)) return RangeError("allocate", offset, bytes, size_);
  const std::string what = StrCat("could not allocate ", FormatBytes(bytes), " of shared memory");
  size_t piece = bytes;
  int interruptions = 0;  // of this piece
  while (bytes > 0) {
    piece = std::min(piece, bytes);
    if (fallocate(fd_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(piece)) == 0) {
      offset += piece;
      bytes -= piece;
      interruptions = 0;
      continue;
    }
    if (errno != EINTR || ++interruptions > kInterruptionsMax) return AllocateError(errno, what);
    piece = RoundUp(piece / 2);
  }
  return absl::OkStatus();
}

absl::Status Pages::Release(size_t offset, size_t bytes) {
  if (!InRange(offset, bytes, size_)) return RangeError("release", offset, bytes, size_);
  const size_t begin = RoundUp(offset);
  const size_t end = (offset + bytes) / PageBytes() * PageBytes();
  if (begin >= end) return absl::OkStatus();
  const int result = Retry([&] {
    return fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  });
  if (result < 0) {
    return SystemError(errno,
                       StrCat("could not release ", FormatBytes(end - begin), " of shared memory"));
  }
  return absl::OkStatus();
}

absl::Status Pages::Populate(size_t offset, size_t bytes) {
  if (!InRange(offset, bytes, size_)) return RangeError("populate", offset, bytes, size_);
  if (bytes == 0) return absl::OkStatus();
  const size_t begin = offset / PageBytes() * PageBytes();
  const size_t end = RoundUp(offset + bytes);
  const int error = PopulateForWriting(data_ + begin, end - begin);
  // An older kernel does not know the advice; the first touch then pays for the fault.
  if (error != 0 && error != EINVAL) {
    return SystemError(error,
                       StrCat("could not populate ", FormatBytes(bytes), " of shared memory"));
  }
  return absl::OkStatus();
}

int PopulateForWriting(void* begin, size_t bytes) {
  const int result = Retry([&] { return madvise(begin, bytes, MADV_POPULATE_WRITE); });
  return result < 0 ? errno : 0;
}

void KeepFromForksAndDumps(void* begin, size_t bytes) {
  madvise(begin, bytes, MADV_DONTFORK);
  madvise(begin, bytes, MADV_DONTDUMP);
}

}  // namespace weft
