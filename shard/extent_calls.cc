#include "shard/extent_calls.h"

#include <memory>
#include <utility>

#include "base/status.h"
#include "comm/group/block_layout.h"

namespace weft {
namespace {

absl::StatusOr<Collective> MakeCall(OpKind kind, const Layout& layout, const Extent& extent,
                                    int64_t timeout_ns) {
  std::vector<size_t> counts;
  for (size_t rank = 0; rank + 1 < extent.cuts.size(); ++rank)
    counts.push_back(extent.cuts[rank + 1] - extent.cuts[rank]);
  const Blocks blocks{counts.data(), nullptr};
  const bool gather = kind == OpKind::kAllGatherV;
  const Space& space = layout.SpaceOf(extent);
  // Where sums go on across replicas they must not be rounded on the way.
  const bool widened = !gather && space.placement.replicated && DtypeSize(space.dtype) == 2;
  Collective call{.kind = kind,
                  .dtype = widened ? WEFT_FLOAT32 : space.dtype,
                  .timeout_ns = timeout_ns};
  auto made = std::make_shared<BlockLayout>();
  WEFT_RETURN_IF_ERROR(LayOutBlocks(gather ? Blocks{} : blocks, gather ? blocks : Blocks{},
                                    layout.MemberOf(extent).rank, layout.MemberOf(extent).size,
                                    made.get(), &call));
  call.layout = std::move(made);
  return call;
}

}  // namespace

absl::StatusOr<ExtentCalls> ExtentCalls::Make(const Layout& layout, int64_t timeout_ns) {
  ExtentCalls calls;
  for (const Extent& extent : layout.extents) {
    WEFT_ASSIGN_OR_RETURN(Collective gather,
                          MakeCall(OpKind::kAllGatherV, layout, extent, timeout_ns));
    WEFT_ASSIGN_OR_RETURN(Collective reduce,
                          MakeCall(OpKind::kReduceScatterV, layout, extent, timeout_ns));
    calls.gathers_.push_back(std::move(gather));
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

Collective ExtentCalls::Reduce(int extent, weft_op_t op, const void* whole, void* own) const {
  Collective call = reduces_[static_cast<size_t>(extent)];
  call.op = op;
  call.in = whole;
  call.out = own;
  return call;
}

}  // namespace weft
