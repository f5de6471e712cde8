#include "shard/step/unit_gathers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"

namespace weft {

UnitGathers::UnitGathers(const Layout& layout, const Storage& storage, const ExtentCalls& calls,
                         const std::vector<UnitSpec>& units, const Purposes& purposes,
                         const GatherGroups& groups)
    : layout_(layout),
      storage_(storage),
      calls_(calls),
      specs_(units),
      purposes_(purposes),
      groups_(groups) {}

void UnitGathers::Add(int unit, std::byte* whole, const std::byte* kept_part) {
  const bool reads = parts_ != nullptr && kept_part == nullptr;
  waiting_.push_back({unit, whole, kept_part, reads ? parts_->Fetch(unit, whole) : nullptr});
}

absl::StatusOr<bool> UnitGathers::StartReady(absl::FunctionRef<Works&(int unit)> works_of) {
  while (!waiting_.empty()) {
    const Waiting& next = waiting_.front();
    if (next.fetch != nullptr && !next.fetch->ended()) return false;
    absl::Status started = next.fetch == nullptr ? absl::OkStatus() : failure();
    if (started.ok()) started = Start(next, works_of(next.unit));
    if (!started.ok()) {
      const std::string& name = specs_[static_cast<size_t>(next.unit)].name;
      return WithSubject(Annotate(started, StrCat("gathering unit ", name, ": ")), name, {});
    }
    waiting_.erase(waiting_.begin());
  }
  return true;
}

absl::Status UnitGathers::Start(const Waiting& gather, Works& works) const {
  const Pack& pack = layout_.units[static_cast<size_t>(gather.unit)];
  const Pack& part = layout_.parts[static_cast<size_t>(gather.unit)];
  const bool from_part = gather.kept_part != nullptr;
  for (size_t i = 0; i < pack.extents.size(); ++i) {
    const Extent& extent = layout_.extents[static_cast<size_t>(pack.extents[i])];
    std::byte* const whole = gather.whole + pack.offsets[i];
    Collective call =
        from_part ? calls_.GatherInner(pack.extents[i], gather.kept_part + part.offsets[i], whole)
                  : calls_.Gather(pack.extents[i], OwnPart(extent, whole), whole);
    call.purpose = purposes_.Of(Purpose::Kind::kGather, gather.unit);
    call.background = true;
    ProcessGroup& group =
        from_part ? groups_.inner() : groups_.For(layout_.SpaceOf(extent).placement);
    absl::StatusOr<WorkRef> work = group.Start(call);
    if (!work.ok()) {
      const absl::Status cause = group.error();
      return cause.ok() ? work.status() : cause;
    }
    works.push_back(*std::move(work));
  }
  return absl::OkStatus();
}

const std::byte* UnitGathers::OwnPart(const Extent& extent, const std::byte* whole) const {
  const Space& space = layout_.SpaceOf(extent);
  if (!space.offloaded) return storage_.OwnParams(layout_, extent).data;
  return whole + (layout_.OwnFirst(extent) - extent.range.begin) * DtypeSize(space.dtype);
}

bool UnitGathers::Has(int unit) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [unit](const Waiting& waiting) { return waiting.unit == unit; });
}

void UnitGathers::Cancel() {
  for (const Waiting& waiting : waiting_) {
    if (waiting.fetch != nullptr) waiting.fetch->Cancel();
  }
}

void UnitGathers::Drop() {
  Cancel();
  waiting_.clear();
}

}  // namespace weft
