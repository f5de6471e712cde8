#include "comm/node/work_queue.h"

#include <utility>

namespace weft {

void WorkQueue::Add(std::shared_ptr<NodeWork> work) {
  NodeWork* const added = work.get();
  added->self = std::move(work);
  // Counted first: a stepper that finds it may be through with it before this returns.
  size_.fetch_add(1, std::memory_order_seq_cst);
  NodeWork* before = added_.load(std::memory_order_relaxed);
  added->next = before;
  if (added_.compare_exchange_strong(before, added, std::memory_order_release,
                                     std::memory_order_relaxed)) {
    return;
  }
  // Taken in meanwhile, and nobody else adds.
  added->next = nullptr;
  added_.store(added, std::memory_order_release);
}

void WorkQueue::TakeIn() {
  if (!has_new()) return;
  NodeWork* work = added_.exchange(nullptr, std::memory_order_acquire);
  NodeWork* const last = work;
  NodeWork* first = nullptr;
  while (work != nullptr) {
    NodeWork* const before = work->next;
    work->next = first;
    first = work;
    work = before;
  }
  if (front_ == nullptr) {
    front_ = first;
  } else {
    back_->next = first;
  }
  back_ = last;
  if (unissued_ == nullptr) unissued_ = first;
  if (unstarted_ == nullptr) unstarted_ = first;
  while (unissued_ != nullptr && unissued_->operation().started())
    NoteIssued();
}

void WorkQueue::StartDeadlines(int64_t now_ns) {
  for (; unstarted_ != nullptr; unstarted_ = unstarted_->next)
    unstarted_->deadline().Passed(now_ns);
}

std::shared_ptr<NodeWork> WorkQueue::PopFront() {
  NodeWork* const popped = front_;
  front_ = popped->next;
  if (unissued_ == popped) unissued_ = front_;
  if (unstarted_ == popped) unstarted_ = front_;
  popped->next = nullptr;
  size_.fetch_sub(1, std::memory_order_seq_cst);
  return std::move(popped->self);
}

void EndedWorks::Add(std::shared_ptr<NodeWork> work) {
  NodeWork* const added = work.get();
  added->self = std::move(work);
  (last_ == nullptr ? first_ : last_->next) = added;
  last_ = added;
}

void EndedWorks::RunCallbacks() {
  last_ = nullptr;
  while (first_ != nullptr) {
    const std::shared_ptr<NodeWork> work = std::move(first_->self);
    first_ = std::exchange(work->next, nullptr);
    work->RunCallback();
  }
}

}  // namespace weft
