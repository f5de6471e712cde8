#include "trainer/appended_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer/run_files.h"

namespace weft::trainer {

AppendedFile::AppendedFile(std::string path, size_t kept_bytes) : path_(std::move(path)) {
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  // What is kept stays as it is: a full disk has no room for a copy. What is no regular file has no
  // end to move.
  struct stat status = {};
  if (fd_ >= 0 && fstat(fd_, &status) == 0 &&
      (!S_ISREG(status.st_mode) || ftruncate(fd_, off_t(kept_bytes)) == 0)) {
    return;
  }
  const int error = errno;
  if (fd_ >= 0) close(fd_);
  ThrowUnwritable(path_, error);
}

AppendedFile::~AppendedFile() {
  if (fd_ >= 0) close(fd_);
}

void AppendedFile::Append(const std::string& record) {
  records_.Add(record);
  WriteWaiting();  // another rank may have to go on with the file
}

void AppendedFile::WriteWaiting() {
  error_ = records_.WriteTo(fd_);
  records_.Confirm(0);
}

void AppendedFile::Finish() {
  if (fd_ < 0) return;
  WriteWaiting();
  if (error_ == 0) error_ = SyncFile(fd_);
  const int fd = std::exchange(fd_, -1);
  if (close(fd) != 0 && error_ == 0) error_ = errno;
}

std::string AppendedFile::Unwritten(const char* records) const {
  const size_t count = records_.lacking();
  if (count == 0 && error_ == 0) return "";
  return fmt::format("{} lacks {} of its {}: {}", path_,
                     count > 0 ? fmt::format("{}", count) : "some", records,
                     error_ != 0 ? std::strerror(error_) : "there was no room for them");
}

}  // namespace weft::trainer
