// One collective of one rank on a node, as a state machine.
//
//   Operation operation(prepared, sequence, state);
//   while (operation.Poll() == Operation::Result::kBlocked) wait for operation.target();
//
// Every operation begins with an arrival of every rank at every rank; what the arrivals say of the call
// is compared then, so that a mismatch is known on all ranks before a byte of a result is written.
// What happens next depends on the operation's size and on what the arrivals say of the buffers:
//   inline, slot   <= 48 B, <= 8 KiB: the data came with the arrival; each rank reduces or copies (slot_protocol.h)
//   direct         buffers in symmetric heaps: read from and written to peers' memory (direct_protocol.h)
//   single_copy    operations that only copy, private buffers: read from peers' memory by the kernel (there as well)
//   staged         all others: through the ranks' staging, in rounds (staged_protocol.h)
// Ranks that outnumber their CPUs count their arrivals at one word, and the last one reduces slots for all (arrival_counter.h).
// Forms in which a rank knows only its own counts put a table of them into the slot, with the data
// behind it when there is room (count_exchange.h).
// docs/design/003-node.md has the bytes moved and the proof that nothing is overwritten too early.
//
// This class owns the order of these things: the phase, the arrival, the choice of the protocol. What a protocol keeps
// between two polls is in the protocol's own object, side by side in here: most of it is never initialised.
//
// Thread-safety: none; runs by whoever may touch the group's NodeState. Never waits.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "comm/node/count_exchange.h"
#include "comm/node/operation_frame.h"
#include "comm/node/prepared_call.h"
#include "comm/node/shared_result.h"
#include "comm/node/slot_protocol.h"
#include "comm/node/staged_protocol.h"

namespace weft {

class Operation {
 public:
  using Result = OperationResult;

  // `prepared` and `state` outlive the operation.
  Operation(const PreparedCall& prepared, uint64_t sequence, NodeState& state)
      : frame_(prepared, sequence, state) {}

  // Publishes this rank's arrival, and what it can stage at once; kBlocked while the window or a slot is still
  // in use: by this rank itself only if older operations have not been done, then there is no target().
  // Operations of a group are started in order.
  Result Start();

  // Goes on as far as it can, from Start if that has not been done. Only the group's oldest operation may be polled.
  Result Poll();

  bool started() const { return started_; }

  // After kBlocked.
  const WaitTarget& target() const { return frame_.target; }

  uint32_t signature() const { return frame_.prepared.signature; }

  // After kFailed and kRefused; `outlier_rank` is a rank whose call differs from this one, or -1.
  const absl::Status& error() const { return frame_.error; }

  int outlier_rank() const { return frame_.outlier_rank; }

  // Of the ranks that have come to it, whether or not all have, one whose call differs from this
  // one, or -1.
  int FindOutlier() const;

  // After kFailed: a rank whose memory could not be read, or -1.
  int unread_peer() const { return frame_.unread_peer; }

  const Collective& call() const { return frame_.call(); }

  const PreparedCall& prepared() const { return frame_.prepared; }

  uint64_t sequence() const { return frame_.sequence; }

  // After kDone: by what the data travelled.
  Protocol protocol() const {
    return frame_.prepared.protocol == Protocol::kAuto ? taken_ : frame_.prepared.protocol;
  }

  // True if peers may have been told where in the heap this rank's buffers are.
  bool exposed() const { return frame_.exposed; }

  // After kBlocked: how far it has come, and for whom it waits.
  CallProgress Progress() const;

 private:
  // What comes next. kTurn and kWriters: of ranks that have their result in one place (shared_result.h).
  enum class Phase : uint8_t { kBroken, kArrive, kCounted, kTurn, kWriters, kDirect, kStaged };

  // The arrival of this rank.
  Result Announce();
  void Publish(Arrival& line);
  Result Break(absl::Status error);
  void StageEarly(Arrival& line);

  // The arrivals of all.
  Result AwaitArrivals();
  Result AwaitCounter();
  bool TakeSharedResult(int peer, const Arrival& line);
  Result RefuseArrival(int peer, const Arrival& line);
  Result CompareCalls();
  Result EndArrival();

  // What follows them.
  Result Continue();
  Result ContinueInPlaceOfOthers();
  Result Move();
  Reach ReachOfAll() const;
  size_t LargestBlock() const;
  Result TakeTurn();
  Result PollStaged();
  Result EndShared();
  Result Refuse(std::string_view why);

  OperationFrame frame_;
  SharedResult shared_;
  Phase phase_ = Phase::kArrive;
  bool started_ = false;
  Protocol taken_;  // where the prepared call does not say
  SlotProtocol slot_;
  CountExchange counts_;
  StagedProtocol staged_;
};

}  // namespace weft
