#include "shard/context/answering_mutex.h"

#include <utility>

namespace weft {

AnsweringMutex::AnsweringMutex(std::function<void()> answer) : answer_(std::move(answer)) {}

// The flag is set after the lock and cleared before the unlock, so whoever sees it clear and fails to
// take the lock has met another holder, who will look.
void AnsweringMutex::Lock() {
  mutex_.Lock();
  inside_.store(true, std::memory_order_seq_cst);
}

void AnsweringMutex::Unlock() {
  for (;;) {
    if (asked_.exchange(false, std::memory_order_seq_cst)) answer_();
    inside_.store(false, std::memory_order_seq_cst);
    mutex_.Unlock();
    if (!asked_.load(std::memory_order_seq_cst) || !mutex_.TryLock()) return;
    inside_.store(true, std::memory_order_seq_cst);
  }
}

// On a thread that may hold the mutex itself, further up its stack: then that holder answers.
void AnsweringMutex::Ask() {
  asked_.store(true, std::memory_order_seq_cst);
  if (inside_.load(std::memory_order_seq_cst) || !mutex_.TryLock()) return;
  inside_.store(true, std::memory_order_seq_cst);
  Unlock();
}

}  // namespace weft
