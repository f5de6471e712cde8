// The lock that orders who issues operations of a group, and what others have started while somebody holds it.
//
//   if (lock.TryAcquire()) ...                    // a blocking call: held until the operation has ended
//     while (!lock.TryRelease()) issue what lock.TakeLeft() gives, in its order
//
//   if (lock.AcquireOrLeave(work, &left)) ...     // a start, which must not wait
//
// To start an operation is never to wait for another thread's blocking call, so a start that finds the lock held leaves
// its operation here, and whoever holds the lock issues it before releasing. What is left here comes after
// the holder's own call and before any call that acquires the lock later. Works are linked by a member, so nothing here
// can fail: all is one word, which is also what says that no more may come.
//
// Invariant: while the lock is free, nothing is left in it.
// Thread-safety: TryAcquire, AcquireOrLeave and held from any thread, all else by the holder.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "comm/node/node_work.h"

namespace weft {

class WEFT_CAPABILITY("lock") IssueLock {
 public:
  bool TryAcquire() WEFT_TRY_ACQUIRE(true) {
    uintptr_t free = kFree;
    // seq_cst: who issues looks at the group's gate next.
    return word_.compare_exchange_strong(free, kHeld, std::memory_order_seq_cst,
                                         std::memory_order_relaxed);
  }

  // False if somebody holds the lock. Then *left says whether the holder issues the work, which keeps itself alive until
  // then; if not, the lock is sealed and nobody will.
  bool AcquireOrLeave(const std::shared_ptr<NodeWork>& work, bool* left) WEFT_TRY_ACQUIRE(true) {
    work->self = work;
    uintptr_t found = word_.load(std::memory_order_relaxed);
    while (found != kSealed) {
      const bool free = found == kFree;
      work->next = free || found == kHeld ? nullptr : WorkOf(found);
      const uintptr_t wanted = free ? kHeld : reinterpret_cast<uintptr_t>(work.get());
      if (!word_.compare_exchange_weak(found, wanted, std::memory_order_seq_cst)) continue;
      *left = !free;
      if (free) work->self.reset();
      return free;
    }
    work->self.reset();
    *left = false;
    return false;
  }

  // False if something was left, which is to be issued first; then the lock is still held.
  bool TryRelease() {
    uintptr_t held = kHeld;
    return word_.compare_exchange_strong(held, kFree, std::memory_order_seq_cst);
  }

  // What was left, linked by `next` in the order of its start.
  NodeWork* TakeLeft() WEFT_REQUIRES(this) {
    return InOrder(word_.exchange(kHeld, std::memory_order_acquire));
  }

  // From now on nobody acquires the lock or leaves anything: its holder keeps it for ever. Returns what was left before, as
  // TakeLeft().
  NodeWork* Seal() WEFT_REQUIRES(this) {
    return InOrder(word_.exchange(kSealed, std::memory_order_seq_cst));
  }

  bool held() const { return word_.load(std::memory_order_seq_cst) != kFree; }

 private:
  // Any other value is that of a pointer to what was left last; each leads to the one before it.
  static constexpr uintptr_t kFree = 0;
  static constexpr uintptr_t kHeld = 1;
  static constexpr uintptr_t kSealed = 2;

  static NodeWork* WorkOf(uintptr_t word) { return std::bit_cast<NodeWork*>(word); }

  static NodeWork* InOrder(uintptr_t last) {
    NodeWork* work = last > kSealed ? WorkOf(last) : nullptr;
    NodeWork* first = nullptr;
    while (work != nullptr) {
      NodeWork* const before = std::exchange(work->next, first);
      first = std::exchange(work, before);
    }
    return first;
  }

  std::atomic<uintptr_t> word_{kFree};
};

}  // namespace weft
