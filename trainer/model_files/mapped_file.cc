#include "trainer/model_files/mapped_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer/failure.h"

namespace weft::trainer {

MappedFile::MappedFile(const std::filesystem::path& path, const char* kind, size_t header_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status = {};
  if (fd < 0 || fstat(fd, &status) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    throw BadInput(fmt::format("{}: {}", path.string(), std::strerror(error)));
  }
  const size_t bytes = size_t(status.st_size);
  void* const mapped = S_ISREG(status.st_mode) && bytes > header_bytes
                           ? mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0)
                           : MAP_FAILED;
  close(fd);
  if (mapped == MAP_FAILED) throw BadInput(fmt::format("{} is no {}", path.string(), kind));
  bytes_ = {static_cast<const std::byte*>(mapped), bytes};
}

MappedFile::~MappedFile() {
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace weft::trainer
