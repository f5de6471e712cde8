#include "shard/step/readiness.h"

#include <numeric>

#include "base/check.h"

namespace weft {

Readiness::Readiness(const Layout& layout) : layout_(layout) {
  order_.reserve(layout.buckets.size());
  SetTurns({});
  Reset();
}

void Readiness::SetTurns(std::span<const int> turns) {
  turns_.assign(turns.begin(), turns.end());
  if (!turns.empty()) return;
  turns_.resize(layout_.buckets.size());
  std::iota(turns_.begin(), turns_.end(), 0);
}

void Readiness::Reset() {
  waiting_.clear();
  for (const Bucket& bucket : layout_.buckets) {
    waiting_.push_back(static_cast<int>(bucket.params.size()));
  }
  order_.clear();
  next_ = 0;
}

void Readiness::Settle(int param) {
  const int bucket = layout_.places[static_cast<size_t>(param)].bucket;
  if (bucket < 0) return;
  int& waiting = waiting_[static_cast<size_t>(bucket)];
  WEFT_CHECK(waiting > 0);
  if (--waiting == 0) order_.push_back(bucket);
}

bool Readiness::CompareOrder(uint64_t tag) {
  const auto recorded = recorded_.find(tag);
  if (recorded != recorded_.end()) return recorded->second != order_;
  if (recorded_.size() < kTagsMax) recorded_.emplace(tag, order_);
  return false;
}

}  // namespace weft
