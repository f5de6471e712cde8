// Pages that a test registers: private memory, every byte of which can be told.
//
//   const PrivatePages pages(9);
//   heap.Register(pages.page(2), 5 * PageBytes());
//   EXPECT_TRUE(pages.intact());
//
// Thread-safety: as an array.
#pragma once

#include <cstddef>

#include <sys/mman.h>

#include "base/pages.h"

namespace weft::test {

// Pages of private memory, each byte a function of its place.
class PrivatePages {
 public:
  explicit PrivatePages(size_t count) : bytes_(count * PageBytes()) {
    data_ = static_cast<char*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t i = 0; i < bytes_; ++i)
      data_[i] = ByteAt(i);
  }

  PrivatePages(const PrivatePages&) = delete;
  PrivatePages& operator=(const PrivatePages&) = delete;

  ~PrivatePages() { munmap(data_, bytes_); }

  char* page(size_t index) const { return data_ + index * PageBytes(); }

  size_t bytes() const { return bytes_; }

  bool intact() const {
    for (size_t i = 0; i < bytes_; ++i) {
      if (data_[i] != ByteAt(i)) return false;
    }
    return true;
  }

 private:
  static char ByteAt(size_t i) { return static_cast<char>(i * 31 + i / 4096); }

  size_t bytes_;
  char* data_;
};

}  // namespace weft::test
