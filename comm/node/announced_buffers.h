// What ranks tell each other of their buffers when they arrive, and how a rank gets at what a peer told.
//
//   DescribeBuffers(frame, shared, line);                     // with the arrival
//   WEFT_ASSIGN_OR_RETURN(char* in, PeerBuffer(frame, peer, Side::kInput, begin, count));
//
// A buffer in symmetric memory is mapped by every rank. Any other buffer is private: the kernel may copy from it
// (process_vm_readv), once, where staging copies twice. It looks up every page, so that it pays only where staging is
// slow or the buffers are large (docs/perf/collectives.md); and a system may forbid it (Yama, seccomp, user
// namespaces): every rank tries it on every peer when the group is made and says in its arrivals whether it worked, so
// all ranks decide alike.
//
// A peer's private memory is only ever read. A rank that leaves an operation early, by an abort, leaves memory behind
// that may be read for a moment: the reader looks for an abort when it has read, and throws away what it has. A peer may
// also have become another program meanwhile, or its pid may be another process's: every read brings the peer's heap id
// with it, which no other process has (NodePeer::Read).
//
// Thread-safety: none; as NodeState.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/node/operation_frame.h"
#include "comm/node/shared_result.h"

namespace weft {

enum class Side : bool { kInput, kOutput };

// Where peers may find this rank's buffers. Nowhere, whatever they are, if they must not be read or
// written in place: lists of buffers, an all_to_all that overwrites what it sends, and when the staged
// algorithm was asked for. A side without bytes can be read by everybody.
void DescribeBuffers(OperationFrame& frame, const SharedResult& shared, Arrival& line);

// True if what the rank announced in `line` does not stand in the way of the direct protocol.
inline bool MayBeDirect(const OperationFrame& frame, const Arrival& line, int rank) {
  const OpTraits& traits = frame.traits();
  const bool writes_out = traits.reduces && !traits.in_blocks;
  if (line.told.in_kind != MemoryKind::kHeap && HasInput(frame.call(), rank)) return false;
  return !writes_out || line.told.out_kind == MemoryKind::kHeap || !HasOutput(frame.call(), rank);
}

// Elements [begin, begin + count) of what `peer` announced in a heap, as mapped here. CORRUPT if they do not lie within
// what it announced: numbers come from a peer, and are never used unchecked. If they are in a file that cannot be mapped, the error
// names its owner in frame.unread_peer.
absl::StatusOr<char*> PeerBuffer(OperationFrame& frame, int peer, Side side, size_t begin,
                                 size_t count);

// Copies such elements of the private memory that `peer` announced as its input, of the process that announced it or
// not at all. An error names the peer in frame.unread_peer.
absl::Status ReadPeer(OperationFrame& frame, int peer, size_t begin, size_t count, char* to);

}  // namespace weft
