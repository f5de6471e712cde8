#include "comm/node/arrival_counter.h"

namespace weft {
namespace {

// True if every rank called this, and no two have their out in a shared block.
bool MayReduceForAll(const OperationFrame& frame) {
  int shared_outs = 0;
  for (int peer = 0; peer < frame.state.size; ++peer) {
    const Arrival& line = frame.ArrivalOf(peer);
    if (line.signature != frame.prepared.signature ||
        line.told.identity != frame.prepared.identity ||
        (line.epoch & ~kOutIsShared) != frame.state.epoch) {
      return false;
    }
    if ((line.epoch & kOutIsShared) != 0) ++shared_outs;
  }
  return shared_outs < 2;
}

void ReduceForAll(const OperationFrame& frame, const SlotProtocol& slot) {
  const Segment& segment = frame.state.segment;
  const void* sources[kNodeRanksMax];
  for (int peer = 0; peer < frame.state.size; ++peer)
    sources[peer] = segment.slot(peer, slot.index());
  void* const result = segment.arrival_counter().results[slot.index()];
  frame.RunKernel(sources, &result, 1, InCount(frame.call(), 0));
}

}  // namespace

void CountArrival(const OperationFrame& frame, const SlotProtocol& slot) {
  const NodeState& state = frame.state;
  ArrivalCounter& counter = state.segment.arrival_counter();
  std::atomic<uint32_t>& reduces = state.self().reduces_for_all;
  reduces.store(1, std::memory_order_relaxed);
  std::atomic<uint64_t>& announced = counter.announced[frame.sequence % kWindow];
  const uint64_t counted = announced.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (counted % static_cast<uint64_t>(state.size) == 0) {
    if (frame.prepared.meeting == Meeting::kLastArriver && MayReduceForAll(frame)) {
      ReduceForAll(frame, slot);
    }
    counter.arrived.store(static_cast<uint32_t>(frame.sequence), std::memory_order_seq_cst);
    NotifyAll(counter.waiters);
  }
  reduces.store(0, std::memory_order_relaxed);
}

bool AllCounted(const OperationFrame& frame) {
  const uint32_t arrived =
      frame.state.segment.arrival_counter().arrived.load(std::memory_order_acquire);
  return static_cast<int32_t>(arrived - static_cast<uint32_t>(frame.sequence)) >= 0;
}

OperationResult AwaitCounted(OperationFrame& frame, int peer) {
  frame.target = WaitTarget{.peer = peer,
                            .word = &frame.state.segment.arrival_counter().arrived,
                            .want = static_cast<uint32_t>(frame.sequence),
                            .of_all = true};
  return OperationResult::kBlocked;
}

void CopyLastArriversResult(const OperationFrame& frame, const SlotProtocol& slot) {
  const char* const result = frame.state.segment.arrival_counter().results[slot.index()];
  CopyOut(frame.call(), 0, 0, InCount(frame.call(), 0), result);
}

}  // namespace weft
