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
  int rank = 0;
  int size = 1;
  uint32_t epoch = 1;
  Isa isa = Isa::kScalar;
  std::vector<std::shared_ptr<NodePeer>> peers;  // by rank; own process included
  size_t slot_limit_bytes = kSlotBytes;          // larger operations are not one-shot

  // Counters, see segment.h I1-I4.
  uint64_t completed = 0;                        // last operation finished here
  std::vector<uint32_t> known_done;              // what every rank is known to have finished
  uint64_t staged = 0;                           // published by all ranks when `completed` is done
  uint64_t reduced = 0;                          // likewise
  uint32_t slot_next = 0;                        // slot of the next one-shot operation
  std::array<uint64_t, kSlotCount> slot_user{};  // operation that used each slot last
  char* stage = nullptr;                    // own staging, in the own heap; made when first needed
  std::array<uint64_t, 2> stage_free_at{};  // peers' `reduced` from which each half is free
  std::vector<char*> peer_stage;            // peers' staging as mapped here, once looked up

  RankControl& self() const { return segment.control(rank); }

  RankControl& control(int peer) const { return segment.control(peer); }

  bool aborted() const { return segment.header().abort.load(std::memory_order_seq_cst) != 0; }

  // Publishes `value` in one of self()'s words and wakes who waits for it.
  void Publish(std::atomic<uint32_t>& word, uint32_t value) const {
    word.store(value, std::memory_order_seq_cst);
    Ring(self().bell);
  }

  // Tells `peer` that something has changed for which its messages may wait.
  void Notify(int peer) const {
    MessageControl& control = segment.messages(peer);
    control.events.fetch_add(1, std::memory_order_seq_cst);
    Ring(control.bell);
  }
};

}  // namespace weft
