// Who holds the sum of which block in tree halving of a reduce_scatter, found without a table.
//
//   const HalvingBlocks blocks(order);
//   for (uint32_t position = 0; position < blocks.positions(); ++position) {
//     const int block = blocks.BlockAt(position);                    // that ends at this leaf; -1: there is none
//     if (block >= 0) Use(block, blocks.HolderAt(vertex, block));    // the leaf of the vertex that has its sum over the vertex
//   }
//
// A block of a leaf in a vertex is held by that leaf, in which it ends; one from elsewhere by any of the vertex's leaves. At the vertex
// (A, B) of the tree the leaves of A and of B that hold a block's two sums become one: its own leaf, if that is in the vertex; else, of
// the number r that the block has modulo the power of two from |A| + |B| on, the left one for r < |A|, the right one for r < |A| + |B|, and
// beyond the one of the larger side.
//
// Of a canonical tree that is: leaf r of the vertex, or, if there is none, r less half of that power of two. So at each vertex a leaf
// receives from a single one; and if blocks stand in the order of their numbers read from the last bit on, "positions", then what a leaf holds
// at a vertex, and what it sends to each other one there, stands side by side. In the left sides of the tree, which are perfect, that is
// recursive halving, nearest first; a right side with fewer leaves holds as many blocks each as the left one, or half as many.
//
// Of other trees what is held may be several ranges.
//
// Thread-safety: constant. Borrows the order.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "comm/schedule/order_path.h"
#include "comm/schedule/reduction_order.h"

namespace weft {

class HalvingBlocks {
 public:
  explicit HalvingBlocks(const ReductionOrder& order)
      : order_(order), bits_(std::bit_width(static_cast<uint32_t>(order.pieces() - 1))) {}

  uint32_t positions() const { return 1u << bits_; }

  int BlockAt(uint32_t position) const;

  int HolderAt(OrderVertex vertex, int block) const;

  // Whether, where a step's two sides become one, the block's holder in `mine` keeps it.
  bool IsKept(const OrderStep& step, int block) const;

 private:
  static bool Has(const OrderVertex& vertex, int block) {
    return block >= vertex.first && block < vertex.first + vertex.count;
  }

  // Of a block that ends in neither side.
  static bool GoesRight(int left, int right, int block) {
    const auto leaves = static_cast<uint32_t>(left + right);
    const uint32_t number = static_cast<uint32_t>(block) & (std::bit_ceil(leaves) - 1);
    return number < leaves ? number >= static_cast<uint32_t>(left) : right > left;
  }

  const ReductionOrder& order_;
  const int bits_;
};

}  // namespace weft
