// Some file systems find out late that there is no room: when data go to the disk, or when the file is closed. So each of these calls is
// asked.
#include "trainer/run_files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

bool IsOfTheDisk(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
}

}  // namespace

void ThrowUnwritable(const std::string& path, int error, const OtherPlace& other) {
  const std::string found = fmt::format("cannot write to {}: {}", path, std::strerror(error));
  if (IsOfTheDisk(error))
    throw NotWritten(found + "; make room, or choose another " + other.when_full);
  throw BadInput(found + "; choose another " + other.when_refused);
}

void MakeRunDirectory(const std::string& directory, const OtherPlace& other) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) ThrowUnwritable(directory, error.value(), other);
}

int WriteAll(int fd, std::string_view& text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(size_t(written));
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

int SyncFile(int fd) {
  if (fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP) return 0;
  return errno;
}

void WriteRunFile(const std::string& directory, const std::string& name, const std::string& text,
                  const OtherPlace& other) {
  const std::string path = directory + "/" + name;
  const std::string begun = path + ".new";
  std::string_view rest = text;
  const int fd = open(begun.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  int error = fd >= 0 ? WriteAll(fd, rest) : errno;
  if (error == 0) error = SyncFile(fd);
  if (fd >= 0 && close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(begun.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  std::remove(begun.c_str());
  ThrowUnwritable(path, error, other);
}

}  // namespace weft::trainer
