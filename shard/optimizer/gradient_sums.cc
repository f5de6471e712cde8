#include "shard/optimizer/gradient_sums.h"

#include "comm/kernels/dtype.h"
#include "shard/optimizer/optimizer_kernels.h"
#include "shard/optimizer/sum_squares.h"

namespace weft {

GradientSummer::GradientSummer(const Layout& layout, Isa isa) : layout_(layout), isa_(isa) {
  for (size_t i = 0; i < layout.extents.size(); ++i) {
    const Extent& extent = layout.extents[i];
    const Space& space = layout.SpaceOf(extent);
    const size_t count = layout.OwnCount(extent);
    // Replicas have the same sums: the first one's count.
    const bool counted = !space.placement.replicated || layout.member.rank < layout.inner.size;
    if (space.frozen || !counted) continue;
    for (size_t at = 0; at < PieceCount(layout.OwnFirst(extent), count); ++at) {
      pieces_.push_back({static_cast<int>(i), PieceOf(layout.OwnFirst(extent), count, at)});
    }
  }
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
