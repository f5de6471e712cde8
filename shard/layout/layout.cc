// Everything here follows from two wishes. A bucket should be one range of memory, so that it is reduced as it lies, and
// what a rank owns should be another, so that the optimizer sweeps it in one loop. Hence spaces are filled in the order of
// declaration, buckets are cut from their end, as backward completes them, and the parts of sharded extents lie one
// behind the other without gaps.
#include "shard/layout/layout.h"

#include <algorithm>
#include <array>

#include "comm/kernels/dtype.h"

namespace weft {
namespace {

size_t PaddedCount(const ParamSpec& param) {
  return RoundUpToCut(param.count);
}

weft_dtype_t GradTypeOf(weft_dtype_t dtype, const Placement& placement) {
  return placement.float32_gradients && DtypeSize(dtype) == 2 ? WEFT_FLOAT32 : dtype;
}

weft_dtype_t WireTypeOf(weft_dtype_t grad_dtype, const Placement& placement) {
  if (grad_dtype != WEFT_FLOAT32 || placement.wire == WEFT_SHARD_WIRE_GRADIENTS) return grad_dtype;
  return placement.wire == WEFT_SHARD_WIRE_BFLOAT16 ? WEFT_BFLOAT16 : WEFT_FLOAT16;
}

const Placement& PlacementOfParam(const Registry& registry, const ParamSpec& param) {
  return registry.units()[static_cast<size_t>(param.unit)].placement;
}

int SpaceFor(std::vector<Space>& spaces, const ParamSpec& param, const Placement& placement) {
  for (size_t i = 0; i < spaces.size(); ++i) {
    if (spaces[i].dtype == param.dtype && spaces[i].frozen == param.frozen &&
        spaces[i].placement == placement) {
      return static_cast<int>(i);
    }
  }
  const weft_dtype_t grad_dtype = GradTypeOf(param.dtype, placement);
  spaces.push_back({.dtype = param.dtype,
                    .grad_dtype = grad_dtype,
                    .wire_dtype = WireTypeOf(grad_dtype, placement),
                    .frozen = param.frozen,
                    .placement = placement});
  return static_cast<int>(spaces.size()) - 1;
}

void PlaceParams(const Registry& registry, Layout& layout) {
  for (const ParamSpec& param : registry.params()) {
    const int space_index = SpaceFor(layout.spaces, param, PlacementOfParam(registry, param));
    Space& space = layout.spaces[static_cast<size_t>(space_index)];
    layout.places.push_back({.space = space_index, .begin = space.count});
    space.count += PaddedCount(param);
    const size_t padding = PaddedCount(param) - param.count;
    layout.data_bytes += PaddedCount(param) * DtypeSize(param.dtype);
    layout.data_padding_bytes += padding * DtypeSize(param.dtype);
    if (!param.frozen) layout.grad_padding_bytes += padding * DtypeSize(space.grad_dtype);
  }
}

// The params of a bucket and their units.
struct Members {
  std::vector<int> params;
  std::vector<int> units;
};

// Collects params last to first into lists, one per bucket.
class BucketCutter {
 public:
  BucketCutter(const std::vector<ParamSpec>& params, const BucketLimits& limits)
      : params_(params), limits_(limits) {}

  void AddUnit(int index, const UnitSpec& unit) {
    if (!open_.units.empty() && !(unit.placement == placement_)) Close();
    placement_ = unit.placement;
    const size_t unit_bytes = BytesOf(unit);
    const bool alone = unit.placement.params_sharded;
    if (alone || open_bytes_ + unit_bytes > Limit()) Close();
    const bool cut = !alone && unit_bytes > Limit();
    for (int i = unit.param_count - 1; i >= 0; --i) {
      const int param = unit.first_param + i;
      if (!Reduced(param)) continue;
      const size_t bytes = GradBytes(param);
      if (cut && open_bytes_ + bytes > Limit()) Close();
      if (open_.units.empty() || open_.units.back() != index) open_.units.push_back(index);
      open_.params.push_back(param);
      open_bytes_ += bytes;
    }
    if (alone) Close();
  }

  std::vector<Members> Finish() {
    Close();
    return std::move(closed_);
  }

 private:
  bool Reduced(int index) const {
    const ParamSpec& param = params_[static_cast<size_t>(index)];
    return !param.frozen && param.count > 0;
  }

  size_t BytesOf(const UnitSpec& unit) const {
    size_t bytes = 0;
    for (int i = 0; i < unit.param_count; ++i) {
      const int index = unit.first_param + i;
      if (Reduced(index)) bytes += GradBytes(index);
    }
    return bytes;
  }

  size_t GradBytes(int index) const {
    const ParamSpec& param = params_[static_cast<size_t>(index)];
    return PaddedCount(param) * DtypeSize(GradTypeOf(param.dtype, placement_));
  }

  size_t Limit() const {
    return closed_.empty() ? limits_.first_bucket_bytes : limits_.bucket_bytes;
  }

  void Close() {
    if (open_.params.empty()) return;
    std::reverse(open_.params.begin(), open_.params.end());
    std::reverse(open_.units.begin(), open_.units.end());
    closed_.push_back(std::move(open_));
    open_ = {};
    open_bytes_ = 0;
  }

  const std::vector<ParamSpec>& params_;
  const BucketLimits limits_;
  std::vector<Members> closed_;
  Members open_;
  Placement placement_;  // of what is open
  size_t open_bytes_ = 0;
};

// Where a range may be cut that holds `params`, all of one space, in order.
std::vector<size_t> BoundariesOf(const std::vector<ParamSpec>& specs,
                                 const std::vector<int>& params, const Range& range,
                                 const Layout& layout) {
  const Placement& placement = layout.spaces[static_cast<size_t>(range.space)].placement;
  std::vector<size_t> boundaries;
  for (const int param : params) {
    const ParamSpec& spec = specs[static_cast<size_t>(param)];
    const size_t begin = layout.places[static_cast<size_t>(param)].begin - range.begin;
    boundaries.push_back(begin);
    if (placement.cut != CutRule::kRows || spec.shape.empty()) continue;
    const size_t row = spec.count / static_cast<size_t>(spec.shape[0]);
    AddRowBoundaries(begin, spec.count, row, placement.cut_rows, boundaries);
  }
  boundaries.push_back(range.count);
  return boundaries;
}

// Elements that ranks have already of what is cut between params: of trained ones, which their optimizers update, and of frozen ones, by
// all ranks and, where there are replicas, by those of one.
class OwnerLoads {
 public:
  std::vector<size_t>& Of(const Space& space, int ranks) {
    std::vector<size_t>& loads = loads_[space.frozen ? 1 : 0][space.placement.replicated ? 1 : 0];
    loads.resize(static_cast<size_t>(ranks));
    return loads;
  }

 private:
  std::array<std::array<std::vector<size_t>, 2>, 2> loads_;
};

std::vector<size_t> CutsOf(const std::vector<ParamSpec>& specs, const std::vector<int>& params,
                           const Range& range, int ranks, const Layout& layout, OwnerLoads& loads) {
  const Space& space = layout.spaces[static_cast<size_t>(range.space)];
  if (space.placement.cut == CutRule::kElements) return CutElements(range.count, ranks);
  const std::vector<size_t> boundaries = BoundariesOf(specs, params, range, layout);
  if (space.placement.cut == CutRule::kRows) return CutAt(boundaries, ranks);
  return CutByLoad(boundaries, loads.Of(space, ranks));
}

// Makes the extent of those `members` that lie in `space`; they are neighbours there, so first and last
// make the range.
void AddExtent(const std::vector<ParamSpec>& params, const std::vector<int>& members, int space,
               weft_dtype_t Space::*packed_dtype, Layout& layout, OwnerLoads& loads, Pack& pack) {
  Extent extent{.range = {.space = space}};
  Range& range = extent.range;
  std::vector<int> inside;
  for (const int member : members) {
    Place& place = layout.places[static_cast<size_t>(member)];
    if (place.space != space) continue;
    if (range.count == 0) range.begin = place.begin;
    range.count = place.begin + PaddedCount(params[static_cast<size_t>(member)]) - range.begin;
    place.extent = static_cast<int>(layout.extents.size());
    inside.push_back(member);
  }
  if (inside.empty()) return;
  const Space& in = layout.spaces[static_cast<size_t>(space)];
  const int ranks = (in.placement.replicated ? layout.inner : layout.member).size;
  extent.cuts = CutsOf(params, inside, range, ranks, layout, loads);
  if (in.placement.inner_part) extent.inner_cuts = CutElements(range.count, layout.inner.size);
  pack.extents.push_back(static_cast<int>(layout.extents.size()));
  pack.offsets.push_back(pack.bytes);
  pack.bytes += range.count * DtypeSize(in.*packed_dtype);
  layout.extents.push_back(std::move(extent));
}

void PlaceSums(const Layout& layout, Bucket& bucket) {
  bucket.sums = bucket.pack.offsets;
  for (size_t i = 0; i < bucket.sums.size(); ++i) {
    const Extent& extent = layout.extents[static_cast<size_t>(bucket.pack.extents[i])];
    const Space& space = layout.SpaceOf(extent);
    if (!space.placement.replicated || DtypeSize(space.grad_dtype) != 2) continue;
    bucket.sums[i] = bucket.pack.bytes;
    bucket.pack.bytes += extent.range.count * sizeof(float);
  }
}

void AddBucket(const std::vector<ParamSpec>& params, Members members, Layout& layout,
               OwnerLoads& loads) {
  Bucket bucket;
  const int index = static_cast<int>(layout.buckets.size());
  for (size_t space = 0; space < layout.spaces.size(); ++space) {
    AddExtent(params, members.params, static_cast<int>(space), &Space::grad_dtype, layout, loads,
              bucket.pack);
  }
  for (const int param : members.params)
    layout.places[static_cast<size_t>(param)].bucket = index;
  bucket.bytes = bucket.pack.bytes;
  for (const int extent : bucket.pack.extents) {
    const Extent& of = layout.extents[static_cast<size_t>(extent)];
    bucket.wire_bytes += of.range.count * DtypeSize(layout.SpaceOf(of).wire_dtype);
    bucket.param_bytes += of.range.count * DtypeSize(layout.SpaceOf(of).dtype);
  }
  PlaceSums(layout, bucket);
  bucket.params = std::move(members.params);
  bucket.units = std::move(members.units);
  layout.reduced_bytes += bucket.wire_bytes;
  layout.buckets.push_back(std::move(bucket));
}

// What is gathered for a unit whose params are sharded at rest: the extents of its bucket, and of its frozen params.
void PackUnit(const std::vector<ParamSpec>& params, const UnitSpec& unit, Layout& layout,
              OwnerLoads& loads, Pack& pack) {
  std::vector<int> frozen;
  int bucket = -1;
  for (int i = unit.first_param; i < unit.first_param + unit.param_count; ++i) {
    const auto index = static_cast<size_t>(i);
    if (params[index].count == 0) continue;
    if (params[index].frozen) frozen.push_back(i);
    if (!params[index].frozen) bucket = layout.places[index].bucket;
  }
  if (bucket >= 0) {
    for (const int index : layout.buckets[static_cast<size_t>(bucket)].pack.extents) {
      const Extent& extent = layout.extents[static_cast<size_t>(index)];
      pack.extents.push_back(index);
      pack.offsets.push_back(pack.bytes);
      pack.bytes += extent.range.count * DtypeSize(layout.SpaceOf(extent).dtype);
    }
  }
  for (size_t space = 0; space < layout.spaces.size(); ++space) {
    AddExtent(params, frozen, static_cast<int>(space), &Space::dtype, layout, loads, pack);
  }
}

// HPZ: the first rank's share of every extent is the largest.
Pack PackPart(const Layout& layout, const Pack& unit) {
  Pack part;
  for (const int index : unit.extents) {
    const Extent& extent = layout.extents[static_cast<size_t>(index)];
    part.extents.push_back(index);
    part.offsets.push_back(part.bytes);
    part.bytes += extent.inner_cuts[1] * DtypeSize(layout.SpaceOf(extent).dtype);
  }
  return part;
}

// Gives every extent its place among what this rank owns, in the order of the space.
void PlaceOwnParts(Layout& layout) {
  std::vector<Extent*> ordered;
  for (Extent& extent : layout.extents)
    ordered.push_back(&extent);
  std::sort(ordered.begin(), ordered.end(),
            [](const Extent* a, const Extent* b) { return a->range.begin < b->range.begin; });
  for (Extent* const extent : ordered) {
    Space& space = layout.spaces[static_cast<size_t>(extent->range.space)];
    extent->own_begin = space.own_count;
    space.own_count += layout.OwnCount(*extent);
  }
}

// Cuts the frozen spaces that are unsharded at rest, between params, into pieces of at most `bytes_max`, or one param.
std::vector<Range> CutFrozen(const std::vector<ParamSpec>& params, const Layout& layout,
                             size_t bytes_max) {
  std::vector<Range> ranges;
  std::vector<int> open(layout.spaces.size(), -1);  // the range that grows, by space
  for (size_t i = 0; i < params.size(); ++i) {
    const Place& place = layout.places[i];
    if (!params[i].frozen || params[i].count == 0 || place.extent >= 0) continue;
    int& grows = open[static_cast<size_t>(place.space)];
    const size_t count = PaddedCount(params[i]);
    const bool fits = grows >= 0 && (ranges[static_cast<size_t>(grows)].count + count) *
                                            DtypeSize(params[i].dtype) <=
                                        bytes_max;
    if (!fits) {
      grows = static_cast<int>(ranges.size());
      ranges.push_back({.space = place.space, .begin = place.begin});
    }
    ranges[static_cast<size_t>(grows)].count += count;
  }
  return ranges;
}

}  // namespace

OwnedElements OwnedBy(const Extent& extent, const Place& place, size_t count, size_t rank) {
  const size_t first = extent.range.begin + extent.cuts[rank];
  const size_t last = extent.range.begin + extent.cuts[rank + 1];
  const size_t begin = std::clamp(place.begin, first, last);
  const size_t end = std::clamp(place.begin + count, first, last);
  if (begin == end) return {};
  return {begin - place.begin, end - begin};
}

Layout MakeLayout(const Registry& registry, const BucketLimits& limits, const Member& member,
                  const Member& inner, bool offloads_params) {
  const std::vector<ParamSpec>& params = registry.params();
  const std::vector<UnitSpec>& units = registry.units();
  Layout layout{.member = member, .inner = inner};
  PlaceParams(registry, layout);
  for (Space& space : layout.spaces)
    space.offloaded = offloads_params && space.placement.params_sharded;
  OwnerLoads loads;
  BucketCutter cutter(params, limits);
  for (size_t i = units.size(); i > 0; --i)
    cutter.AddUnit(static_cast<int>(i - 1), units[i - 1]);
  for (Members& members : cutter.Finish())
    AddBucket(params, std::move(members), layout, loads);
  layout.units.resize(units.size());
  layout.parts.resize(units.size());
  for (size_t i = 0; i < units.size(); ++i) {
    if (units[i].placement.params_sharded)
      PackUnit(params, units[i], layout, loads, layout.units[i]);
    if (units[i].placement.inner_part) layout.parts[i] = PackPart(layout, layout.units[i]);
  }
  PlaceOwnParts(layout);
  layout.frozen = CutFrozen(params, layout, limits.bucket_bytes);
  return layout;
}

}  // namespace weft
