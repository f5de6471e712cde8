#include "shard/optimizer/gradient_sums.h"

#include <algorithm>

#include "comm/kernels/dtype.h"
#include "shard/layout/cut.h"
#include "shard/optimizer/optimizer_kernels.h"
#include "shard/optimizer/optimizer_state.h"
#include "shard/optimizer/sum_squares.h"

namespace weft {

// Params begin at whole blocks of squares, and cuts between ranks lie there: leaving some params out
// changes no block of the others.
GradientSummer::GradientSummer(const Registry& registry, const Layout& layout, Isa isa)
    : layout_(layout), isa_(isa) {
  const std::vector<std::vector<int>> params_of = ParamsByExtent(layout);
  for (size_t i = 0; i < layout.extents.size(); ++i) {
    const Extent& extent = layout.extents[i];
    const Space& space = layout.SpaceOf(extent);
    // Replicas have the same sums: the first one's count.
    const bool counted = !space.placement.replicated || layout.member.rank < layout.inner.size;
    if (space.frozen || !counted) continue;
    size_t at = layout.OwnFirst(extent);
    const size_t end = at + layout.OwnCount(extent);
    for (const int param : params_of[i]) {
      const ParamSpec& spec = registry.params()[static_cast<size_t>(param)];
      if (spec.counted) continue;
      const size_t begin = layout.places[static_cast<size_t>(param)].begin;
      AddPieces(static_cast<int>(i), at, std::min(begin, end));
      at = std::max(at, begin + RoundUpToCut(spec.count));
    }
    AddPieces(static_cast<int>(i), at, end);
  }
}

void GradientSummer::AddPieces(int extent, size_t begin, size_t end) {
  if (begin >= end) return;
  for (size_t i = 0; i < PieceCount(begin, end - begin); ++i)
    pieces_.push_back({extent, PieceOf(begin, end - begin, i)});
}

GradientSums GradientSummer::Sum(const Storage& storage, ThreadTeam& team) const {
  struct alignas(64) MemberSums {  // of one member, on lines of its own
    GradientSums of;
  };

  std::vector<MemberSums> sums(static_cast<size_t>(team.size()));
  team.ForEach(pieces_.size(), [&](size_t index, int member) {
    const auto& [of, piece] = pieces_[index];
    const Extent& extent = layout_.extents[static_cast<size_t>(of)];
    const Space& space = layout_.SpaceOf(extent);
    // What a reduction leaves here begins with this rank's share, or with the extent.
    const size_t first =
        space.placement.optimizer_sharded ? layout_.OwnFirst(extent) : extent.range.begin;
    const std::byte* const gradients = storage.Reduced(layout_, extent).data;
    GradientSums& own = sums[static_cast<size_t>(member)].of;
    own.nonfinite += AddSquares(isa_, space.grad_dtype,
                                gradients + (piece.begin - first) * DtypeSize(space.grad_dtype),
                                piece.count, piece.begin, own.squares);
  });
  for (size_t member = 1; member < sums.size(); ++member) {
    sums[0].of.squares.Merge(sums[member].of.squares);
    sums[0].of.nonfinite += sums[member].of.nonfinite;
  }
  return sums[0].of;
}

}  // namespace weft
