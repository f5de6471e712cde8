#include "comm/node/remains.h"

#include <algorithm>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "comm/group/of_this_process.h"
#include "comm/node/heap.h"

namespace weft {
namespace {

constexpr int64_t kPatienceNs = 50'000'000;
constexpr int kNaps = 25;

struct Remains {
  Segment segment;
  int rank;
  int size;
  std::vector<std::shared_ptr<NodePeer>> peers;
  std::vector<void*> blocks;  // staging and channels
  std::vector<FailedSplit> failed_splits;
};

struct Yard {
  Mutex mutex;
  std::list<Remains> remains WEFT_GUARDED_BY(mutex);
};

Yard& ProcessYard() {
  return OfThisProcess<Yard>();
}

bool Reached(const Remains& remains, int rank, RankState state) {
  return remains.segment.control(rank).state.load(std::memory_order_acquire) >= state ||
         remains.peers[static_cast<size_t>(rank)]->Ended().has_value();
}

bool AllReached(const Remains& remains, RankState state) {
  for (int rank = 0; rank < remains.size; ++rank) {
    if (rank != remains.rank && !Reached(remains, rank, state)) return false;
  }
  return true;
}

// No member is in the segment of the failed split, nor will be.
bool Unneeded(const Remains& remains, const FailedSplit& split) {
  for (size_t i = 1; i < split.members.size(); ++i) {
    // Asked in this order: who is seen leaving the parent first has joined before that, or never will.
    const bool past = Reached(remains, split.members[i], RankState::kLeaving);
    const RankState state =
        split.segment.control(static_cast<int>(i)).state.load(std::memory_order_acquire);
    const bool ended = remains.peers[static_cast<size_t>(split.members[i])]->Ended().has_value();
    const bool out = state == RankState::kLeft || (state == RankState::kAbsent && past);
    if (!out && !ended) return false;
  }
  return true;
}

// Frees what can be freed; true if nothing is left.
bool Reap(Remains& remains) {
  std::erase_if(remains.failed_splits, [&](const FailedSplit& split) {
    if (!Unneeded(remains, split)) return false;
    (void)ProcessHeap().Free(split.segment.base());
    return true;
  });
  if (!remains.blocks.empty()) {
    if (!AllReached(remains, RankState::kLeaving)) return false;
    for (void* const block : remains.blocks)
      (void)ProcessHeap().Free(block);
    remains.blocks.clear();
  }
  // They are judged by the parent's segment, which has to stay until then.
  if (!remains.failed_splits.empty()) return false;
  if (remains.rank == 0) {
    if (!AllReached(remains, RankState::kLeft)) return false;
    (void)ProcessHeap().Free(remains.segment.base());
    return true;
  }
  // From here on the segment may be gone.
  remains.segment.control(remains.rank).state.store(RankState::kLeft, std::memory_order_release);
  return true;
}

}  // namespace

void LeaveBehind(const NodeState& state, std::vector<void*> blocks,
                 std::vector<FailedSplit> failed_splits) {
  ReapRemains();
  if (state.staging.base() != nullptr) blocks.push_back(state.staging.base());
  Remains remains{state.segment, state.rank,        state.size,
                  state.peers,   std::move(blocks), std::move(failed_splits)};
  const bool alone = std::all_of(state.peers.begin(), state.peers.end(),
                                 [](const auto& peer) { return peer->is_self(); });
  // Ranks of this process reap for each other; other processes are waited for.
  for (int nap_count = 0; nap_count < kNaps; ++nap_count) {
    if (Reap(remains)) {
      ReapRemains();  // this may have been what another rank of this process waited for
      return;
    }
    if (alone) break;
    EventCount nap;  // not the segment's: that may be gone soon
    Deadline brief{kPatienceNs / kNaps};
    const auto gone = [&] {
      return AllReached(remains, RankState::kLeft);
    };
    WaitUntil(nap, WaitPolicy{.spins = 0, .yields = 100}, brief, gone, [] { return false; });
  }
  {
    Yard& yard = ProcessYard();
    MutexLock lock(yard.mutex);
    yard.remains.push_back(std::move(remains));
  }
  ReapRemains();  // the last one to leave may have looked just before
}

void ReapRemains() {
  Yard& yard = ProcessYard();
  MutexLock lock(yard.mutex);
  // Again after each success: rank 0's may wait for one that stands behind it in the list.
  while (yard.remains.remove_if([](Remains& remains) { return Reap(remains); }) > 0) {
  }
}

}  // namespace weft
