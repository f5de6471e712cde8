// What all protocols of one operation share: its call, the group's state, whom it waits for, and how it ended.
//
//   OperationFrame frame(prepared, sequence, state);
//   if (frame.AwaitAll(&RankControl::reduced, want) == OperationResult::kBlocked) wait for frame.target;
//
// The protocols (slot_protocol.h, direct_protocol.h, staged_protocol.h) get it with every call and keep to themselves what
// only they know.
//
// Thread-safety: none; as NodeState.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "comm/group/collective.h"
#include "comm/kernels/reduce.h"
#include "comm/node/call_facts.h"
#include "comm/node/node_state.h"
#include "comm/node/prepared_call.h"

namespace weft {

// kRefused: ended with an error on all ranks alike, and the group works on.
enum class OperationResult { kDone, kBlocked, kFailed, kRefused };

// Elements [begin, begin + count) of a buffer or block.
struct Piece {
  size_t begin = 0;
  size_t count = 0;
};

struct OperationFrame {
  OperationFrame(const PreparedCall& of, uint64_t number, NodeState& of_rank)
      : prepared(of), state(of_rank), sequence(number) {}

  const PreparedCall& prepared;  // outlives the operation
  NodeState& state;
  const uint64_t sequence;
  int next_peer = 0;  // of peers that are waited for, or served, one by one; 0 between such loops
  // True if peers may have been told where in the heap this rank's buffers are.
  bool exposed = false;
  int outlier_rank = -1;  // of a failed operation: a rank whose call differs from this one
  int unread_peer = -1;   // of a failed operation: a rank whose memory could not be read
  WaitTarget target;      // after kBlocked
  absl::Status error;     // after kFailed and kRefused

  const Collective& call() const { return prepared.call; }

  const CallShape& shape() const { return prepared.shape; }

  const OpTraits& traits() const { return *prepared.shape.traits; }

  // Every rank reduces a slice of one buffer, which others get as well.
  bool Sliced() const { return traits().reduces && !traits().in_blocks && !traits().prefix; }

  // The block of in that is for `rank`, the block of out that is from `rank`.
  int InBlock(int rank) const { return traits().in_blocks ? rank : 0; }

  int OutBlock(int rank) const { return traits().out_blocks ? rank : 0; }

  // So many elements have whole cache lines; 1 where one has a line or more, whose ends are not worth sparing.
  size_t ElementsOfWholeLines() const;

  // What each of `ranks` ranks gets of `length` elements that they share: a multiple of ElementsOfWholeLines().
  size_t ShareOf(size_t length, size_t ranks) const;

  const Arrival& ArrivalOf(int peer) const {
    return state.control(peer).arrivals[sequence % kWindow];
  }

  const BufferPlaces& PlacesOf(int peer) const {
    return state.control(peer).places[sequence % kWindow];
  }

  OperationResult Block(int peer, const std::atomic<uint32_t>& word, uint32_t want) {
    target = WaitTarget{peer, &word, want};
    return OperationResult::kBlocked;
  }

  // One store; for work that may take long.
  void ShowProgress(const CallProgress& progress) const {
    state.recorder.SetProgress(sequence, progress);
  }

  OperationResult Fail(absl::Status why) {
    error = std::move(why);
    return OperationResult::kFailed;
  }

  // kBlocked until every peer's word has reached `want`.
  OperationResult AwaitAll(std::atomic<uint32_t> RankControl::*word, uint32_t want);

  // kBlocked until every rank has published done >= `older`, an operation of this group. Without a target, if this rank
  // itself has not done it.
  OperationResult AwaitCredit(uint64_t older);

  // The operation is done on this rank.
  OperationResult Finish() {
    state.completed = sequence;
    if (sequence % kWroteRefresh == 0) [[unlikely]] {
      state.self().wrote.store(static_cast<uint32_t>(sequence), std::memory_order_release);
    }
    state.PublishDone();
    // The line of the next operation was read by peers a while ago: takes it back meanwhile.
    __builtin_prefetch(&state.self().arrivals[(sequence + 1) % kWindow], 1);
    return OperationResult::kDone;
  }

  // Reduces `count` elements of each rank that this rank's result combines into the destinations, in group order.
  void RunKernel(const void* const* sources, void* const* destinations, int destination_count,
                 size_t count) const {
    RunKernelOf(shape().combined_ranks, sources, destinations, destination_count, count);
  }

  // The same of ranks 0 to `ranks` - 1.
  void RunKernelOf(int ranks, const void* const* sources, void* const* destinations,
                   int destination_count, size_t count) const {
    const ReduceArguments arguments{.sources = sources,
                                    .source_count = ranks,
                                    .destinations = destinations,
                                    .destination_count = destination_count,
                                    .count = count,
                                    .divisor = ranks};
    prepared.kernel != nullptr ? prepared.kernel(arguments) : RunCustom(arguments);
  }

  // RunKernelOf for a reduction that was made at run time.
  void RunCustom(ReduceArguments arguments) const;

  // Received elements into [begin, begin + count) of a block of the output; with streaming stores where the output is
  // larger than the caches.
  void CopyToOutput(int block, size_t begin, size_t count, const char* from) const;
};

}  // namespace weft
