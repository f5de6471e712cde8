#include "comm/node/direct_protocol.h"

#include <algorithm>

#include "base/status.h"
#include "comm/node/announced_buffers.h"
#include "comm/node/count_exchange.h"

namespace weft {
namespace {

// Between two looks at the abort word: some 10 us of work.
constexpr size_t kChunkBytes = 64 << 10;
constexpr size_t kSingleCopyChunkBytes =
    512 << 10;  // some 50 us: a system call costs as much as 10 KiB
// Of all ranks together, in a scan, which reads them again for each rank: they stay in a core's cache.
constexpr size_t kPrefixChunkBytes = 256 << 10;

absl::Status Aborted() {
  return MakeError(WEFT_ABORTED, "aborted");
}

// The elements that this rank reduces, in every input: its block, or a slice of whole cache lines.
Piece OwnPiece(const OperationFrame& frame) {
  const NodeState& state = frame.state;
  const Collective& call = frame.call();
  if (frame.traits().in_blocks) return {InOffset(call, state.rank), InCount(call, state.rank)};
  const size_t slice = frame.ShareOf(call.count, static_cast<size_t>(state.size));
  const size_t begin = std::min(static_cast<size_t>(state.rank) * slice, call.count);
  return {begin, std::min(slice, call.count - begin)};
}

absl::Status Reduce(OperationFrame& frame, const SharedResult& shared) {
  const NodeState& state = frame.state;
  const size_t element = frame.shape().element_bytes;
  const auto [begin, count] = OwnPiece(frame);
  if (count == 0)
    return absl::OkStatus();  // an empty block may lie anywhere, also outside of what was announced
  const char* inputs[kNodeRanksMax];
  char* outputs[kNodeRanksMax];
  int output_count = 0;
  for (int peer = 0; peer < state.size; ++peer) {
    WEFT_ASSIGN_OR_RETURN(inputs[peer], PeerBuffer(frame, peer, Side::kInput, begin, count));
    if (!frame.Sliced() || !HasOutput(frame.call(), peer)) continue;
    WEFT_ASSIGN_OR_RETURN(char* const output, PeerBuffer(frame, peer, Side::kOutput, begin, count));
    char** const end = outputs + output_count;
    if (!shared.SeveralAnnounced() || std::find(outputs, end, output) == end)
      outputs[output_count++] = output;
  }
  if (!frame.Sliced()) outputs[output_count++] = static_cast<char*>(frame.call().out);

  const size_t chunk = kChunkBytes / element;
  for (size_t done = 0; done < count; done += chunk) {
    if (state.aborted()) return Aborted();
    const void* sources[kNodeRanksMax];
    void* destinations[kNodeRanksMax];
    for (int i = 0; i < state.size; ++i)
      sources[i] = inputs[i] + done * element;
    for (int i = 0; i < output_count; ++i)
      destinations[i] = outputs[i] + done * element;
    frame.RunKernel(sources, destinations, output_count, std::min(chunk, count - done));
  }
  return absl::OkStatus();
}

// This rank's slice of every rank's result.
absl::Status ReducePrefixes(OperationFrame& frame) {
  const NodeState& state = frame.state;
  const size_t element = frame.shape().element_bytes;
  const auto [begin, count] = OwnPiece(frame);
  if (count == 0) return absl::OkStatus();
  const char* inputs[kNodeRanksMax];
  char* outputs[kNodeRanksMax];
  for (int peer = 0; peer < state.size; ++peer) {
    WEFT_ASSIGN_OR_RETURN(inputs[peer], PeerBuffer(frame, peer, Side::kInput, begin, count));
    if (!HasOutput(frame.call(), peer)) continue;
    WEFT_ASSIGN_OR_RETURN(outputs[peer], PeerBuffer(frame, peer, Side::kOutput, begin, count));
  }
  const size_t chunk =
      std::max<size_t>(1, kPrefixChunkBytes / static_cast<size_t>(state.size) / element);
  for (size_t done = 0; done < count; done += chunk) {
    if (state.aborted()) return Aborted();
    const void* sources[kNodeRanksMax];
    for (int peer = 0; peer < state.size; ++peer)
      sources[peer] = inputs[peer] + done * element;
    for (int peer = state.size - 1; peer >= 0; --peer) {
      if (!HasOutput(frame.call(), peer)) continue;
      void* const destination = outputs[peer] + done * element;
      frame.RunKernelOf(CombinedRanks(frame.traits(), peer, state.size), sources, &destination, 1,
                        std::min(chunk, count - done));
    }
  }
  return absl::OkStatus();
}

// This rank's block of what `peer` contributes, from element `begin` of its buffer on.
absl::Status CopyBlock(OperationFrame& frame, int peer, size_t begin, size_t count) {
  const NodeState& state = frame.state;
  const Collective& call = frame.call();
  const size_t element = frame.shape().element_bytes;
  const int block = frame.OutBlock(peer);
  const bool own = peer == state.rank;
  const bool mapped = own || frame.ArrivalOf(peer).told.in_kind == MemoryKind::kHeap;
  const char* from = nullptr;
  if (own) {  // by the caller's address, so that in place is seen to be nothing to do
    from = InSpan(call, frame.InBlock(peer), 0, count).memory;
  } else if (mapped) {
    WEFT_ASSIGN_OR_RETURN(from, PeerBuffer(frame, peer, Side::kInput, begin, count));
  }
  const size_t chunk = (mapped ? kChunkBytes : kSingleCopyChunkBytes) / element;
  for (size_t done = 0; done < count; done += chunk) {
    if (state.aborted()) return Aborted();
    const size_t length = std::min(chunk, count - done);
    if (own) {
      CopyOut(call, block, done, length, from + done * element);
    } else if (mapped) {
      frame.CopyToOutput(block, done, length, from + done * element);
    } else {
      char* const to = OutSpan(call, block, done, length).memory;
      WEFT_RETURN_IF_ERROR(ReadPeer(frame, peer, begin + done, length, to));
    }
  }
  return absl::OkStatus();
}

absl::Status Copy(OperationFrame& frame, const SharedResult& shared, const SlotProtocol& slot) {
  const NodeState& state = frame.state;
  const Collective& call = frame.call();
  if (!frame.shape().has_output) return absl::OkStatus();
  for (int i = 0; i < state.size; ++i) {
    const int peer = (state.rank + i) % state.size;  // not all at the same peer
    if (!HasInput(call, peer) || !shared.WritesFrom(state, peer)) continue;
    const size_t count = OutCount(call, frame.OutBlock(peer));
    if (count == 0) continue;
    const size_t begin = frame.traits().local_counts ? CountExchange::OffsetAt(frame, slot, peer)
                                                     : InOffset(call, frame.InBlock(state.rank));
    WEFT_RETURN_IF_ERROR(CopyBlock(frame, peer, begin, count));
  }
  return absl::OkStatus();
}

}  // namespace

// `peer_access` is raised before the abort word is read, and an aborting rank writes the abort word before
// it reads `peer_access` (all seq_cst): either this rank sees the abort and touches nothing, or the
// aborting rank sees that it must wait. For private memory, which is only read, it does not wait: its abort
// stands before it returns, so that a look at the end tells whether what was read is what was meant.
OperationResult StartDirect(OperationFrame& frame, const SharedResult& shared,
                            const SlotProtocol& slot) {
  NodeState& state = frame.state;
  RankControl& self = state.self();
  frame.ShowProgress({.phase = CallPhase::kDirect});
  self.peer_access.store(1, std::memory_order_seq_cst);
  absl::Status moved;
  if (!state.aborted()) {
    moved = frame.traits().prefix    ? ReducePrefixes(frame)
            : frame.traits().reduces ? Reduce(frame, shared)
                                     : Copy(frame, shared, slot);
  }
  state.Publish(self.peer_access, 0);
  if (!moved.ok()) return frame.Fail(moved);
  if (state.aborted()) return frame.Fail(Aborted());
  state.Publish(self.reduced, static_cast<uint32_t>(state.reduced + 1));
  return PollDirect(frame);
}

OperationResult PollDirect(OperationFrame& frame) {
  NodeState& state = frame.state;
  const auto want = static_cast<uint32_t>(state.reduced + 1);
  if (frame.AwaitAll(&RankControl::reduced, want) == OperationResult::kBlocked) {
    return OperationResult::kBlocked;
  }
  ++state.reduced;
  return frame.Finish();
}

}  // namespace weft
