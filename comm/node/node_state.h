// What one rank knows about its group on the node: where everything is, and its own counters.
//
// Owned by a NodeGroup; touched only under the group's step lock, or its issue lock while nothing is
// queued (operation_queue.h), except what is constant after the group was made (segment, rank, size, peers, isa).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/group/wait_target.h"
#include "comm/kernels/copy.h"
#include "comm/kernels/reduce.h"
#include "comm/node/adaptive_copy.h"
#include "comm/node/node_peer.h"
#include "comm/node/segment.h"
#include "comm/node/shared_blocks.h"
#include "comm/node/slots.h"
#include "comm/node/staging.h"

namespace weft {

class Entrants;

struct NodeState {
  // Constant.
  Segment segment;
  RankControl* own = nullptr;  // this rank's, in the segment
  FailureBoard board;          // the segment's
  RecorderRing recorder;       // this rank's
  LifecycleLog lifecycle;      // this rank's
  int rank = 0;
  int size = 1;
  uint32_t epoch = 1;
  Isa isa = Isa::kScalar;
  CopyKernel stream_copy = nullptr;              // into outputs larger than the caches
  std::vector<std::shared_ptr<NodePeer>> peers;  // by rank; own process included
  std::vector<int>
      world_ranks;  // by rank, if it was split from a group; else its ranks are those of the world
  // By rank, of an island of a larger group, its ranks there, which sentences name; else empty. Fields have ranks of the island.
  std::vector<int> group_ranks;
  std::string world_name;    // of the group that this one, and all between, were split from
  uint64_t parent_id = 0;    // of the group that it was split from; 0: none
  int parent_rank = -1;      // this rank's there
  Tuning tuning;             // the same on all ranks
  bool single_copy = false;  // WEFT_SINGLE_COPY, of this process
  bool reads_peers = false;  // with it, may read every peer's private memory

  std::shared_ptr<Entrants> entrants;  // rank 0's, of a group whose ranks have come by attach.h

  const SharedBlocks* shared_blocks = &ProcessSharedBlocks();

  // Counters, see segment.h I1-I4.
  uint64_t completed = 0;            // last operation finished here
  std::vector<uint32_t> known_done;  // what every rank is known to have finished
  uint64_t all_done = 0;             // at least; this rank included
  // Rounds of all operations up to `completed`, as every rank has counted them in its words `staged` and `reduced`.
  uint64_t staged = 0;
  uint64_t reduced = 0;
  Slots slots;          // of this rank, in the segment
  Staging staging;      // in the own heap; made when first needed
  AdaptiveCopy stores;  // into slots and staging

  int WorldRank(int peer) const {
    return world_ranks.empty() ? peer : world_ranks[static_cast<size_t>(peer)];
  }

  // The number that users know the rank by.
  int GroupRank(int peer) const {
    return group_ranks.empty() ? peer : group_ranks[static_cast<size_t>(peer)];
  }

  // The rank that `peer` is of; its first one if several ranks are threads of that process; -1 if none is.
  int RankOf(const NodePeer* peer) const {
    for (int rank = 0; rank < size; ++rank) {
      if (peers[static_cast<size_t>(rank)].get() == peer) return rank;
    }
    return -1;
  }

  RankControl& self() const { return *own; }

  RankControl& control(int peer) const { return segment.control(peer); }

  // True if every rank reaches the files that its peers have registered (file_ranges.h).
  bool all_map_files() const {
    for (int peer = 0; peer < size; ++peer) {
      if (control(peer).maps_files.load(std::memory_order_relaxed) == 0) return false;
    }
    return true;
  }

  // It has destroyed its handle, or is about to.
  bool HasLeft(int peer) const {
    return control(peer).state.load(std::memory_order_acquire) >= RankState::kLeaving;
  }

  // It has come, and has not left.
  bool HasJoined(int peer) const {
    return control(peer).state.load(std::memory_order_acquire) == RankState::kJoined;
  }

  // How the process of a rank has ended that had joined and not left before; nothing if it has not. Whether it had is asked
  // afterwards too: it may leave and end between two questions.
  std::optional<ExitInfo> LossOf(int peer) const {
    if (!HasJoined(peer)) return std::nullopt;
    const std::optional<ExitInfo> exit = peers[static_cast<size_t>(peer)]->Ended();
    return HasJoined(peer) ? exit : std::nullopt;
  }

  // True if `peer`, which had joined, has become another program. One that leaves, or whose number another process has got, is
  // none; nor is one that gave up joining, and may have made itself another heap since.
  bool WasReplaced(int peer) const {
    NodePeer& process = *peers[static_cast<size_t>(peer)];
    return process.RunsAnotherProgram() && HasJoined(peer) && !process.Ended();
  }

  bool aborted() const { return FailureBoard::Raised(segment.header().failure); }

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
    NotifyAll(self().waiters);
  }

  void Wake() {
    if (wake_due_) PublishDone();
  }

  // Wake() if anybody is seen to sleep already: one load, where a later Wake() is sure.
  void WakeSleepers() {
    if (self().waiters.sleepers.load(std::memory_order_relaxed) != 0) Wake();
  }

  // What is notified when that happens which the target waits for.
  EventCount& WaitersOf(const WaitTarget& target) const {
    if (target.of_all) return segment.arrival_counter().waiters;
    return target.of_messages ? segment.messages(target.peer).waiters
                              : control(target.peer).waiters;
  }

  // Tells `peer` that something has changed for which its messages may wait.
  void Notify(int peer) const {
    MessageControl& control = segment.messages(peer);
    control.events.fetch_add(1, std::memory_order_seq_cst);
    NotifyAll(control.waiters);
  }

  // Where this rank runs, when a blocking call began; peers that wait for it on the same CPU must not spin.
  void NoteCpu(uint32_t cpu) {
    if (cpu == cpu_) return;
    cpu_ = cpu;
    self().cpu.store(cpu, std::memory_order_relaxed);
  }

  bool SharesCpu(int peer) const {
    const uint32_t cpu = control(peer).cpu.load(std::memory_order_relaxed);
    return cpu == cpu_ && cpu != kUnknownCpu;
  }

 private:
  uint32_t cpu_ = kUnknownCpu;
  bool wake_due_ = false;
};

}  // namespace weft
