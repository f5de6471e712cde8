// Copying operations on private memory by process_vm_readv: the kernel copies from the peer's buffer to
// this rank's, once, where staging copies twice. It looks up every page, so that it pays only where
// staging is slow or the buffers are large (docs/perf/collectives.md); and a system may forbid it (Yama,
// seccomp, user namespaces): every rank tries it on every peer when the group is made and says in its
// arrivals whether it worked, so all ranks decide alike.
//
// A peer's private memory is only ever read. A rank that leaves an operation early, by an abort, leaves
// memory behind that may be read for a moment: the reader looks for an abort when it has read, and throws
// away what it has.
#include <cerrno>

#include <sys/uio.h>

#include "base/status.h"
#include "comm/node/operation.h"
#include "fmt/format.h"

namespace weft {

// True if this rank takes it for granted that its block will be read by single copy. If a peer cannot do
// that, the block is staged after the ranks have met.
bool Operation::WantsSingleCopy(const NodeState& state) const {
  if (traits().reduces || traits().iov) return false;
  if (call_.algorithm != Algorithm::kAuto) return call_.algorithm == Algorithm::kSingleCopy;
  CallFacts facts = FactsOf(call_, state.size);
  if (size_ == Size::kRows) facts.bytes = largest_ * shape_.element_bytes;
  return state.reads_peers && facts.bytes >= SingleCopyMinBytes(state.tuning, facts);
}

// Decided from all arrivals, hence alike on all ranks.
bool Operation::AllSingleCopy(const NodeState& state) const {
  if (traits().reduces || traits().iov) return false;
  for (int peer = 0; peer < state.size; ++peer) {
    const auto& place = ArrivalOf(state, peer).place;
    if (place.reads_peers == 0) return false;
    if (HasInput(call_, peer) && place.in_kind == MemoryKind::kHidden) return false;
  }
  return WantsSingleCopy(state);
}

// Elements [begin, begin + count) of the private memory that `peer` announced.
absl::Status Operation::ReadPeer(const NodeState& state, int peer, size_t begin, size_t count,
                                 char* to) {
  const auto& place = ArrivalOf(state, peer).place;
  const size_t bytes = count * shape_.element_bytes;
  iovec local{to, bytes};
  iovec remote{reinterpret_cast<void*>(place.in_offset + begin * shape_.element_bytes), bytes};
  const int32_t pid = state.peers[static_cast<size_t>(peer)]->identity().pid;
  while (local.iov_len > 0) {
    const ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (got <= 0) {
      const int error = got == 0 ? EFAULT : errno;
      unread_peer_ = peer;
      return Annotate(
          SystemError(error, "process_vm_readv"),
          fmt::format("reading {} bytes of rank {}'s buffer (process {}); WEFT_SINGLE_COPY=0 does "
                      "without: ",
                      bytes, peer, pid));
    }
    const auto done = static_cast<size_t>(got);
    local = {static_cast<char*>(local.iov_base) + done, local.iov_len - done};
    remote = {static_cast<char*>(remote.iov_base) + done, remote.iov_len - done};
  }
  return absl::OkStatus();
}

}  // namespace weft
