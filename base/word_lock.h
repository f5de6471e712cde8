// A lock of one word, for sections that are short or in which nobody waits for the lock itself.
//
//   EventCount released_;
//   WordLock lock_{released_};
//   int steps_ WEFT_GUARDED_BY(lock_) = 0;
//   ...
//   if (!lock_.TryAcquire()) return;   // somebody else is at it
//   ++steps_;
//   lock_.Release();
//
// Where Mutex (base/mutex.h) may call the kernel at any time, this one is one compare-and-swap to acquire, a store and a
// load to release, and who has to wait for it does so as for anything else (base/wait.h): spinning first, asleep later,
// until a deadline. So it may stand on a steady path. Several locks may share an EventCount, which then wakes the waiters
// of all.
//
// Not fair, not recursive, and like every lock of a parent without meaning in a forked child.
// Memory order: seq_cst on both sides. Who acquires may look at another word next, and be seen by whoever writes that word
// and then looks whether the lock is held (Gate::Close, say): one of the two sees the other.
// Thread-safety: any thread; Release by the holder.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/mutex.h"
#include "base/wait.h"

namespace weft {

class WEFT_CAPABILITY("lock") WordLock {
 public:
  // `released` outlives the lock, and is notified whenever the lock is released.
  explicit WordLock(EventCount& released) : released_(released) {}

  WordLock(const WordLock&) = delete;
  WordLock& operator=(const WordLock&) = delete;

  bool TryAcquire() WEFT_TRY_ACQUIRE(true) {
    uint32_t free = 0;
    return word_.compare_exchange_strong(free, 1, std::memory_order_seq_cst,
                                         std::memory_order_relaxed);
  }

  // False at the deadline, or once `unneeded()` while somebody else holds the lock.
  template <typename Unneeded>
  bool AcquireUnless(const WaitPolicy& policy, Deadline& deadline, Unneeded&& unneeded)
      WEFT_TRY_ACQUIRE(true) {
    bool acquired = TryAcquire();
    if (acquired) return true;
    const auto decided = [&] {
      acquired = TryAcquire();
      return acquired || unneeded();
    };
    WaitUntil(released_, policy, deadline, decided, [] { return false; });
    return acquired;
  }

  // False at the deadline.
  bool Acquire(const WaitPolicy& policy, Deadline& deadline) WEFT_TRY_ACQUIRE(true) {
    return AcquireUnless(policy, deadline, [] { return false; });
  }

  void Release() WEFT_RELEASE() {
    word_.store(0, std::memory_order_seq_cst);
    NotifyAll(released_);
  }

  // Whether anybody holds it, at this moment.
  bool held() const { return word_.load(std::memory_order_seq_cst) != 0; }

 private:
  EventCount& released_;
  std::atomic<uint32_t> word_{0};
};

}  // namespace weft
