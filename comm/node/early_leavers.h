// A rank that ends by itself, or leaves, while others still need it: when it may be named as the
// cause.
//
//   EarlyLeavers leavers;
//   if (leavers.MayBeNamed(rank, now_ns)) ...        // of one that is seen to have gone
//   if (CallsDiffer(state)) ...                      // somebody is about to say why it has
//
// Ranks that call different things tell more of what is wrong than one that has gone; it may have
// gone because of that, or have done what it had to. So those that live have a moment to come to
// their next operation, where they find that. Who was killed is named at once: nobody's call brings
// that about.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>

#include "comm/node/node_state.h"

namespace weft {

class EarlyLeavers {
 public:
  static constexpr int64_t kMomentNs = 50'000'000;

  // True once the moment is over that begins with the first question about the rank.
  bool MayBeNamed(int rank, int64_t now_ns) {
    int64_t& gone_ns = gone_ns_[static_cast<size_t>(rank)];
    if (gone_ns == 0) gone_ns = now_ns;
    return now_ns - gone_ns >= kMomentNs;
  }

 private:
  std::array<int64_t, kNodeRanksMax> gone_ns_{};  // by rank; 0: not asked about
};

// Ranks that have come to the next operation have called different things there: those that wait in
// it are about to say so.
bool CallsDiffer(const NodeState& state);

}  // namespace weft
