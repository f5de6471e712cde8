// Which buckets have all their gradients, and in which order they got them.
//
// A bucket is complete when each of its params is settled: its gradient is there, or known to be
// missing. The order of the first step of each tag is recorded; later steps are compared with it.
// At most 64 tags are remembered; steps of further tags are not compared.
//
// Thread-safety: none of its own; the context's mutex guards it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "shard/layout/layout.h"

namespace weft {

class Readiness {
 public:
  // `layout` outlives this.
  explicit Readiness(const Layout& layout);

  // A micro-batch that is reduced begins: nothing is settled.
  void Reset();
  // `param` is settled, once per Reset.
  void Settle(int param);

  bool Complete(int bucket) const { return waiting_[static_cast<size_t>(bucket)] == 0; }

  // Buckets as they became complete since the last Reset.
  const std::vector<int>& order() const { return order_; }

  // True if the order since the last Reset differs from the recorded one of `tag`; records it if
  // there is none.
  bool CompareOrder(uint64_t tag);

  // The next order of `tag` is recorded anew.
  void ForgetOrder(uint64_t tag) { recorded_.erase(tag); }

 private:
  static constexpr size_t kTagsMax = 64;

  const Layout& layout_;
  std::vector<int> waiting_;  // params not settled, by bucket
  std::vector<int> order_;    // buckets as they became complete
  std::unordered_map<uint64_t, std::vector<int>> recorded_;
};

}  // namespace weft
