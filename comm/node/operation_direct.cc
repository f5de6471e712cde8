// Operations on buffers in symmetric heaps: each rank reads its peers' inputs and writes its peers'
// outputs itself. 2PS bytes for an all_reduce, and two waits whatever the size.
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
constexpr size_t kLineBytes = 64;

}  // namespace

// Decided from all arrivals, hence alike on all ranks.
bool Operation::AllDirect(const NodeState& state) const {
  for (int peer = 0; peer < state.size; ++peer) {
    const auto& place = state.control(peer).arrivals[sequence_ % kWindow].place;
    if (HasInput(peer) && place.in_kind != MemoryKind::kHeap) return false;
    const bool writes_out = call_.kind == OpKind::kAllReduce || call_.kind == OpKind::kReduce;
    if (writes_out && HasOutput(peer) && place.out_kind != MemoryKind::kHeap) return false;
  }
  return true;
}

// Offsets come from a peer: never used unchecked.
absl::StatusOr<char*> Operation::PeerBuffer(const NodeState& state, int peer, bool input) const {
  const auto& place = state.control(peer).arrivals[sequence_ % kWindow].place;
  const uint64_t offset = input ? place.in_offset : place.out_offset;
  const size_t bytes = input ? InputBytes(call_, state.size) : OutputBytes(call_, state.size);
  char* const buffer = state.peers[static_cast<size_t>(peer)]->At(offset, bytes);
  if (buffer != nullptr) return buffer;
  return MakeError(WEFT_CORRUPT, {.rank = peer},
                   fmt::format("rank {} announced a buffer at {} + {} bytes, outside its heap",
                               peer, offset, bytes));
}

absl::Status Operation::DirectReduce(NodeState& state) {
  const size_t element = DtypeSize(call_.dtype);
  const auto ranks = static_cast<size_t>(state.size);
  const auto rank = static_cast<size_t>(state.rank);
  size_t begin = 0;  // first element of this rank's part, in every input
  size_t count = call_.count;
  if (call_.kind == OpKind::kReduceScatter) {
    begin = rank * call_.count;
  } else {
    const size_t per_line = kLineBytes / element;
    const size_t slice = ((call_.count + ranks - 1) / ranks + per_line - 1) / per_line * per_line;
    begin = std::min(rank * slice, call_.count);
    count = std::min(slice, call_.count - begin);
  }
  const char* inputs[kNodeRanksMax];
  char* outputs[kNodeRanksMax];
  int output_count = 0;
  for (int peer = 0; peer < state.size; ++peer) {
    WEFT_ASSIGN_OR_RETURN(char* const input, PeerBuffer(state, peer, true));
    inputs[peer] = input + begin * element;
    if (call_.kind == OpKind::kReduceScatter || !HasOutput(peer)) continue;
    WEFT_ASSIGN_OR_RETURN(char* const output, PeerBuffer(state, peer, false));
    outputs[output_count++] = output + begin * element;
  }
  if (call_.kind == OpKind::kReduceScatter) outputs[output_count++] = out();

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

absl::Status Operation::DirectCopy(NodeState& state) {
  const size_t bytes = call_.count * DtypeSize(call_.dtype);
  for (int i = 0; i < state.size; ++i) {
    const int peer = (state.rank + i) % state.size;  // not all at the same peer
    if (!HasInput(peer)) continue;
    WEFT_ASSIGN_OR_RETURN(const char* const from, PeerBuffer(state, peer, true));
    char* const to =
        out() + (call_.kind == OpKind::kAllGather ? static_cast<size_t>(peer) * bytes : 0);
    if (to == from) continue;
    for (size_t done = 0; done < bytes; done += kChunkBytes) {
      if (state.aborted()) return MakeError(WEFT_ABORTED, "aborted");
      std::memcpy(to + done, from + done, std::min(kChunkBytes, bytes - done));
    }
  }
  return absl::OkStatus();
}

// `engaged` is raised before the abort word is read, and an aborting rank writes the abort word before
// it reads `engaged` (all seq_cst): either this rank sees the abort and touches nothing, or the
// aborting rank sees that it must wait.
Operation::Result Operation::Direct(NodeState& state) {
  RankControl& self = state.self();
  self.engaged.store(1, std::memory_order_seq_cst);
  const absl::Status moved = state.aborted() ? MakeError(WEFT_ABORTED, "aborted")
                             : Reduces()     ? DirectReduce(state)
                                             : DirectCopy(state);
  state.Publish(self.engaged, 0);
  if (!moved.ok()) return Fail(moved);
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
