// The groups that were closed last: what still comes for one of them is nobody's.
//
// Thread-safety: the owner's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace weft {

class ClosedGroups {
 public:
  bool Contains(uint64_t group_id) const {
    return std::find(ids_.begin(), ids_.end(), group_id) != ids_.end();
  }

  void Add(uint64_t group_id) {
    ids_.push_back(group_id);
    if (ids_.size() > kMost) ids_.pop_front();
  }

 private:
  static constexpr size_t kMost = 64;

  std::deque<uint64_t> ids_;
};

}  // namespace weft
