#include "shard/step/update_gathers.h"

#include "base/status.h"
#include "base/text.h"

namespace weft {

UpdateGathers::UpdateGathers(const Layout& layout, const Storage& storage, const ExtentCalls& calls,
                             const Purposes& purposes, const GatherGroups& groups)
    : layout_(layout),
      storage_(storage),
      calls_(calls),
      purposes_(purposes),
      groups_(groups),
      works_(layout.buckets.size()),
      buckets_of_(layout.units.size()) {
  for (size_t i = 0; i < layout.buckets.size(); ++i) {
    const Bucket& bucket = layout.buckets[i];
    if (!GathersUpdates(layout.PlacementOf(bucket))) continue;
    for (const int unit : bucket.units)
      buckets_of_[static_cast<size_t>(unit)].push_back(static_cast<int>(i));
  }
}

absl::Status UpdateGathers::Start(int index) {
  const Bucket& bucket = layout_.buckets[static_cast<size_t>(index)];
  const Placement& placement = layout_.PlacementOf(bucket);
  if (!GathersUpdates(placement)) return absl::OkStatus();
  ProcessGroup& group = groups_.For(placement);
  for (const int extent_index : bucket.pack.extents) {
    const Extent& extent = layout_.extents[static_cast<size_t>(extent_index)];
    Collective call = calls_.Gather(extent_index, storage_.OwnParams(layout_, extent).data,
                                    storage_.Data(extent.range.space, extent.range.begin));
    call.purpose = purposes_.Of(Purpose::Kind::kGatherUpdated, index);
    absl::StatusOr<WorkRef> work = group.Start(call);
    if (!work.ok()) {
      const absl::Status cause = group.error();
      return Annotate(cause.ok() ? work.status() : cause,
                      StrCat("gathering the updated parameters of bucket ", index, ": "));
    }
    works_[static_cast<size_t>(index)].push_back(*std::move(work));
  }
  bytes_ += bucket.param_bytes;
  return absl::OkStatus();
}

Works UpdateGathers::TakeFor(int unit) {
  for (const int bucket : buckets_of_[static_cast<size_t>(unit)]) {
    Works& works = works_[static_cast<size_t>(bucket)];
    if (!works.empty()) return std::exchange(works, {});
  }
  return {};
}

void UpdateGathers::AddUnderWay(Works& works) const {
  for (const Works& of_bucket : works_)
    works.insert(works.end(), of_bucket.begin(), of_bucket.end());
}

void UpdateGathers::Drop() {
  for (Works& works : works_)
    works.clear();
}

}  // namespace weft
