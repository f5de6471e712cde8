// The groups that this rank has split from a group: they end with it. And the group that it was
// split from itself, if that ends with it.
//
//   parts->Add(part);         // a split has made it
//   parts->SetWhole(whole);   // the group is a part that ends `whole` (GroupOptions::ends_whole)
//   parts->Fail(cause);       // the group has ended by `cause`, and so do its parts and its whole
//   parts->Remove(part);      // it was closed
//
// A rank that waits in a part may wait for one that has been told that the parent has ended, and
// comes no more. One rank of a part that tells it is enough: its ranks have one board. Up and down,
// a cause reaches all parts of a whole.
//
// The death of a process is not told to the whole, which has all ranks of its parts and sees it for
// itself: what the dead one still serves there (group_watch.h) may end well.
//
// Thread-safety: any thread. A part and the group that it was split from both hold the object:
// either may be closed first.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/status.h"
#include "comm/group/process_group.h"

namespace weft {

class Parts {
 public:
  void Add(const std::shared_ptr<ProcessGroup>& part) {
    MutexLock lock(mutex_);
    ending_.parts[part.get()] = part;
  }

  void SetWhole(const std::shared_ptr<ProcessGroup>& whole) {
    MutexLock lock(mutex_);
    ending_.whole = whole;
  }

  void Remove(const ProcessGroup* part) {
    MutexLock lock(mutex_);
    ending_.parts.erase(part);
  }

  // Each group is told once.
  void Fail(const absl::Status& cause) {
    Ending ending;
    {
      MutexLock lock(mutex_);
      std::swap(ending, ending_);
    }
    for (const auto& [key, part] : ending.parts) {
      if (const std::shared_ptr<ProcessGroup> group = part.lock()) group->Fail(cause);
    }
    if (IsDeath(cause)) return;
    if (const std::shared_ptr<ProcessGroup> whole = ending.whole.lock()) whole->Fail(cause);
  }

 private:
  struct Ending {
    std::map<const ProcessGroup*, std::weak_ptr<ProcessGroup>> parts;
    std::weak_ptr<ProcessGroup> whole;
  };

  static bool IsDeath(const absl::Status& cause) {
    const ErrorFields fields = FieldsOf(cause);
    return ResultOf(cause) == WEFT_PEER_LOST && (fields.signal >= 0 || fields.exit_code >= 0);
  }

  Mutex mutex_;
  Ending ending_ WEFT_GUARDED_BY(mutex_);
};

// What a part knows of the group that it was split from; nullptr: it was not.
struct Whole {
  std::shared_ptr<ProcessGroup> group;
  std::shared_ptr<Parts> parts;
};

}  // namespace weft
