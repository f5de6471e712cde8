#include "comm/node/deferred_reclamation.h"

#include <algorithm>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "comm/group/of_this_process.h"
#include "comm/node/entrants.h"
#include "comm/node/heap.h"

namespace weft {
namespace {

constexpr int64_t kPatienceNs = 50'000'000;
constexpr int kNaps = 25;

struct Deferred {
  Segment segment;
  int rank;
  int size;
  std::vector<std::shared_ptr<NodePeer>> peers;  // nullptr: it has ended
  std::vector<void*> blocks;                     // staging and channels
  std::vector<FailedSplit> failed_splits;
  std::shared_ptr<Entrants> entrants;  // nullptr: all ranks have entered
};

struct DeferredList {
  Mutex mutex;
  std::list<Deferred> groups WEFT_GUARDED_BY(mutex);
};

DeferredList& ProcessList() {
  return OfThisProcess<DeferredList>();
}

bool HasEnded(const Deferred& deferred, int rank) {
  const std::shared_ptr<NodePeer>& peer = deferred.peers[static_cast<size_t>(rank)];
  return peer == nullptr || peer->Ended().has_value();
}

bool Reached(const Deferred& deferred, int rank, RankState state) {
  return deferred.segment.control(rank).state.load(std::memory_order_acquire) >= state ||
         HasEnded(deferred, rank);
}

// The memory of a process, which may have ended, stays as long as somebody has it mapped. Rank 0's has
// the segment. Of a rank that has left, only failed splits ask whether it has ended.
void LetGoOfPeers(Deferred& deferred) {
  for (int rank = 1; rank < deferred.size; ++rank) {
    const bool left = deferred.failed_splits.empty() && Reached(deferred, rank, RankState::kLeft);
    if (left || HasEnded(deferred, rank)) deferred.peers[static_cast<size_t>(rank)].reset();
  }
}

bool AllReached(const Deferred& deferred, RankState state) {
  for (int rank = 0; rank < deferred.size; ++rank) {
    if (rank != deferred.rank && !Reached(deferred, rank, state)) return false;
  }
  return true;
}

// No member is in the segment of the failed split, nor will be.
bool Unneeded(const Deferred& deferred, const FailedSplit& split) {
  for (size_t i = 1; i < split.members.size(); ++i) {
    // Asked in this order: who is seen leaving the parent first has joined before that, or never will.
    const bool past = Reached(deferred, split.members[i], RankState::kLeaving);
    const RankState state =
        split.segment.control(static_cast<int>(i)).state.load(std::memory_order_acquire);
    const bool ended = HasEnded(deferred, split.members[i]);
    const bool out = state == RankState::kLeft || (state == RankState::kAbsent && past);
    if (!out && !ended) return false;
  }
  return true;
}

// Frees what can be freed; true if nothing is left.
bool Reclaim(Deferred& deferred) {
  if (deferred.entrants != nullptr && deferred.entrants->Look()) deferred.entrants.reset();
  LetGoOfPeers(deferred);
  std::erase_if(deferred.failed_splits, [&](const FailedSplit& split) {
    if (!Unneeded(deferred, split)) return false;
    (void)ProcessHeap().Free(split.segment.base());
    return true;
  });
  if (!deferred.blocks.empty()) {
    if (!AllReached(deferred, RankState::kLeaving)) return false;
    for (void* const block : deferred.blocks)
      (void)ProcessHeap().Free(block);
    deferred.blocks.clear();
  }
  // They are judged by the parent's segment, which has to stay until then.
  if (!deferred.failed_splits.empty()) return false;
  if (deferred.rank == 0) {
    if (!AllReached(deferred, RankState::kLeft)) return false;
    (void)ProcessHeap().Free(deferred.segment.base());
    return true;
  }
  // From here on the segment may be gone.
  deferred.segment.control(deferred.rank).state.store(RankState::kLeft, std::memory_order_release);
  return true;
}

}  // namespace

void ReclaimLater(const NodeState& state, std::vector<void*> blocks,
                  std::vector<FailedSplit> failed_splits) {
  ReclaimDeferred();
  if (state.staging.base() != nullptr) blocks.push_back(state.staging.base());
  Deferred deferred{state.segment, state.rank,        state.size,
                    state.peers,   std::move(blocks), std::move(failed_splits),
                    state.entrants};
  const bool alone = std::all_of(state.peers.begin(), state.peers.end(),
                                 [](const auto& peer) { return peer->is_self(); });
  // Ranks of this process reclaim for each other; other processes are waited for.
  for (int nap_count = 0; nap_count < kNaps; ++nap_count) {
    if (Reclaim(deferred)) {
      ReclaimDeferred();  // this may have been what another rank of this process waited for
      return;
    }
    if (alone) break;
    EventCount nap;  // not the segment's: that may be gone soon
    Deadline brief{kPatienceNs / kNaps};
    const auto gone = [&] {
      return AllReached(deferred, RankState::kLeft);
    };
    WaitUntil(nap, WaitPolicy{.spins = 0, .yields = 100}, brief, gone, [] { return false; });
  }
  {
    DeferredList& list = ProcessList();
    MutexLock lock(list.mutex);
    list.groups.push_back(std::move(deferred));
  }
  ReclaimDeferred();  // the last one to leave may have looked just before
}

void ReclaimDeferred() {
  DeferredList& list = ProcessList();
  MutexLock lock(list.mutex);
  // Again after each success: rank 0's may wait for one that stands behind it in the list.
  while (list.groups.remove_if([](Deferred& deferred) { return Reclaim(deferred); }) > 0) {
  }
}

}  // namespace weft
