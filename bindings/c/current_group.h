// The group behind a handle, which weft_group_reconfigure exchanges while other threads may be in calls on it.
//
//   handle->group.Set(std::move(made));                                // made, or made anew
//   handle->group->Run(call);                                          // whichever it is at this moment
//   std::shared_ptr<ProcessGroup> kept = handle->group.shared();
//
// A call reads it by one load, so that a small one pays nothing; therefore nobody knows who still is in a call on the group before.
// So groups are kept until the handle is destroyed, when there may be no call. Those that were replaced have been closed by then: they
// hold no shared memory, no process and no thread, only themselves.
//
// Thread-safety: any thread; Set by one at a time.
#pragma once

#include <atomic>
#include <forward_list>
#include <memory>
#include <utility>

#include "comm/group/process_group.h"

namespace weft {

class CurrentGroup {
 public:
  CurrentGroup() = default;
  CurrentGroup(const CurrentGroup&) = delete;
  CurrentGroup& operator=(const CurrentGroup&) = delete;

  void Set(std::shared_ptr<ProcessGroup> group) {
    groups_.push_front(std::move(group));
    shared_.store(&groups_.front(), std::memory_order_release);
    current_.store(groups_.front().get(), std::memory_order_release);
  }

  ProcessGroup& operator*() const { return *current_.load(std::memory_order_acquire); }

  ProcessGroup* operator->() const { return current_.load(std::memory_order_acquire); }

  // Valid until the handle is destroyed.
  const std::shared_ptr<ProcessGroup>& shared() const {
    return *shared_.load(std::memory_order_acquire);
  }

 private:
  std::atomic<ProcessGroup*> current_{nullptr};
  std::atomic<const std::shared_ptr<ProcessGroup>*> shared_{nullptr};
  std::forward_list<std::shared_ptr<ProcessGroup>> groups_;  // the newest first
};

}  // namespace weft
