// Operations on buffers in symmetric heaps: each rank reads its peers' inputs and writes its peers'
// outputs itself. 2PS bytes for an all_reduce, and two waits whatever the size. Of outputs that are one
// place (operation_shared.cc) every byte is written once, (P+1)S; and copies into one that all ranks have need
// nobody else's input.
//
// In place is safe because slice r of every buffer is read and written by rank r only.
#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "comm/kernels/dtype.h"
#include "comm/node/operation.h"
#include "fmt/format.h"

namespace weft {
namespace {

// Between two looks at the abort word: some 10 us of work.
constexpr size_t kChunkBytes = 64 << 10;
constexpr size_t kSingleCopyChunkBytes =
    512 << 10;  // some 50 us: a system call costs as much as 10 KiB

}  // namespace

// True if what the rank announced does not stand in the way of going directly.
bool Operation::MayBeDirect(const Arrival& line, int rank) const {
  const bool writes_out = traits().reduces && !traits().in_blocks;
  if (HasInput(call_, rank) && line.told.in_kind != MemoryKind::kHeap) return false;
  return !writes_out || !HasOutput(call_, rank) || line.told.out_kind == MemoryKind::kHeap;
}

// Decided from all arrivals, hence alike on all ranks.
bool Operation::AllDirect(const NodeState& state) const {
  if (!traits().reduces && SharedByAll(state)) return true;
  for (int peer = 0; peer < state.size; ++peer) {
    if (!MayBeDirect(ArrivalOf(state, peer), peer)) return false;
  }
  return true;
}

// Where elements [begin, begin + count) of what `peer` announced as its in or out begin. They lie in what it
// announced: numbers come from a peer, and are never used unchecked.
absl::StatusOr<uint64_t> Operation::PeerPlace(const NodeState& state, int peer, bool input,
                                              size_t begin, size_t count) const {
  const BufferPlaces& places = PlacesOf(state, peer);
  const uint64_t offset = input ? places.in_offset : places.out_offset;
  const uint64_t bytes = input ? places.in_bytes : places.out_bytes;
  const uint64_t elements = bytes / shape_.element_bytes;
  const bool within = begin <= elements && count <= elements - begin;
  if (within && offset <= UINT64_MAX - bytes) return offset + begin * shape_.element_bytes;
  return MakeError(
      WEFT_CORRUPT, {.rank = peer},
      fmt::format("rank {} announced {} bytes as its {}, of which elements {} to {} of {} bytes "
                  "each are needed; it is of another version of weft, or its memory is damaged",
                  peer, bytes, input ? "input" : "output", begin, begin + count,
                  shape_.element_bytes));
}

// The same of memory in a heap, as mapped here.
absl::StatusOr<char*> Operation::PeerBuffer(const NodeState& state, int peer, bool input,
                                            size_t begin, size_t count) const {
  WEFT_ASSIGN_OR_RETURN(const uint64_t offset, PeerPlace(state, peer, input, begin, count));
  const auto& told = ArrivalOf(state, peer).told;
  const int owner = input ? told.in_owner : told.out_owner;
  const size_t bytes = count * shape_.element_bytes;
  char* const buffer =
      owner < state.size ? state.peers[static_cast<size_t>(owner)]->At(offset, bytes) : nullptr;
  if (buffer != nullptr) return buffer;
  return MakeError(
      WEFT_CORRUPT, {.rank = peer},
      fmt::format("rank {} announced a buffer at {} + {} bytes, outside the heap of rank {}", peer,
                  offset, bytes, owner));
}

// The elements that this rank reduces, in every input: its block, or a slice of whole cache lines.
Operation::Piece Operation::DirectPiece(const NodeState& state) const {
  if (traits().in_blocks) return {InOffset(call_, state.rank), InCount(call_, state.rank)};
  const size_t slice = ShareOf(call_.count, static_cast<size_t>(state.size));
  const size_t begin = std::min(static_cast<size_t>(state.rank) * slice, call_.count);
  return {begin, std::min(slice, call_.count - begin)};
}

absl::Status Operation::DirectReduce(NodeState& state) {
  const size_t element = shape_.element_bytes;
  const bool scatter = traits().in_blocks;
  const auto [begin, count] = DirectPiece(state);
  if (count == 0) return absl::OkStatus();  // an empty block may lie anywhere, also outside of what was announced
  const char* inputs[kNodeRanksMax];
  char* outputs[kNodeRanksMax];
  int output_count = 0;
  for (int peer = 0; peer < state.size; ++peer) {
    WEFT_ASSIGN_OR_RETURN(inputs[peer], PeerBuffer(state, peer, true, begin, count));
    if (scatter || !HasOutput(call_, peer)) continue;
    WEFT_ASSIGN_OR_RETURN(char* const output, PeerBuffer(state, peer, false, begin, count));
    char** const end = outputs + output_count;
    if (!SeveralShareOut() || std::find(outputs, end, output) == end)
      outputs[output_count++] = output;
  }
  if (scatter) outputs[output_count++] = static_cast<char*>(call_.out);

  const size_t chunk = kChunkBytes / element;
  for (size_t done = 0; done < count; done += chunk) {
    if (state.aborted()) return MakeError(WEFT_ABORTED, "aborted");
    const void* sources[kNodeRanksMax];
    void* destinations[kNodeRanksMax];
    for (int i = 0; i < state.size; ++i)
      sources[i] = inputs[i] + done * element;
    for (int i = 0; i < output_count; ++i)
      destinations[i] = outputs[i] + done * element;
    RunKernel(state, sources, destinations, output_count, std::min(chunk, count - done));
  }
  return absl::OkStatus();
}

// This rank's block of what `peer` contributes.
absl::Status Operation::CopyBlock(const NodeState& state, int peer, size_t count) {
  const int block = OutBlock(peer);
  const size_t begin = PeerOffset(state, peer);
  const bool mapped =
      peer == state.rank || ArrivalOf(state, peer).told.in_kind == MemoryKind::kHeap;
  const char* from = nullptr;
  if (peer ==
      state.rank) {  // by the caller's address, so that in place is seen to be nothing to do
    from = InRun(call_, InBlock(peer), 0, count).memory;
  } else if (mapped) {
    WEFT_ASSIGN_OR_RETURN(from, PeerBuffer(state, peer, true, begin, count));
  }
  const size_t chunk = (mapped ? kChunkBytes : kSingleCopyChunkBytes) / shape_.element_bytes;
  for (size_t done = 0; done < count; done += chunk) {
    if (state.aborted()) return MakeError(WEFT_ABORTED, "aborted");
    const size_t length = std::min(chunk, count - done);
    if (peer == state.rank) {
      CopyOut(call_, block, done, length, from + done * shape_.element_bytes);
    } else if (mapped) {
      CopyToOutput(state, block, done, length, from + done * shape_.element_bytes);
    } else {
      char* const to = OutRun(call_, block, done, length).memory;
      WEFT_RETURN_IF_ERROR(ReadPeer(state, peer, begin + done, length, to));
    }
  }
  return absl::OkStatus();
}

absl::Status Operation::DirectCopy(NodeState& state) {
  if (!shape_.has_output) return absl::OkStatus();
  for (int i = 0; i < state.size; ++i) {
    const int peer = (state.rank + i) % state.size;  // not all at the same peer
    if (!HasInput(call_, peer) || !WritesFrom(state, peer)) continue;
    const size_t count = OutCount(call_, OutBlock(peer));
    if (count > 0) WEFT_RETURN_IF_ERROR(CopyBlock(state, peer, count));
  }
  return absl::OkStatus();
}

// `engaged` is raised before the abort word is read, and an aborting rank writes the abort word before
// it reads `engaged` (all seq_cst): either this rank sees the abort and touches nothing, or the
// aborting rank sees that it must wait. For private memory, which is only read, it does not wait: its abort
// stands before it returns, so that a look at the end tells whether what was read is what was meant.
Operation::Result Operation::Direct(NodeState& state) {
  RankControl& self = state.self();
  self.engaged.store(1, std::memory_order_seq_cst);
  absl::Status moved;
  if (!state.aborted()) moved = traits().reduces ? DirectReduce(state) : DirectCopy(state);
  state.Publish(self.engaged, 0);
  if (!moved.ok()) return Fail(moved);
  if (state.aborted()) return Fail(MakeError(WEFT_ABORTED, "aborted"));
  state.Publish(self.reduced, static_cast<uint32_t>(state.reduced + 1));
  phase_ = Phase::kDirectWait;
  return DirectWait(state);
}

Operation::Result Operation::DirectWait(NodeState& state) {
  const auto want = static_cast<uint32_t>(state.reduced + 1);
  if (AwaitAll(state, &RankControl::reduced, want) == Result::kBlocked) return Result::kBlocked;
  ++state.reduced;
  return Finish(state);
}

}  // namespace weft
