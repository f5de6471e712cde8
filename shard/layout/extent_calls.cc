#include "shard/layout/extent_calls.h"

#include <memory>
#include <utility>

#include "base/status.h"
#include "comm/group/block_layout.h"

namespace weft {
namespace {

absl::StatusOr<Collective> MakeCall(OpKind kind, const Layout& layout, size_t index,
                                    const std::vector<size_t>& cuts, const Member& member,
                                    int64_t timeout_ns) {
  const Extent& extent = layout.extents[index];
  std::vector<size_t> counts;
  for (size_t rank = 0; rank + 1 < cuts.size(); ++rank)
    counts.push_back(cuts[rank + 1] - cuts[rank]);
  const Blocks blocks{counts.data(), nullptr};
  const bool gather = kind == OpKind::kAllGatherV;
  const Space& space = layout.SpaceOf(extent);
  // Where an inter-replica all_reduce follows, sums must not be rounded on the way.
  const weft_dtype_t dtype = gather ? space.dtype : space.wire_dtype;
  const bool widened = !gather && space.placement.replicated && DtypeSize(dtype) == 2;
  Collective call{.kind = kind, .dtype = widened ? WEFT_FLOAT32 : dtype, .timeout_ns = timeout_ns};
  auto made = std::make_shared<BlockLayout>();
  WEFT_RETURN_IF_ERROR(LayOutBlocks(gather ? Blocks{} : blocks, gather ? blocks : Blocks{},
                                    member.rank, member.size, made.get(), &call));
  // Units of one size look alike to a group; with this it sees that ranks gather different ones.
  made->hash ^= static_cast<uint32_t>(index + 1) * 0x9e3779b1u;
  call.layout = std::move(made);
  return call;
}

}  // namespace

absl::StatusOr<ExtentCalls> ExtentCalls::Make(const Layout& layout, int64_t timeout_ns) {
  ExtentCalls calls;
  for (size_t index = 0; index < layout.extents.size(); ++index) {
    const Extent& extent = layout.extents[index];
    const Member& member = layout.MemberOf(extent);
    WEFT_ASSIGN_OR_RETURN(Collective gather, MakeCall(OpKind::kAllGatherV, layout, index,
                                                      extent.cuts, member, timeout_ns));
    WEFT_ASSIGN_OR_RETURN(Collective reduce, MakeCall(OpKind::kReduceScatterV, layout, index,
                                                      extent.cuts, member, timeout_ns));
    Collective inner;
    if (!extent.inner_cuts.empty()) {
      WEFT_ASSIGN_OR_RETURN(inner, MakeCall(OpKind::kAllGatherV, layout, index, extent.inner_cuts,
                                            layout.inner, timeout_ns));
    }
    calls.gathers_.push_back(std::move(gather));
    calls.inner_gathers_.push_back(std::move(inner));
    calls.reduces_.push_back(std::move(reduce));
  }
  return calls;
}

Collective ExtentCalls::Gather(int extent, const void* own, void* whole) const {
  Collective call = gathers_[static_cast<size_t>(extent)];
  call.in = own;
  call.out = whole;
  return call;
}

Collective ExtentCalls::GatherInner(int extent, const void* part, void* whole) const {
  Collective call = inner_gathers_[static_cast<size_t>(extent)];
  call.in = part;
  call.out = whole;
  return call;
}

Collective ExtentCalls::Reduce(int extent, weft_op_t op, const void* whole, void* own) const {
  Collective call = reduces_[static_cast<size_t>(extent)];
  call.op = op;
  call.in = whole;
  call.out = own;
  return call;
}

}  // namespace weft
