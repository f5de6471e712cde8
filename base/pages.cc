#include "base/pages.h"

#include <cerrno>
#include <cstdint>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace weft {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

template <typename Call>
int Retry(Call call) {
  int result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
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
  pages.fd_ = UniqueFd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!pages.fd_.valid()) {
    return SystemError(errno, StrCat("could not make ", size_text, " of shared memory"));
  }
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

absl::Status Pages::Map() {
  void* const address = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (address == MAP_FAILED) {
    return SystemError(errno, StrCat("could not map ", FormatBytes(size_), " of shared memory"));
  }
  data_ = static_cast<std::byte*>(address);
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

absl::Status Pages::Allocate(size_t offset, size_t bytes) {
  if (!InRange(offset, bytes, size_)) return RangeError("allocate", offset, bytes, size_);
  if (bytes == 0) return absl::OkStatus();
  const int result = Retry([&] {
    return fallocate(fd_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  });
  if (result < 0) {
    return SystemError(errno,
                       StrCat("could not allocate ", FormatBytes(bytes), " of shared memory"));
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
  const int result =
      Retry([&] { return madvise(data_ + begin, end - begin, MADV_POPULATE_WRITE); });
  // An older kernel does not know the advice; the first touch then pays for the fault.
  if (result < 0 && errno != EINVAL) {
    return SystemError(errno,
                       StrCat("could not populate ", FormatBytes(bytes), " of shared memory"));
  }
  return absl::OkStatus();
}

}  // namespace weft
