#include "comm/schedule/halving_walk.h"

#include <algorithm>

namespace weft {

void HalvingWalk::Start(int level) {
  level_ = level;
  whole_taken_ = false;
  for (int below = 1; below <= level; ++below) {
    levels_[static_cast<size_t>(below)] = {.next_op = first_op_[static_cast<size_t>(below)]};
  }
}

HalvingWalk::Held HalvingWalk::HolderAt(const OrderVertex& vertex, uint64_t unit) const {
  if (vertex.count == 1) return {vertex.first, 0, count_};
  if (order_.IsPerfect(vertex)) {
    // Both sides of each vertex are held alike, so the cuts of one leaf are those of all.
    Held held = {vertex.first, 0, count_};
    for (int half = 1; half < vertex.count; half *= 2) {
      const uint64_t cut = held.begin + (held.end - held.begin) / 2;
      if (unit < cut) {
        held.end = cut;
      } else {
        held.begin = cut;
        held.leaf += half;
      }
    }
    return held;
  }
  const OrderVertex left = order_.Left(vertex);
  const Held a = HolderAt(left, unit);
  const Held b = HolderAt(order_.Right(vertex), unit);
  const uint64_t begin = std::max(a.begin, b.begin);
  const uint64_t end = std::min(a.end, b.end);
  const uint64_t cut = begin + PartOf(end - begin, static_cast<uint64_t>(left.count),
                                      static_cast<uint64_t>(vertex.count));
  return unit < cut ? Held{a.leaf, begin, cut} : Held{b.leaf, cut, end};
}

bool HalvingWalk::NextBelow(int level) {
  Level& above = levels_[static_cast<size_t>(level)];
  if (level == 1) {
    if (whole_taken_ || count_ == 0) return false;
    whole_taken_ = true;
    above.at = 0;
    above.below_end = count_;
    return true;
  }
  for (HalvingOverlap overlap; NextAt(level - 1, &overlap);) {
    if (overlap.kept.units == 0) continue;
    above.at = overlap.kept.begin;
    above.below_end = overlap.kept.end();
    above.below_op = overlap.reduction();
    return true;
  }
  return false;
}

bool HalvingWalk::NextAt(int level, HalvingOverlap* overlap) {
  Level& at = levels_[static_cast<size_t>(level)];
  if (at.at == at.below_end && !NextBelow(level)) {
    first_op_[static_cast<size_t>(level) + 1] = at.next_op;
    return false;
  }
  const OrderStep& step = path_.At(level);
  const Held other = HolderAt(step.sibling, at.at);
  const uint64_t begin = at.at;
  const uint64_t end = std::min(at.below_end, other.end);
  const auto mine = static_cast<uint64_t>(step.mine.count);
  const auto others = static_cast<uint64_t>(step.sibling.count);
  const uint64_t cut = begin + PartOf(end - begin, step.on_left ? mine : others, mine + others);
  const UnitSlice left_part = {begin, cut - begin};
  const UnitSlice right_part = {cut, end - cut};
  *overlap = {.peer_leaf = other.leaf,
              .kept = step.on_left ? left_part : right_part,
              .sent = step.on_left ? right_part : left_part,
              .made_by = at.below_op,
              .first_op = at.next_op};
  at.at = end;
  at.next_op += overlap->op_count();
  return true;
}

}  // namespace weft
