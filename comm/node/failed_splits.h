// Segments of parts that this rank was to lead and could not join, until the group they were split from is closed.
//
// Other ranks may have the offer and be in such a segment, so it cannot be freed at once: deferred_reclamation.h frees it
// when they can no longer come to it.
// Thread-safety: any thread.
#pragma once

#include <utility>
#include <vector>

#include "base/mutex.h"
#include "comm/node/segment.h"

namespace weft {

// A segment in this process's heap whose rank 0 would have been this rank.
struct FailedSplit {
  Segment segment;
  std::vector<int> members;  // ranks of the parent, in the order of the part
};

class FailedSplits {
 public:
  // Tells the members that rank 0 of the part will not come.
  void Keep(const Segment& segment, const std::vector<int>& members) {
    segment.control(0).state.store(RankState::kLeft, std::memory_order_seq_cst);
    NotifyAll(segment.control(0).waiters);
    MutexLock lock(mutex_);
    kept_.push_back({segment, members});
  }

  std::vector<FailedSplit> TakeAll() {
    MutexLock lock(mutex_);
    return std::exchange(kept_, {});
  }

 private:
  Mutex mutex_;
  std::vector<FailedSplit> kept_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
