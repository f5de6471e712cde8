// The real files.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/direct_io.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/new_fd.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

// Linux moves at most 2 GiB less a page in one call.
constexpr size_t kTransferMax = size_t{1} << 30;

// fsync(), which a signal may end early without harm.
int SyncFd(int fd) {
  int result = 0;
  do {
    result = fsync(fd);
  } while (result != 0 && errno == EINTR);
  return result;
}

class SystemWritableFile : public WritableFile {
 public:
  SystemWritableFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::Status Write(const void* data, size_t bytes) override {
    if (!failure_.ok()) return failure_;
    // Asked before, because the kernel answers a write above the limit with a signal that ends the program.
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        (written_ > limit.rlim_cur || bytes > limit.rlim_cur - written_))
      return Fail(EFBIG, "writing ");
    const char* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t count = write(fd_.get(), from, BytesOfNext(from, bytes));
      if (count < 0 && errno == EINTR) continue;
      // Some file systems take O_DIRECT and then refuse what is written with it, or want larger blocks.
      if (count < 0 && errno == EINVAL && direct_ && may_be_direct_) {
        may_be_direct_ = false;
        continue;
      }
      // A file takes at least a byte or says why not; nothing else ends this loop.
      if (count <= 0) return Fail(count < 0 ? errno : EIO, "writing ");
      from += count;
      bytes -= static_cast<size_t>(count);
      written_ += static_cast<uint64_t>(count);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (!failure_.ok()) return failure_;
    return SyncFd(fd_.get()) == 0 ? absl::OkStatus() : Fail(errno, "syncing ");
  }

  absl::Status Close() override {
    if (!failure_.ok()) {
      fd_.Reset();
      return failure_;
    }
    // Linux closes it also when a signal comes.
    if (close(fd_.Release()) != 0 && errno != EINTR) return Fail(errno, "closing ");
    return absl::OkStatus();
  }

 private:
  // How many of the `bytes` bytes at `from` the next call is to write: whole blocks past the page cache, the rest through it.
  size_t BytesOfNext(const char* from, size_t bytes) {
    const bool blocks = bytes >= kBlockBytes && written_ % kBlockBytes == 0 &&
                        reinterpret_cast<uintptr_t>(from) % kBlockBytes == 0;
    SetDirect(blocks && may_be_direct_);
    bytes = std::min(bytes, kTransferMax);
    return direct_ ? bytes - bytes % kBlockBytes : bytes;
  }

  void SetDirect(bool direct) {
    if (direct == direct_) return;
    if (weft::SetDirect(fd_.get(), direct))
      direct_ = direct;
    else
      may_be_direct_ = false;
  }

  absl::Status Fail(int error_number, std::string_view attempt) {
    failure_ = FileError(error_number, StrCat(attempt, path_, " at byte ", written_));
    return failure_;
  }

  UniqueFd fd_;
  const std::string path_;
  uint64_t written_ = 0;
  bool may_be_direct_ = true;  // false once the file system has refused it
  bool direct_ = false;        // whether transfers pass by the page cache now
  absl::Status failure_;
};

class SystemReadableFile : public ReadableFile {
 public:
  SystemReadableFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::StatusOr<uint64_t> Size() override {
    struct stat facts {};

    if (fstat(fd_.get(), &facts) != 0) return FileError(errno, StrCat("looking at ", path_));
    return static_cast<uint64_t>(facts.st_size);
  }

  absl::Status ReadAt(uint64_t offset, void* data, size_t bytes) override {
    char* to = static_cast<char*>(data);
    while (bytes > 0) {
      if (offset > static_cast<uint64_t>(std::numeric_limits<off_t>::max()))
        return EndsBefore(offset, bytes);
      const ssize_t count =
          pread(fd_.get(), to, std::min(bytes, kTransferMax), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return FileError(errno, StrCat("reading ", path_, " at byte ", offset));
      if (count == 0) return EndsBefore(offset, bytes);
      to += count;
      offset += static_cast<uint64_t>(count);
      bytes -= static_cast<size_t>(count);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status EndsBefore(uint64_t offset, size_t bytes) const {
    return MakeError(WEFT_CORRUPT,
                     StrCat("reading ", path_, ": ", bytes, " bytes were expected at byte ", offset,
                            ", and the file ends there or before"));
  }

  const UniqueFd fd_;
  const std::string path_;
};

// Takes blocks for the first `bytes` bytes, and leaves the length as it is: it tells how much was written. 0, or an errno.
int Reserve(int fd, uint64_t bytes) {
  if (bytes == 0) return 0;
  if (bytes > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) return EFBIG;
  // A signal undoes it on some file systems: with one coming again and again it would never end, and it need not be.
  constexpr int kAttempts = 8;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0) return 0;
    if (errno != EINTR) break;
  }
  const int error_number = errno;
  const bool full = error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG ||
                    error_number == EIO || error_number == EROFS;
  // Others are of a file system or a seccomp filter that does not know the call.
  return full ? error_number : 0;
}

// NULL at the end, with errno 0, and on an error.
const dirent* Next(DIR* folder) {
  errno = 0;
  return readdir(folder);  // NOLINT(concurrency-mt-unsafe): a stream of this thread's own
}

class RealFiles : public Files {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                       uint64_t bytes_expected) override {
    UniqueFd fd = OpenFile(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (!fd.valid()) return FileError(errno, StrCat("creating ", path));
    if (const int error_number = Reserve(fd.get(), bytes_expected); error_number != 0) {
      unlink(path.c_str());
      return FileError(error_number,
                       StrCat("creating ", path, " with room for ", bytes_expected, " bytes"));
    }
    return std::make_unique<SystemWritableFile>(std::move(fd), path);
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    UniqueFd fd = OpenFile(path, O_RDONLY | O_NONBLOCK);
    if (!fd.valid()) return FileError(errno, StrCat("opening ", path));

    struct stat facts {};

    if (fstat(fd.get(), &facts) != 0) return FileError(errno, StrCat("opening ", path));
    if (S_ISDIR(facts.st_mode)) return FileError(EISDIR, StrCat("opening ", path));
    if (!S_ISREG(facts.st_mode))
      return MakeError(WEFT_SYSTEM_ERROR,
                       StrCat("opening ", path, ": it is no ordinary file, and is not read"));
    return std::make_unique<SystemReadableFile>(std::move(fd), path);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return FileError(errno, StrCat("renaming ", from, " to ", to));
  }

  absl::Status Link(const std::string& from, const std::string& to) override {
    if (link(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return FileError(errno, StrCat("linking ", from, " as ", to));
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) == 0) return absl::OkStatus();
    return FileError(errno, StrCat("removing ", path));
  }

  absl::Status RemoveDirectory(const std::string& path) override {
    if (rmdir(path.c_str()) == 0) return absl::OkStatus();
    // POSIX lets a directory with content be either.
    return FileError(errno == EEXIST ? ENOTEMPTY : errno, StrCat("removing directory ", path));
  }

  absl::Status MakeDirectory(const std::string& path) override {
    if (mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
    int error_number = errno;
    if (error_number == EEXIST) {
      struct stat facts {};

      if (stat(path.c_str(), &facts) == 0) {
        if (S_ISDIR(facts.st_mode)) return absl::OkStatus();
        error_number = ENOTDIR;
      }
    }
    return FileError(error_number, StrCat("making directory ", path));
  }

  absl::StatusOr<FileKind> KindOf(const std::string& path) override {
    struct stat facts {};

    if (lstat(path.c_str(), &facts) != 0) return FileError(errno, StrCat("looking at ", path));
    if (S_ISLNK(facts.st_mode)) return FileKind::kLink;
    if (S_ISDIR(facts.st_mode)) return FileKind::kDirectory;
    return S_ISREG(facts.st_mode) ? FileKind::kFile : FileKind::kOther;
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    const std::unique_ptr<DIR, CloseFolder> folder = OpenFolder(path);
    if (folder == nullptr) return FileError(errno, StrCat("listing ", path));
    std::vector<std::string> names;
    while (const dirent* const entry = Next(folder.get())) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (names.size() == kNamesMax)
        return MakeError(WEFT_CORRUPT, StrCat("listing ", path, ": it has more than ", kNamesMax,
                                              " names, and is none of weft's"));
      names.emplace_back(name);
    }
    if (errno != 0) return FileError(errno, StrCat("listing ", path));
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status SyncDirectory(const std::string& path) override {
    const UniqueFd fd = OpenFile(path, O_RDONLY | O_DIRECTORY);
    if (!fd.valid()) return FileError(errno, StrCat("opening directory ", path));
    // EINVAL: a file system without this call, which writes names by itself.
    if (SyncFd(fd.get()) == 0 || errno == EINVAL) return absl::OkStatus();
    return FileError(errno, StrCat("syncing directory ", path));
  }
};

}  // namespace

Files& SystemFiles() {
  static RealFiles* const files = new RealFiles;
  return *files;
}

}  // namespace weft
