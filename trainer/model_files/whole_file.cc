#include "trainer/model_files/whole_file.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace weft::trainer {

WholeFile::WholeFile(const std::filesystem::path& path)
    : path_(path.string()),
      begun_(path_ + ".new"),
      fd_(open(begun_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (fd_ < 0) ThrowUnwritable(begun_, errno, kExportPlace);
}

WholeFile::~WholeFile() {
  if (fd_ >= 0) close(fd_);
  if (!committed_) std::remove(begun_.c_str());
}

void WholeFile::Write(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(fd_, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) ThrowUnwritable(begun_, written < 0 ? errno : ENOSPC, kExportPlace);
    from += written;
    bytes -= size_t(written);
  }
}

void WholeFile::Commit() {
  int error = SyncFile(fd_);
  if (close(std::exchange(fd_, -1)) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(begun_.c_str(), path_.c_str()) != 0) error = errno;
  if (error != 0) ThrowUnwritable(path_, error, kExportPlace);
  committed_ = true;
}

}  // namespace weft::trainer
