// Memory whose neighbours nobody may touch: what is read or written beyond it ends the test.
//
//   const GuardedPages memory;
//   char* const last = memory.end() - bytes;
//
// Thread-safety: as memory.
#pragma once

#include <cstddef>

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace weft {

// Two pages, with one on either side that nobody may touch.
class GuardedPages {
 public:
  GuardedPages()
      : pages_(static_cast<char*>(
            mmap(nullptr, 4 * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_NE(pages_, MAP_FAILED);
    EXPECT_EQ(mprotect(begin(), kBytes, PROT_READ | PROT_WRITE), 0);
  }

  ~GuardedPages() { munmap(pages_, 4 * kPageBytes); }

  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;

  char* begin() const { return pages_ + kPageBytes; }

  char* end() const { return begin() + kBytes; }

 private:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kBytes = 2 * kPageBytes;
  char* pages_;
};

}  // namespace weft
