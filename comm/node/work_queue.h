// The operations of a group that have been started and have not ended, in the order of their start.
//
//   queue.Add(work);                                 // under the issue lock
//   queue.TakeIn();                                  // all else under the step lock
//   while (NodeWork* const front = queue.front()) ... queue.PopFront();
//
// Who starts an operation and who steps others must not wait for each other: what is added lies in a list
// of its own, last in first, until a stepper takes it in. No locks, no memory: works are linked by a member,
// and the queue's reference to a work is the work's own to itself.
// Thread-safety: as said at each function; size() from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "comm/node/node_work.h"

namespace weft {

class WorkQueue {
 public:
  // Under the issue lock: behind all others. A stepper finds it at its next TakeIn().
  void Add(std::shared_ptr<NodeWork> work);

  // Counts works from before they can be found until after they have been let go.
  uint32_t size() const { return size_.load(std::memory_order_seq_cst); }

  // All below under the step lock.

  // Works have been added since the last TakeIn().
  bool has_new() const { return added_.load(std::memory_order_acquire) != nullptr; }

  // Appends these works to the queue that front(), unissued() and the others see.
  void TakeIn();

  // The oldest; nullptr if there is none.
  NodeWork* front() const { return front_; }

  // The first that has not been issued; nullptr if there is none.
  NodeWork* unissued() const { return unissued_; }

  // That one has been issued now.
  void NoteIssued() { unissued_ = unissued_->next; }

  // Lets deadlines begin that have not.
  void StartDeadlines(int64_t now_ns);

  std::shared_ptr<NodeWork> PopFront();

 private:
  std::atomic<uint32_t> size_{0};
  std::atomic<NodeWork*> added_{nullptr};  // the last; each leads to the one before it
  // Under the step lock. One list, linked from front_ to back_; unissued_ and unstarted_ point into it, or are nullptr.
  NodeWork* front_ = nullptr;
  NodeWork* unissued_ = nullptr;
  NodeWork* unstarted_ = nullptr;  // whose deadline has not begun
  NodeWork* back_ = nullptr;       // unless front_ is nullptr
};

// Works that have ended and whose callbacks have not run, in order.
class EndedWorks {
 public:
  void Add(std::shared_ptr<NodeWork> work);

  // With no lock held: they may take long, and may close the group.
  void RunCallbacks();

 private:
  NodeWork* first_ = nullptr;
  NodeWork* last_ = nullptr;
};

}  // namespace weft
