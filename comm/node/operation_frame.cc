#include "comm/node/operation_frame.h"

#include <algorithm>
#include <cstring>

#include "base/cache_line.h"

namespace weft {

// An element of 24 bytes has 8 as its largest power of two: 8 of them are 3 lines.
size_t OperationFrame::ElementsOfWholeLines() const {
  const size_t bytes = shape().element_bytes;
  return bytes >= kCacheLineBytes ? 1 : kCacheLineBytes / (bytes & (~bytes + 1));
}

size_t OperationFrame::ShareOf(size_t length, size_t ranks) const {
  const size_t together = ElementsOfWholeLines();
  return ((length + ranks - 1) / ranks + together - 1) / together * together;
}

OperationResult OperationFrame::AwaitAll(std::atomic<uint32_t> RankControl::*word, uint32_t want) {
  for (; next_peer < state.size; ++next_peer) {
    if (next_peer == state.rank) continue;
    const std::atomic<uint32_t>& value = state.control(next_peer).*word;
    if (static_cast<int32_t>(value.load(std::memory_order_acquire) - want) < 0) {
      return Block(next_peer, value, want);
    }
  }
  next_peer = 0;
  return OperationResult::kDone;
}

// What is found is kept in the state, so that peers' lines are seldom read.
OperationResult OperationFrame::AwaitCredit(uint64_t older) {
  if (older <= state.all_done)
    return OperationResult::kDone;  // perhaps older than 32 bits can tell
  // This rank itself reads its slot and line again when it does the operation: it may announce ahead of
  // its own work no further than of the others'.
  if (older > state.completed) return OperationResult::kBlocked;
  const auto want = static_cast<uint32_t>(older);
  uint64_t beyond = state.completed - older;
  for (int peer = 0; peer < state.size; ++peer) {
    if (peer == state.rank) continue;
    uint32_t& known = state.known_done[static_cast<size_t>(peer)];
    if (static_cast<int32_t>(known - want) < 0) {
      const std::atomic<uint32_t>& done = state.control(peer).done;
      known = done.load(std::memory_order_acquire);
      if (static_cast<int32_t>(known - want) < 0) return Block(peer, done, want);
    }
    beyond = std::min(beyond, uint64_t{known - want});
  }
  state.all_done = older + beyond;
  return OperationResult::kDone;
}

void OperationFrame::CopyToOutput(int block, size_t begin, size_t count, const char* from) const {
  const size_t element = shape().element_bytes;
  const bool streams = OutputBytes(call(), state.size) >= state.tuning.stream_out_min_bytes;
  for (size_t done = 0; done < count;) {
    const Span span = OutSpan(call(), block, begin + done, count - done);
    const char* const source = from + done * element;
    if (streams) {
      state.stream_copy(span.memory, source, span.count * element);
    } else {
      std::memcpy(span.memory, source, span.count * element);
    }
    done += span.count;
  }
}

void OperationFrame::RunCustom(ReduceArguments arguments) const {
  if (call().op == kOpUser) return ReduceByUser(*call().custom, call().dtype, arguments);
  uint64_t factors[kNodeRanksMax];
  for (int rank = 0; rank < state.size; ++rank) {
    const void* const factor = rank == state.rank
                                   ? &call().custom->factor
                                   : static_cast<const void*>(ArrivalOf(rank).data + kFactorOffset);
    std::memcpy(&factors[rank], factor, sizeof(factors[rank]));
  }
  arguments.factors = factors;
  FindReduceKernel(state.isa, call().dtype, call().op)(arguments);
}

}  // namespace weft
