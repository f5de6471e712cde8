// The ranges of files that a peer has registered (file_ranges.h), as far as this process has mapped them.
//
//   WEFT_ASSIGN_OR_RETURN(char* const buffer, files.At(peer, place, bytes));
//
// A range is mapped when an operation first needs it and stays mapped until the peer has taken it back and another one is
// mapped, or until the peer's last group here is gone. It takes the right to trace the peer (ptrace(2),
// PTRACE_MODE_ATTACH_REALCREDS), as reading its private memory does; a rank that has it of all its peers says so in the
// group, and only then ranges of files are announced.
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/node/file_ranges.h"

namespace weft {

class NodePeer;

class PeerFiles {
 public:
  PeerFiles() = default;
  PeerFiles(const PeerFiles&) = delete;
  PeerFiles& operator=(const PeerFiles&) = delete;
  ~PeerFiles();

  // From now on files of the process behind `pidfd` can be mapped, whose FileRanges::table_address() is given; false, and
  // they cannot, if the system does not let this process have descriptors of that one. `pidfd` outlives the object.
  bool Open(int pidfd, uint64_t table_address);

  // Where [place, place + bytes) of `peer` is mapped here. CORRUPT if it has no such range; OUT_OF_MEMORY and SYSTEM_ERROR
  // if it cannot be mapped.
  absl::StatusOr<char*> At(const NodePeer& peer, uint64_t place, uint64_t bytes);

  // In a forked child, which does not have its parent's mappings, before the destruction.
  void LetGo() WEFT_NO_THREAD_SAFETY_ANALYSIS { mappings_.clear(); }

 private:
  struct Mapping {
    uint64_t bytes = 0;  // of the range
    char* data = nullptr;
    void* mapped = nullptr;
    size_t mapped_bytes = 0;
  };

  using Mappings = std::map<uint64_t, Mapping>;  // by place of the range

  char* Known(uint64_t place, uint64_t bytes) const WEFT_REQUIRES(mutex_);
  absl::StatusOr<Mapping> Map(const NodePeer& peer, const FileRange& range) const
      WEFT_REQUIRES(mutex_);
  void DropRemoved(const FileRange* table) WEFT_REQUIRES(mutex_);

  Mutex mutex_;
  int pidfd_ WEFT_GUARDED_BY(mutex_) = -1;
  uint64_t table_address_ WEFT_GUARDED_BY(mutex_) = 0;
  Mappings mappings_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
