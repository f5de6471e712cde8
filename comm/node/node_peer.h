// A process of the node as a group needs it: its heap, mapped here, and whether it still lives.
//
// Death is known from facts (base/proc.h), never from silence.
// Thread-safety: all members, any thread. One object per process and heap, shared by the groups that
// two processes have in common; the mapping goes with the last of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/lifeline.h"
#include "base/mutex.h"
#include "base/pages.h"
#include "base/proc.h"
#include "comm/group/fork.h"
#include "comm/node/peer_files.h"

namespace weft {

// Between questions of a long wait whether a peer still runs its program: a system call each.
constexpr int64_t kAskProgramNs = 100'000'000;

class NodePeer {
 public:
  struct Identity {
    int32_t pid = 0;
    uint64_t start_time = 0;
    uint64_t heap_id = 0;
    uint64_t heap_bytes = 0;
    std::string host;
    uint64_t heap_id_address = 0;  // where heap_id stands in the process's own memory
    uint64_t files_address = 0;    // FileRanges::table_address() there
  };

  // This process; keeps its heap reserved, with room for those of `process_count` processes (Heap::Retain).
  static absl::StatusOr<std::shared_ptr<NodePeer>> Self(int process_count = 1);
  // Another process, whose heap is behind `fd`; or this one, if `identity` is its own.
  // CORRUPT if the file is not a sealed heap of the announced size.
  static absl::StatusOr<std::shared_ptr<NodePeer>> Open(const Identity& identity, UniqueFd fd,
                                                        Lifeline lifeline);
  ~NodePeer();

  const Identity& identity() const { return identity_; }

  bool is_self() const { return is_self_; }

  char* base() const { return base_; }

  // Its heap as mapped here; nullptr if [offset, offset + bytes) is not inside.
  char* At(uint64_t offset, uint64_t bytes) const {
    const bool inside = offset <= identity_.heap_bytes && bytes <= identity_.heap_bytes - offset;
    return inside ? base_ + offset : nullptr;
  }

  // Where a buffer is that the process announced: in its heap, or in a file that it has registered (file_ranges.h), which is
  // mapped if it has not been yet. nullptr if outside its heap; errors of PeerFiles::At.
  absl::StatusOr<char*> Find(uint64_t place, uint64_t bytes) {
    if (place >= kFilePlaces) [[unlikely]] {
      return FindInFile(place, bytes);
    }
    return At(place, bytes);
  }

  // False if Find() gives no address whatever files the process has registered.
  bool MayHold(uint64_t place, uint64_t bytes) const {
    return place >= kFilePlaces ? bytes <= UINT64_MAX - place : At(place, bytes) != nullptr;
  }

  // True if Find() reaches its files.
  bool maps_files() const { return maps_files_; }

  // True if this process may read any of its memory by process_vm_readv: tried on its heap's id when the
  // object was made.
  bool readable() const { return readable_; }

  // Copies from its own memory, if readable(). Fails, with some of `to` written, if not all of it
  // can be read or if the process is not what it was: it has ended, or runs another program.
  absl::Status Read(uint64_t address, void* to, size_t bytes) const;

  // Becomes readable when it ends (base/proc.h); -1 if nothing does: of this process, and of one that had ended before.
  int lifeline() const;
  // How it ended, if it has ended.
  std::optional<ExitInfo> Ended();
  // True if what was readable() is another program's memory now: the process has called exec. Of one that is not
  // readable(), or not any more, this is not known: false. The number may be another process's once this one has
  // ended, so ask Ended() afterwards.
  bool RunsAnotherProgram() const;
  // As ReadCpuWaitNs(); nothing of this process and of one that is not seen here.
  std::optional<int64_t> CpuWaitNs() const;
  // What it does: by PeerProcess::State().
  ProcessState State() const;
  // "running", "sleeping", "stopped", "of another pid namespace, not ended"...: for messages.
  std::string StateName() const;
  // It does nothing and waits for nobody: stopped by a signal or a debugger, frozen, or writing a core dump.
  bool Stopped() const;

 private:
  NodePeer() = default;

  void TryToRead(int32_t visible_pid);
  absl::StatusOr<char*> FindInFile(uint64_t place, uint64_t bytes);

  const Origin origin_;
  Identity identity_;
  bool is_self_ = false;
  bool readable_ = false;
  bool maps_files_ = false;
  int32_t read_pid_ = 0;  // under which it is read
  char* base_ = nullptr;
  Pages pages_;  // empty for this process
  mutable Mutex mutex_;
  std::unique_ptr<PeerProcess> process_ WEFT_GUARDED_BY(mutex_);
  PeerFiles files_;  // with process_'s descriptor
};

}  // namespace weft
