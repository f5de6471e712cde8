// The ranges of files that a process has registered, as its peers find them.
//
//   WEFT_ASSIGN_OR_RETURN(const uint64_t place, ranges.Add({...}));   // the owner; tells the place to peers
//   ranges.Remove(place);
//
// A heap is one file that peers have mapped since the group was made. A file of the caller's own cannot be
// part of it, so a range of one has a place beyond all heaps, kFilePlaces or more, and a peer that is told such a
// place looks it up in this table, takes the descriptor (pidfd_getfd) and maps the range then (peer_files.h). Places
// are never used again: what a peer has mapped under one is that range or, once it was removed, nothing.
//
// The table lies in the owner's private memory and peers read it while it may change (process_vm_readv). That is
// sound because a peer looks only for a range it was told of, whose entry was written before and stays until the owner's
// operations have ended. An entry's place is written last, and cleared first.
//
// Thread-safety: Add and Remove by one thread at a time (the heap's lock); Find, any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace weft {

// Above all offsets in heaps, which are sizes of address spaces.
constexpr uint64_t kFilePlaces = uint64_t{1} << 63;

struct FileRange {
  std::atomic<uint64_t> place;  // where its first byte is; 0: the entry is free
  uint64_t bytes;
  uint64_t offset;  // of its first byte, in the file
  char* address;    // of its first byte, in the owner
  uint64_t unit;    // a mapping begins at a multiple of it: bytes of the file's pages
  int32_t fd;       // of the owner
};

class FileRanges {
 public:
  static constexpr size_t kRangesMax = 4096;

  FileRanges() = default;
  FileRanges(const FileRanges&) = delete;
  FileRanges& operator=(const FileRanges&) = delete;
  ~FileRanges();

  struct Range {
    UniqueFd fd;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    char* address = nullptr;
    uint64_t unit = 1;
  };

  // Its place. OUT_OF_MEMORY if kRangesMax ranges are registered already.
  absl::StatusOr<uint64_t> Add(Range range);
  void Remove(uint64_t place);

  // The entry that holds [place, place + bytes); nullptr if none does.
  static const FileRange* Find(const FileRange* table, uint64_t place, uint64_t bytes);

  // kRangesMax entries; nullptr before the first Add(). The same from then on.
  const FileRange* table() const { return published_.load(std::memory_order_acquire); }

  // Where peers read what table() returns.
  const void* table_address() const { return &published_; }

  // In a forked child: it keeps no descriptor.
  void LetGo();

 private:
  // The entry of a range that begins there; of 0, a free one. nullptr if there is none.
  FileRange* EntryOf(uint64_t place);

  std::unique_ptr<FileRange[]> table_;
  std::atomic<const FileRange*> published_{nullptr};
  uint64_t next_place_ = kFilePlaces;
};

}  // namespace weft
