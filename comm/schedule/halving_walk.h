// Who holds which part of the vector in tree halving, found without a table.
//
//   HalvingWalk walk(order, count, path);
//   walk.Start(3);
//   for (HalvingOverlap overlap; walk.Next(&overlap);) ...     // what this leaf cuts with others at level 3, ascending
//
// At the vertex (A, B) of the tree each member of A holds a part of A's sum and each member of B a part of B's. Wherever what i in A
// holds and what j in B holds overlap, the overlap is cut |A| : |B|; i keeps the left part of A's side, which it adds j's to, and j the
// right part. If a member of A held 1/|A| of the vector, it then holds 1/(|A| + |B|), and what it sends is what it no longer holds; all
// the way up that is (N-1)/N of the vector for every participant and every N.
//
// What a leaf holds at a level can consist of several ranges. They are not listed: a range at a level comes from one of the level below,
// and who holds the other side's sum of a unit is found by going down the other side. That takes a step per level where the side is
// perfect, as the left sides of canonical trees are, and otherwise a step per leaf.
//
// Thread-safety: an object belongs to one thread. It borrows the order and the path; about 1 KiB.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "comm/schedule/order_path.h"
#include "comm/schedule/reduction_order.h"
#include "comm/schedule/slices.h"

namespace weft {

struct HalvingOverlap {
  static constexpr uint32_t kNoOp = UINT32_MAX;

  int peer_leaf = 0;
  UnitSlice kept;  // by this leaf; the rest is the peer's; either may be empty, not both
  UnitSlice sent;
  // Numbers of ops if every level, in order, has a send for what is sent, and a receive and a reduction for what is kept.
  uint32_t made_by =
      kNoOp;  // the reduction that made what this leaf has of the overlap; none at level 1
  uint32_t first_op = 0;  // of the overlap

  uint64_t end() const { return std::max(kept.end(), sent.end()); }

  uint32_t op_count() const { return (sent.units > 0 ? 1 : 0) + (kept.units > 0 ? 2 : 0); }

  // The reduction of the overlap, if something is kept.
  uint32_t reduction() const { return first_op + (sent.units > 0 ? 2 : 1); }
};

class HalvingWalk {
 public:
  HalvingWalk(const ReductionOrder& order, uint64_t count, const OrderPath& path)
      : order_(order), path_(path), count_(count) {}

  // Begins with the first overlap at `level`. Levels are started in ascending order the first time.
  void Start(int level);

  bool Next(HalvingOverlap* overlap) { return NextAt(level_, overlap); }

 private:
  struct Held {
    int leaf = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  struct Level {
    uint64_t at = 0;         // up to where the range below has been cut
    uint64_t below_end = 0;  // of that range
    uint32_t below_op = HalvingOverlap::kNoOp;
    uint32_t next_op = 0;
  };

  bool NextAt(int level, HalvingOverlap* overlap);
  // Takes the next range that is held below `level` into its Level.
  bool NextBelow(int level);
  Held HolderAt(const OrderVertex& vertex, uint64_t unit) const;

  const ReductionOrder& order_;
  const OrderPath& path_;
  const uint64_t count_;
  int level_ = 0;
  bool whole_taken_ = false;  // level 1 has one range below it: the whole vector
  std::array<Level, ReductionOrder::kLevelsMax + 1> levels_;
  std::array<uint32_t, ReductionOrder::kLevelsMax + 2> first_op_ =
      {};  // by level; known for those that were walked to the end
};

}  // namespace weft
