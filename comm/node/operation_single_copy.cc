// Copying operations on private memory by process_vm_readv: the kernel copies from the peer's buffer to
// this rank's, once, where staging copies twice. It looks up every page, so that it pays only where
// staging is slow or the buffers are large (docs/perf/collectives.md); and a system may forbid it (Yama,
// seccomp, user namespaces): every rank tries it on every peer when the group is made and says in its
// arrivals whether it worked, so all ranks decide alike.
//
// A peer's private memory is only ever read. A rank that leaves an operation early, by an abort, leaves
// memory behind that may be read for a moment: the reader looks for an abort when it has read, and throws
// away what it has. A peer may also have become another program meanwhile, or its pid may be another process's: every
// read brings the peer's heap id with it, which no other process has (NodePeer::Read).
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
    const auto& told = ArrivalOf(state, peer).told;
    if (told.reads_peers == 0) return false;
    if (HasInput(call_, peer) && told.in_kind == MemoryKind::kHidden) return false;
  }
  return WantsSingleCopy(state);
}

// Elements [begin, begin + count) of the private memory that `peer` announced; of the process that announced it, or
// nothing.
absl::Status Operation::ReadPeer(const NodeState& state, int peer, size_t begin, size_t count,
                                 char* to) {
  WEFT_ASSIGN_OR_RETURN(const uint64_t address, PeerPlace(state, peer, true, begin, count));
  const size_t bytes = count * shape_.element_bytes;
  const absl::Status read = state.peers[static_cast<size_t>(peer)]->Read(address, to, bytes);
  if (read.ok()) return read;
  unread_peer_ = peer;
  return Annotate(read, fmt::format("reading {} bytes of rank {}'s buffer; WEFT_SINGLE_COPY=0 does "
                                    "without: ",
                                    bytes, peer));
}

}  // namespace weft
