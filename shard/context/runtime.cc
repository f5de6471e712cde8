#include "shard/context/runtime.h"

#include <utility>

#include "comm/kernels/dtype.h"

namespace weft {

Runtime::Runtime(const Registry& declared, Layout planned, Storage allocated, ExtentCalls made,
                 const Mesh& mesh, std::unique_ptr<WaitWatch> made_watch,
                 const Reduction::Options& options)
    : registry(declared),
      watch(std::move(made_watch)),
      group(Watched(ContextGroup::kMesh, mesh.group())),
      inner(Watched(ContextGroup::kMeshInner, mesh.inner())),
      outer(Watched(ContextGroup::kMeshOuter, mesh.outer())),
      layout(std::move(planned)),
      storage(std::move(allocated)),
      calls(std::move(made)),
      state(registry),
      readiness(layout),
      clearing(registry, layout),
      updates(layout, storage, calls, *options.purposes, gather_groups),
      unit_gathers(layout, storage, calls, registry.units(), *options.purposes, gather_groups),
      unit_places(layout, registry.units(), state.units()),
      unshard_manager(layout, registry.units(), state.units(), unit_gathers, updates, unit_places),
      reduction(group, layout, storage, calls, unshard_manager, options),
      sharded_buckets(registry.units().size()) {
  for (size_t i = 0; i < layout.buckets.size(); ++i) {
    const int bucket = static_cast<int>(i);
    if (!unshard_manager.GradientsAreSharded(bucket)) continue;
    for (const int unit : layout.buckets[i].units)
      sharded_buckets[static_cast<size_t>(unit)].push_back(bucket);
  }
}

std::shared_ptr<ProcessGroup> Runtime::Watched(ContextGroup channel,
                                               std::shared_ptr<ProcessGroup> unwatched) {
  return watch == nullptr ? unwatched : watch->Watch(channel, std::move(unwatched));
}

std::byte* Runtime::UnshardedParam(int param) const {
  const Place& place = PlaceOf(param);
  const int unit = registry.params()[static_cast<size_t>(param)].unit;
  std::byte* const data = unshard_manager.UnitExtent(unit, place.extent);
  if (data == nullptr) return nullptr;
  const Extent& extent = layout.extents[static_cast<size_t>(place.extent)];
  return data + (place.begin - extent.range.begin) * DtypeSize(layout.SpaceOf(extent).dtype);
}

std::byte* Runtime::UnshardedGradient(int param) const {
  const Place& place = PlaceOf(param);
  std::byte* const data = unshard_manager.BucketExtent(place.bucket, place.extent);
  if (data == nullptr) return nullptr;
  const Extent& extent = layout.extents[static_cast<size_t>(place.extent)];
  return data + (place.begin - extent.range.begin) * DtypeSize(layout.SpaceOf(extent).grad_dtype);
}

std::byte* Runtime::GradientOf(int param) const {
  const Place& place = PlaceOf(param);
  if (unshard_manager.GradientsAreSharded(place.bucket)) return UnshardedGradient(param);
  return storage.Grad(place.space, place.begin);
}

}  // namespace weft
