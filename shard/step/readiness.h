// Which buckets have all their gradients, in which order they got them, and whose reduction is the next to start.
//
//   readiness.Reset();                                  // a micro-batch that is reduced begins
//   readiness.Settle(param);
//   for (int bucket; (bucket = readiness.Next()) >= 0; readiness.Started())  ... start its reduction ...
//
// A bucket that is complete before its predecessors waits for them: all ranks start reductions in one order, or the
// group's operations would not match. A bucket is complete when each of its params is settled: its gradient is there, or known to be
// missing. The order of the first step of each tag is recorded; later steps are compared with it.
// At most 64 tags are remembered; steps of further tags are not compared.
//
// Thread-safety: none of its own; the context's mutex guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "shard/layout/layout.h"

namespace weft {

class Readiness {
 public:
  // `layout` outlives this.
  explicit Readiness(const Layout& layout);

  // The order in which reductions start, from the next Reset on; empty: that of the buckets' numbers.
  void SetTurns(std::span<const int> turns);

  // A micro-batch that is reduced begins: nothing is settled, no reduction has started.
  void Reset();
  // `param` is settled, once per Reset.
  void Settle(int param);

  bool Complete(int bucket) const { return waiting_[static_cast<size_t>(bucket)] == 0; }

  // The bucket whose turn it is, if it is complete; else -1.
  int Next() const { return next_ < turns_.size() && Complete(turns_[next_]) ? turns_[next_] : -1; }

  // The reduction of that bucket was started.
  void Started() { ++next_; }

  // Those whose reductions have not started, in their order.
  std::span<const int> NotStarted() const { return std::span(turns_).subspan(next_); }

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
  std::vector<int> turns_;    // buckets as their reductions start
  size_t next_ = 0;           // of turns_
  std::unordered_map<uint64_t, std::vector<int>> recorded_;
};

}  // namespace weft
