// The word that orders who issues operations of a group, and what others have started while somebody holds it.
//
//   if (word.TryTake()) ...                       // a blocking call: held until the operation has ended
//     while (!word.TryLetGo()) issue what word.TakeStarted() gives, in its order
//
//   switch (word.TakeOrLeave(work)) ...           // a start, which must not wait
//
// To start an operation is never to wait for another thread's blocking call, so a start that finds the word taken leaves
// its operation here, and whoever holds the word issues it before letting go. What is left here comes after
// the holder's own call and before any call that takes the word later. Works are linked by a member, so nothing here
// can fail: all is one word, which is also what says that no more may come.
//
// Invariant: while the word is free, nothing is left in it.
// Thread-safety: TryTake, TakeOrLeave and held from any thread, all else by the holder.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "comm/node/node_work.h"

namespace weft {

class IssueWord {
 public:
  // kTaken: the caller holds the word. kLeft: the holder issues the work. kSealed: nobody will.
  enum class Turn : uint8_t { kTaken, kLeft, kSealed };

  bool TryTake() {
    uintptr_t free = kFree;
    // seq_cst: who issues looks at NodeGroup::gone_ next.
    return word_.compare_exchange_strong(free, kHeld, std::memory_order_seq_cst,
                                         std::memory_order_relaxed);
  }

  // What is left keeps itself alive.
  Turn TakeOrLeave(const std::shared_ptr<NodeWork>& work) {
    work->self = work;
    uintptr_t found = word_.load(std::memory_order_relaxed);
    while (found != kSealed) {
      const bool free = found == kFree;
      work->next = free || found == kHeld ? nullptr : reinterpret_cast<NodeWork*>(found);
      const uintptr_t wanted = free ? kHeld : reinterpret_cast<uintptr_t>(work.get());
      if (!word_.compare_exchange_weak(found, wanted, std::memory_order_seq_cst)) continue;
      if (!free) return Turn::kLeft;
      work->self.reset();
      return Turn::kTaken;
    }
    work->self.reset();
    return Turn::kSealed;
  }

  // False if something was left, which is to be issued first; then the word is still held.
  bool TryLetGo() {
    uintptr_t held = kHeld;
    return word_.compare_exchange_strong(held, kFree, std::memory_order_seq_cst);
  }

  // What was left, linked by `next` in the order of its start.
  NodeWork* TakeStarted() { return InOrder(word_.exchange(kHeld, std::memory_order_acquire)); }

  // From now on nobody takes the word or leaves anything; returns what was left before, as TakeStarted().
  NodeWork* Seal() { return InOrder(word_.exchange(kSealed, std::memory_order_seq_cst)); }

  bool held() const { return word_.load(std::memory_order_seq_cst) != kFree; }

 private:
  // Any other value is that of a pointer to what was left last; each leads to the one before it.
  static constexpr uintptr_t kFree = 0;
  static constexpr uintptr_t kHeld = 1;
  static constexpr uintptr_t kSealed = 2;

  static NodeWork* InOrder(uintptr_t last) {
    NodeWork* work = last > kSealed ? reinterpret_cast<NodeWork*>(last) : nullptr;
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
