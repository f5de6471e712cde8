#include "shard/layout/storage.h"

#include <cstring>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"

namespace weft {
namespace {

absl::Status AddBlock(const BlockSource& source, weft_shard_tier_t tier, const char* role,
                      weft_dtype_t dtype, size_t bytes, std::vector<Block>& blocks) {
  absl::StatusOr<Block> block = Block::Allocate(source, tier, bytes);
  if (!block.ok()) {
    return Annotate(block.status(), StrCat("allocating ", bytes, " bytes for the ",
                                           DtypeName(dtype), " ", role, ": "));
  }
  blocks.push_back(*std::move(block));
  return absl::OkStatus();
}

size_t TotalBytes(const std::vector<Block>& blocks) {
  size_t bytes = 0;
  for (const Block& block : blocks)
    bytes += block.bytes();
  return bytes;
}

// A reduction leaves all of the space on every rank, not only its own part.
bool ReducesUnsharded(const Space& space) {
  return !space.placement.optimizer_sharded;
}

// In what something is accumulated.
weft_dtype_t AccumulatedType(const Space& space, Accumulate accumulate) {
  const bool widened = accumulate == Accumulate::kSumsOfReplicas && space.placement.replicated &&
                       DtypeSize(space.grad_dtype) == 2;
  return widened ? WEFT_FLOAT32 : space.grad_dtype;
}

}  // namespace

SpaceBytes SpaceBytesOf(const Space& space, Accumulate accumulate) {
  const Placement& placement = space.placement;
  const size_t grad_size = space.frozen ? 0 : DtypeSize(space.grad_dtype);
  const bool none = space.frozen || accumulate == Accumulate::kNothing;
  const size_t sum_size = none ? 0 : DtypeSize(AccumulatedType(space, accumulate));
  const size_t params = placement.params_sharded ? space.own_count : space.count;
  return {
      .data = space.offloaded ? 0 : params * DtypeSize(space.dtype),
      .grads = (placement.gradients_sharded ? space.own_count : space.count) * grad_size,
      .accumulated = (ReducesUnsharded(space) ? space.count : space.own_count) * sum_size,
  };
}

absl::StatusOr<Storage> Storage::Allocate(const Layout& layout, Accumulate accumulate,
                                          const BlockSource& source) {
  Storage storage;
  for (const Space& space : layout.spaces) {
    const SpaceBytes bytes = SpaceBytesOf(space, accumulate);
    storage.element_bytes_.push_back(DtypeSize(space.dtype));
    storage.grad_element_bytes_.push_back(DtypeSize(space.grad_dtype));
    const weft_dtype_t accumulated = AccumulatedType(space, accumulate);
    storage.accumulated_element_bytes_.push_back(DtypeSize(accumulated));
    WEFT_RETURN_IF_ERROR(AddBlock(source, WEFT_SHARD_TIER_PARAMS, "parameters", space.dtype,
                                  bytes.data, storage.data_));
    WEFT_RETURN_IF_ERROR(AddBlock(source, WEFT_SHARD_TIER_GRADIENTS, "gradients", space.grad_dtype,
                                  bytes.grads, storage.grads_));
    WEFT_RETURN_IF_ERROR(AddBlock(source, WEFT_SHARD_TIER_GRADIENTS, "accumulated gradients",
                                  accumulated, bytes.accumulated, storage.accumulated_));
  }
  return storage;
}

Part Storage::OwnParams(const Layout& layout, const Extent& extent) const {
  const Space& space = layout.SpaceOf(extent);
  if (space.offloaded) return {nullptr, layout.OwnCount(extent)};
  const bool cut = space.placement.params_sharded;
  return {At(data_, extent.range.space, cut ? extent.own_begin : layout.OwnFirst(extent)),
          layout.OwnCount(extent)};
}

Part Storage::Reduced(const Layout& layout, const Extent& extent) const {
  const Space& space = layout.SpaceOf(extent);
  const int index = extent.range.space;
  if (ReducesUnsharded(space)) return {Grad(index, extent.range.begin), extent.range.count};
  const bool cut = space.placement.gradients_sharded;
  return {Grad(index, cut ? extent.own_begin : layout.OwnFirst(extent)), layout.OwnCount(extent)};
}

std::byte* Storage::Accumulated(const Layout& layout, const Extent& extent) const {
  const bool whole = ReducesUnsharded(layout.SpaceOf(extent));
  const auto space = static_cast<size_t>(extent.range.space);
  return accumulated_[space].data() +
         (whole ? extent.range.begin : extent.own_begin) * accumulated_element_bytes_[space];
}

size_t Storage::data_bytes() const {
  return TotalBytes(data_);
}

size_t Storage::grad_bytes() const {
  return TotalBytes(grads_) + TotalBytes(accumulated_);
}

}  // namespace weft
