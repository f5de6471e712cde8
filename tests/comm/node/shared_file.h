// A file of memory and this process's mapping of a part of it, as frameworks share storages between processes.
//
//   const SharedFile file(3 * PageBytes(), PageBytes());     // mapped from its second page on
//   heap.RegisterFile(file.data() + 10, 100, file.fd(), file.offset() + 10);
//
// Thread-safety: as an array.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

namespace weft::test {

class SharedFile {
 public:
  // `bytes` mapped from byte `offset` on, whole pages both; the file ends with them.
  explicit SharedFile(size_t bytes, uint64_t offset = 0, unsigned int flags = MFD_CLOEXEC)
      : fd_(memfd_create("shared", flags)), bytes_(bytes), offset_(offset) {
    if (ftruncate(fd_, static_cast<off_t>(offset + bytes)) == 0) data_ = Map();
  }

  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  ~SharedFile() {
    if (data_ != MAP_FAILED) munmap(data_, bytes_);
    close(fd_);
  }

  // Another mapping of the same bytes; the caller unmaps it.
  void* Map() const {
    return mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_,
                static_cast<off_t>(offset_));
  }

  bool valid() const { return data_ != MAP_FAILED; }

  char* data() const { return static_cast<char*>(data_); }

  int fd() const { return fd_; }

  uint64_t offset() const { return offset_; }

  size_t bytes() const { return bytes_; }

 private:
  int fd_;
  size_t bytes_;
  uint64_t offset_;
  void* data_ = MAP_FAILED;
};

}  // namespace weft::test
