// What a process has one of, for as long as it runs.
//
//   Registry& registry = OfThisProcess<Registry>();
//
// Made when first asked for and never destroyed: others may outlive static destructors. A forked child gets a fresh one,
// because another thread of its parent may have held a mutex of the parent's when it was made: nobody in
// the child would ever let go of it.
// Thread-safety: any thread; takes no lock.
#pragma once

#include <atomic>

#include "comm/group/fork.h"

namespace weft {

template <typename T>
T& OfThisProcess() {
  struct Owned {
    Origin origin;
    const Owned* parents = nullptr;  // keeps the parent's reachable, for those who look for leaks
    T value;
  };

  static constinit std::atomic<Owned*> current{nullptr};
  Owned* known = current.load(std::memory_order_acquire);
  if (known != nullptr && known->origin.here()) return known->value;
  auto* const made = new Owned{.origin = {}, .parents = known, .value = {}};
  if (current.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return made->value;
  delete made;  // another thread was quicker
  return known->value;
}

}  // namespace weft
