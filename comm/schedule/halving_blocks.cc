#include "comm/schedule/halving_blocks.h"

namespace weft {

int HalvingBlocks::BlockAt(uint32_t position) const {
  uint32_t block = 0;
  for (int bit = 0; bit < bits_; ++bit)
    block |= (position >> bit & 1u) << (bits_ - 1 - bit);
  return block < static_cast<uint32_t>(order_.pieces()) ? static_cast<int>(block) : -1;
}

int HalvingBlocks::HolderAt(OrderVertex vertex, int block) const {
  if (Has(vertex, block)) return block;
  // All of its sides are cut in halves.
  while (!order_.IsPerfect(vertex)) {
    const OrderVertex left = order_.Left(vertex);
    const OrderVertex right = order_.Right(vertex);
    vertex = GoesRight(left.count, right.count, block) ? right : left;
  }
  return vertex.first + block % vertex.count;
}

bool HalvingBlocks::IsKept(const OrderStep& step, int block) const {
  if (Has(step.mine, block)) return true;
  if (Has(step.sibling, block)) return false;
  const int left = step.on_left ? step.mine.count : step.sibling.count;
  const int right = step.on_left ? step.sibling.count : step.mine.count;
  return GoesRight(left, right, block) != step.on_left;
}

}  // namespace weft
