// A binomial tree over participants as it follows from the tree of a reduction: each subtree has a head, the root if it is in there, else
// its first leaf; where two subtrees are joined, the head of one sends to the head of the other, which is the head of both.
//
//   const RootedPath path(order, leaf, root_leaf);
//   for (int level = 1; level <= path.headed(); ++level) Receive(path.ChildAt(level));
//   if (path.parent() >= 0) Send(path.parent());
//
// Of a canonical tree that is the binomial tree of Thakur, Rabenseifner and Gropp (2005), whose sums are in canonical order for every root.
// Thread-safety: a value; less than 1 KiB.
#pragma once

#include "comm/schedule/order_path.h"

namespace weft {

class RootedPath {
 public:
  RootedPath(const ReductionOrder& order, int leaf, int root_leaf)
      : path_(order, leaf), leaf_(leaf), root_leaf_(root_leaf) {
    while (headed_ < path_.levels() && HeadOf(path_.At(headed_ + 1)) == leaf)
      ++headed_;
    if (headed_ < path_.levels()) parent_ = HeadOf(path_.At(headed_ + 1));
  }

  // Levels at which the leaf is the head of both sides: 1 to headed().
  int headed() const { return headed_; }

  // The head that the leaf sends to, or hears from; -1 at the root.
  int parent() const { return parent_; }

  // The subtree that the leaf hears from, or sends to, at one of these levels, and its head.
  const OrderVertex& SubtreeAt(int level) const { return path_.At(level).sibling; }

  int ChildAt(int level) const { return HeadOfVertex(path_.At(level).sibling); }

  // Whether what the leaf has is the left operand there.
  bool OnLeft(int level) const { return path_.At(level).on_left; }

  // All leaves whose head is this one.
  OrderVertex Own() const {
    if (headed_ == path_.levels())
      return headed_ == 0 ? OrderVertex{leaf_, 1, 0} : Joined(path_.At(headed_));
    return path_.At(headed_ + 1).mine;
  }

 private:
  static OrderVertex Joined(const OrderStep& step) {
    const OrderVertex& left = step.on_left ? step.mine : step.sibling;
    return {left.first, step.mine.count + step.sibling.count, 0};
  }

  int HeadOfVertex(const OrderVertex& vertex) const {
    return root_leaf_ >= vertex.first && root_leaf_ < vertex.first + vertex.count ? root_leaf_
                                                                                  : vertex.first;
  }

  int HeadOf(const OrderStep& step) const { return HeadOfVertex(Joined(step)); }

  const OrderPath path_;
  const int leaf_;
  const int root_leaf_;
  int headed_ = 0;
  int parent_ = -1;
};

}  // namespace weft
