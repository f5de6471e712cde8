// What one rank knows about its group on the node: where everything is, and its own counters.
//
// Owned by a NodeGroup; touched only under the group's step word, except what is constant after the
// group was made (segment, rank, size, peers, isa).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/kernels/reduce.h"
#include "comm/node/node_peer.h"
#include "comm/node/segment.h"
#include "comm/node/shared_stores.h"

namespace weft {

// "What to wait for": word at `peer` to reach `want`, modulo 2^32.
struct WaitTarget {
  int peer = -1;
  const std::atomic<uint32_t>* word = nullptr;
  uint32_t want = 0;
  bool of_messages = false;  // word is this rank's own count of events, with a bell of its own
  bool others = false;       // messages are waited for too, which have another bell

  bool Reached() const {
    return static_cast<int32_t>(word->load(std::memory_order_acquire) - want) >= 0;
  }
};

struct NodeState {
  // Constant.
  Segment segment;
  RecorderRing recorder;  // this rank's
  int rank = 0;
  int size = 1;
  uint32_t epoch = 1;
  Isa isa = Isa::kScalar;
  std::vector<std::shared_ptr<NodePeer>> peers;  // by rank; own process included
  Tuning tuning;                                 // the same on all ranks
  bool reads_peers = false;                      // may read every peer's private memory

  // Counters, see segment.h I1-I4.
  uint64_t completed = 0;                        // last operation finished here
  std::vector<uint32_t> known_done;              // what every rank is known to have finished
  uint64_t staged = 0;                           // published by all ranks when `completed` is done
  uint64_t reduced = 0;                          // likewise
  uint32_t slot_next = 0;                        // slot of the next one-shot operation
  std::array<uint64_t, kSlotCount> slot_user{};  // operation that used each slot last
  char* stage = nullptr;                    // own staging, in the own heap; made when first needed
  std::array<uint64_t, 2> stage_free_at{};  // peers' `reduced` from which each half is free
  SharedStores stores;                      // into slots and staging
  std::vector<char*> peer_stage;            // peers' staging as mapped here, once looked up

  // Of a half of the staging area that holds a piece for every rank, one of them; and all of it.
  size_t piece_bytes() const { return tuning.stage_piece_bytes; }

  size_t half_bytes() const { return piece_bytes() * static_cast<size_t>(size); }

  RankControl& self() const { return segment.control(rank); }

  RankControl& control(int peer) const { return segment.control(peer); }

  bool aborted() const { return segment.header().abort.load(std::memory_order_seq_cst) != 0; }

  // Publishes `value` in one of self()'s words. A peer that spins sees it at once; one that sleeps is woken
  // by the next Wake(), which must come before this rank waits for long or returns to its caller. So the
  // store need not be waited for: taking the line back from a peer goes on beside what follows.
  void Publish(std::atomic<uint32_t>& word, uint32_t value) {
    word.store(value, std::memory_order_release);
    wake_due_ = true;
  }

  // Publishes `completed` and wakes who waits for anything that was published.
  void PublishDone() {
    wake_due_ = false;
    self().done.store(static_cast<uint32_t>(completed), std::memory_order_seq_cst);
    Ring(self().bell);
  }

  void Wake() {
    if (wake_due_) PublishDone();
  }

  // Tells `peer` that something has changed for which its messages may wait.
  void Notify(int peer) const {
    MessageControl& control = segment.messages(peer);
    control.events.fetch_add(1, std::memory_order_seq_cst);
    Ring(control.bell);
  }

  // The kernel of a reduction that exists; the last one is at hand.
  ReduceKernel KernelFor(weft_dtype_t dtype, weft_op_t op) {
    if (dtype != kernel_dtype_ || op != kernel_op_ || kernel_ == nullptr) {
      kernel_ = FindReduceKernel(isa, dtype, op);
      kernel_dtype_ = dtype;
      kernel_op_ = op;
    }
    return kernel_;
  }

  // Where this rank runs, when a blocking call began; peers that wait for it on the same CPU must not spin.
  void NoteCpu(uint32_t cpu) {
    if (cpu == cpu_) return;
    cpu_ = cpu;
    self().cpu.store(cpu, std::memory_order_relaxed);
  }

  bool SharesCpu(int peer) const {
    return control(peer).cpu.load(std::memory_order_relaxed) == cpu_;
  }

 private:
  ReduceKernel kernel_ = nullptr;
  weft_dtype_t kernel_dtype_ = WEFT_UINT8;
  weft_op_t kernel_op_ = WEFT_SUM;
  uint32_t cpu_ = UINT32_MAX;
  bool wake_due_ = false;
};

}  // namespace weft
