// Shared memory without a name: a sealed memfd and its mapping.
//
//   WEFT_ASSIGN_OR_RETURN(Pages pages, Pages::Create("weft-group", bytes, Backing::kAllocated));
//   ... pass pages.fd() to a peer by SCM_RIGHTS; there:
//   WEFT_ASSIGN_OR_RETURN(Pages peer, Pages::Adopt(std::move(fd), bytes));
//
// The size is sealed before anybody else sees the descriptor, so no peer can shrink the memory under
// a reader (SIGBUS). kAllocated takes all pages at once: a lack of memory is an error here. kSparse
// reserves addresses; Allocate() takes pages range by range, Release() gives them back.
// It lives until the last descriptor and mapping of any process is gone; nothing can be left behind.
//
// Mapping takes no pages, also in a process that has called mlockall(MCL_FUTURE): there, pages are locked
// when they are touched. Exceeding RLIMIT_FSIZE, which counts here too, is an error and no SIGXFSZ.
//
// Thread-safety: Allocate, Release and Populate of disjoint ranges from any thread; otherwise a
// value. Move only.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"

namespace weft {

enum class Backing { kSparse, kAllocated };

class Pages {
 public:
  Pages() = default;
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;
  ~Pages();

  // Zeroed memory of `bytes` rounded up to whole pages, mapped. `name` shows in /proc/<pid>/maps.
  // OUT_OF_MEMORY says how much was asked for.
  static absl::StatusOr<Pages> Create(const char* name, size_t bytes, Backing backing);

  // Maps what a peer made with Create(). CORRUPT unless it is a memfd sealed against changes of its
  // size and exactly `bytes` (rounded up) long, which the caller knows from its own geometry.
  static absl::StatusOr<Pages> Adopt(UniqueFd fd, size_t bytes);

  std::byte* data() const { return data_; }

  size_t size() const { return size_; }

  int fd() const { return fd_.get(); }

  bool mapped() const { return data_ != nullptr; }

  // Takes the pages of [offset, offset + bytes); they read as zero if they were not there. Gets on and ends
  // whatever signals the thread handles meanwhile. After an error part of them may be taken: Release().
  absl::Status Allocate(size_t offset, size_t bytes);

  // Gives the whole pages inside [offset, offset + bytes) back; they read as zero from now on.
  absl::Status Release(size_t offset, size_t bytes);

  // Makes this process's page tables point at the pages of the range, so that the first touch costs
  // no fault. The range must have been allocated.
  absl::Status Populate(size_t offset, size_t bytes);

  // Puts the pages of [offset, offset + bytes) under `address` too, in place of what is mapped there:
  // from then on they have two addresses. Whole pages only. On failure the range is as before.
  absl::Status MapOver(void* address, size_t offset, size_t bytes);

  // Closes the descriptor; the mapping stays.
  void CloseFd() { fd_.Reset(); }

 private:
  absl::Status Map();
  void Unmap();

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Puts fresh private pages, which read as zero, under `address` in place of what is mapped there. Whole
// pages only. On failure the range is as before.
absl::Status MapPrivateOver(void* address, size_t bytes);

// Makes page tables point at the whole pages of [begin, begin + bytes), writable, and takes those that are not there. 0, or the
// error number of madvise: EINVAL where the kernel is older than 5.14.
int PopulateForWriting(void* begin, size_t bytes);

// Keeps whole pages from forked children, which do not have them, and from core dumps.
void KeepFromForksAndDumps(void* begin, size_t bytes);

// Bytes of a page of this machine.
size_t PageBytes();
// "64.0 MiB", for messages.
std::string FormatBytes(size_t bytes);

}  // namespace weft
