// The groups that this rank has split from a group: they end with it.
//
//   parts->Add(part);                  // a split has made it
//   parts->Fail(cause);                // the group has ended by `cause`, and so do its parts
//   parts->Remove(part);               // it was closed
//
// A rank that waits in a part may wait for one that has been told that the parent has ended, and comes no more. One rank of a part
// that tells it is enough: its ranks have one board.
// Thread-safety: any thread. A part and the group that it was split from both hold the object: either may be closed first.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "comm/group/process_group.h"

namespace weft {

class Parts {
 public:
  void Add(const std::shared_ptr<ProcessGroup>& part) {
    MutexLock lock(mutex_);
    parts_[part.get()] = part;
  }

  void Remove(const ProcessGroup* part) {
    MutexLock lock(mutex_);
    parts_.erase(part);
  }

  // Each part is told once.
  void Fail(const absl::Status& cause) {
    std::map<const ProcessGroup*, std::weak_ptr<ProcessGroup>> parts;
    {
      MutexLock lock(mutex_);
      parts.swap(parts_);
    }
    for (const auto& [key, part] : parts) {
      if (const std::shared_ptr<ProcessGroup> group = part.lock()) group->Fail(cause);
    }
  }

 private:
  Mutex mutex_;
  std::map<const ProcessGroup*, std::weak_ptr<ProcessGroup>> parts_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
