// The operations of a group that have been started and have not ended, in the order of their start.
//
//   queue.Add(work);                                 // under the issue word
//   queue.TakeIn();                                  // all else under the step word
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
  // Under the issue word: behind all others.
  void Add(std::shared_ptr<NodeWork> work);

  // Counts works from before they can be found until after they have been let go.
  uint32_t size() const { return size_.load(std::memory_order_seq_cst); }

  // All below under the step word.
  bool has_new() const { return added_.load(std::memory_order_acquire) != nullptr; }

  // Makes works that were added part of what the functions below are about.
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
  // Under the step word. The two in the middle have front_'s list behind them, or are nullptr.
  NodeWork* front_ = nullptr;
  NodeWork* unissued_ = nullptr;
  NodeWork* unstarted_ = nullptr;  // whose deadline has not begun
  NodeWork* back_ = nullptr;       // unless front_ is nullptr
};

// Works that have ended and not been told so, in order.
class EndedWorks {
 public:
  void Add(std::shared_ptr<NodeWork> work);

  // Tells all; with no word held.
  void Finish();

 private:
  NodeWork* first_ = nullptr;
  NodeWork* last_ = nullptr;
};

}  // namespace weft
