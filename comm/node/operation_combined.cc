// How ranks meet when they outnumber their CPUs, and one-shot reductions of which one rank makes the result.
//
// A rank that announces an operation counts itself in, and the last one publishes `met`: a rank that waits is
// woken once, not by each peer in turn. If the operation is a reduction by slots, the last one also reduces
// all slots, in group order, into a slot of the segment's, before it publishes: the others, whose data it has
// in its cache, only copy the result. Otherwise each of P ranks would read P slots and reduce them all.
//
// The last rank does so when it announces, though it may still be busy with older operations: all slots are
// written then, and are kept until all have done the operation (I2). It compares the signatures; if there
// is a difference it reduces nothing, and every rank finds the same when it compares them itself.
// The result's slot has the number of the ranks' slots, so what frees those frees it too: a rank that has
// announced the operation has seen that all have done the one before that used them.
//
// A result that several ranks get in one place they write in turn, as without (operation_shared.cc): all know
// from the arrivals that it may be one, and nobody looks at what was combined, if anything was.
#include "comm/node/operation.h"

namespace weft {

// True if every rank called this, and no two have their out in a shared block.
bool Operation::MayCombine(const NodeState& state) const {
  int shared_outs = 0;
  for (int peer = 0; peer < state.size; ++peer) {
    const Arrival& line = ArrivalOf(state, peer);
    if (line.signature != signature_ || line.told.identity != prepared_.identity ||
        (line.epoch & ~kOutIsShared) != state.epoch) {
      return false;
    }
    if ((line.epoch & kOutIsShared) != 0) ++shared_outs;
  }
  return shared_outs < 2;
}

void Operation::Combine(NodeState& state) const {
  const void* sources[kNodeRanksMax];
  for (int peer = 0; peer < state.size; ++peer)
    sources[peer] = state.segment.slot(peer, slot_);
  void* const result = state.segment.combining().results[slot_];
  RunKernel(state, sources, &result, 1, InCount(call_, 0));
}

// After this rank's arrival was published.
void Operation::CountIn(NodeState& state) {
  phase_ = Phase::kMeet;
  Combining& combining = state.segment.combining();
  std::atomic<uint32_t>& combines = state.self().combines;
  combines.store(1, std::memory_order_relaxed);
  std::atomic<uint64_t>& announced = combining.announced[sequence_ % kWindow];
  const uint64_t counted = announced.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (counted % static_cast<uint64_t>(state.size) == 0) {
    if (prepared_.meeting == Meeting::kCombined && MayCombine(state)) Combine(state);
    combining.met.store(static_cast<uint32_t>(sequence_), std::memory_order_seq_cst);
    Ring(combining.bell);
  }
  combines.store(0, std::memory_order_relaxed);
}

bool Operation::HaveMet(const NodeState& state) const {
  const uint32_t met = state.segment.combining().met.load(std::memory_order_acquire);
  return static_cast<int32_t>(met - static_cast<uint32_t>(sequence_)) >= 0;
}

// `peer` has not arrived, or all have and the last one has not said so. Also for operations that need no result
// of the last one: a rank that finished an operation without `met` might be gone before the others have
// been told.
Operation::Result Operation::AwaitMet(const NodeState& state, int peer) {
  target_ = WaitTarget{.peer = peer,
                       .word = &state.segment.combining().met,
                       .want = static_cast<uint32_t>(sequence_),
                       .of_all = true};
  return Result::kBlocked;
}

void Operation::TakeCombined(const NodeState& state) const {
  CopyOut(call_, 0, 0, InCount(call_, 0), state.segment.combining().results[slot_]);
}

}  // namespace weft
