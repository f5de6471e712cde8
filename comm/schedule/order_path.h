// The way from a leaf of a reduction's tree to its root: at each level the subtree that has the leaf, and the one that it is joined with.
//
//   const OrderPath path(order, leaf);
//   for (int level = 1; level <= path.levels(); ++level) Exchange(path.At(level).sibling);
//
// Level 1 joins the leaf itself with something, the last level makes the root. Less than 1 KiB.
// Thread-safety: a value.
#pragma once

#include <array>

#include "comm/schedule/reduction_order.h"

namespace weft {

struct OrderStep {
  OrderVertex mine;     // has the leaf
  OrderVertex sibling;  // what it is joined with
  bool on_left = true;  // whether `mine` is the left operand
};

class OrderPath {
 public:
  OrderPath(const ReductionOrder& order, int leaf) {
    OrderVertex at = order.Root();
    for (; at.count > 1; ++levels_) {
      const OrderVertex left = order.Left(at);
      const OrderVertex right = order.Right(at);
      const bool on_left = leaf < right.first;
      // From the root down; At() counts from below.
      steps_[static_cast<size_t>(levels_)] =
          on_left ? OrderStep{left, right, true} : OrderStep{right, left, false};
      at = on_left ? left : right;
    }
  }

  int levels() const { return levels_; }

  // 1 to levels().
  const OrderStep& At(int level) const { return steps_[static_cast<size_t>(levels_ - level)]; }

 private:
  std::array<OrderStep, ReductionOrder::kLevelsMax> steps_;
  int levels_ = 0;
};

}  // namespace weft
