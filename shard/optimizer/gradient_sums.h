// The squares of a context's reduced gradients, added exactly: what the global norm is made of.
//
//   GradientSummer summer(registry, layout, isa);
//   GradientSums sums = summer.Sum(storage, *team);      // of this rank's share; add over ranks
//
// Thread-safety: one thread at a time, which the team's threads help. Communicates with nobody.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/kernels/isa.h"
#include "shard/layout/layout.h"
#include "shard/layout/registry.h"
#include "shard/layout/storage.h"
#include "shard/optimizer/exact_sum.h"
#include "shard/optimizer/piece.h"
#include "shard/optimizer/thread_team.h"

namespace weft {

struct GradientSums {
  ExactSum squares;
  int64_t nonfinite = 0;
};

class GradientSummer {
 public:
  // Of the params that count. `layout` outlives this.
  GradientSummer(const Registry& registry, const Layout& layout, Isa isa);

  // Sums over this rank's share of every reduced gradient, also where gradients are not sharded:
  // all ranks' sums together have every element once. The bits do not depend on the team.
  GradientSums Sum(const Storage& storage, ThreadTeam& team) const;

 private:
  struct SumPiece {
    int extent = 0;
    Piece piece;
  };

  // [begin, end) of an extent's space.
  void AddPieces(int extent, size_t begin, size_t end);

  const Layout& layout_;
  const Isa isa_;
  std::vector<SumPiece> pieces_;
};

}  // namespace weft
