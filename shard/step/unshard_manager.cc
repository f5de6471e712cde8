// Operations of a group have to start in one order on all ranks, but ranks are not equally fast and do not free their
// memory at the same time. So nothing here is started because it happens to be possible: gathers start in the order of the
// schedule, or of the calls, and one whose place is taken makes all behind it wait.
#include "shard/step/unshard_manager.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"

namespace weft {
namespace {

// Nothing is left to wait for, nor to report.
bool EndedWell(const Works& works) {
  return std::all_of(works.begin(), works.end(), [](const WorkRef& work) {
    return work->ended() && work->Test() && work->status().ok();
  });
}

std::byte* ExtentIn(const Pack& pack, std::byte* data, int extent) {
  if (data == nullptr) return nullptr;
  const auto found = std::find(pack.extents.begin(), pack.extents.end(), extent);
  WEFT_CHECK(found != pack.extents.end());
  return data + pack.offsets[static_cast<size_t>(found - pack.extents.begin())];
}

void GiveBack(Pool& pool, std::byte*& place) {
  pool.GiveBack(place);
  place = nullptr;
}

}  // namespace

Works NotEnded(const Works& works) {
  Works left;
  for (const WorkRef& work : works) {
    if (!work->ended()) left.push_back(work);
  }
  return left;
}

UnshardManager::UnshardManager(const Layout& layout, const std::vector<UnitSpec>& units,
                               const UnitTracker& tracker, UnitGathers& gathers,
                               UpdateGathers& updates, UnitPlaces& places)
    : layout_(layout),
      specs_(units),
      tracker_(tracker),
      gathers_(gathers),
      updates_(updates),
      places_(places),
      units_(units.size()),
      buckets_(layout.buckets.size()) {
  reducing_.reserve(layout.buckets.size());  // else it grows when reductions happen to be slow
}

void UnshardManager::BeginStep(const Schedule* schedule, bool train) {
  schedule_ = schedule;
  train_ = train;
  events_.clear();
  pool_.CountSpilledAnew();
  served_ = true;
  next_gather_ = 0;
  next_gradients_ = 0;
  gathered_bytes_ = updates_.TakeBytes();
  reduced_.assign(schedule == nullptr ? 0 : schedule->gradient_count(), false);
}

absl::Status UnshardManager::OnCall(const Event& event) {
  const size_t at = events_.size();
  events_.push_back(event);
  served_ = false;
  if (schedule_ == nullptr) return absl::OkStatus();
  if (at < schedule_->event_count() && schedule_->EventAt(at) == event) return absl::OkStatus();
  // Other ranks may have started what was due before this call, so this one must.
  while (next_gather_ < schedule_->gather_count() &&
         schedule_->Gather(next_gather_).begin() < Now()) {
    if (places_.fixed() && !IsFree(schedule_->Gather(next_gather_))) break;
    WEFT_RETURN_IF_ERROR(StartNext());
  }
  schedule_ = nullptr;
  return absl::OkStatus();
}

int64_t UnshardManager::Now() const {
  return 2 * static_cast<int64_t>(events_.size()) - (served_ ? 1 : 2);
}

absl::Status UnshardManager::OnServed() {
  served_ = true;
  pool_.ReleaseGivenBack();
  return Poll();
}

absl::Status UnshardManager::Poll() {
  FreeReduced();
  WEFT_RETURN_IF_ERROR(StartGathers().status());
  while (schedule_ != nullptr && next_gather_ < schedule_->gather_count()) {
    const Occurrence next = schedule_->Gather(next_gather_);
    if (next.begin() > Now() || !IsFree(next)) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(StartNext());
  }
  return absl::OkStatus();
}

Works UnshardManager::Before(const Occurrence& residency) const {
  for (size_t i = 0; i < residency.after_count(); ++i) {
    const size_t before = residency.after(i);
    if (reduced_[before]) continue;
    const int bucket = schedule_->Gradient(before).index();
    const BucketState& state = buckets_[static_cast<size_t>(bucket)];
    if (state.reducing && state.residency == static_cast<int>(before)) return WorksLeft(bucket);
  }
  return {};
}

// What to wait for before the bucket's place can be free: its works, those of the bucket before it if its own
// have ended and it goes on behind that. Ended ones if the next thing is the caller's to do: to free the
// place, or to start the next link.
Works UnshardManager::WorksLeft(int bucket) const {
  const BucketState& state = buckets_[static_cast<size_t>(bucket)];
  Works left = NotEnded(state.works);
  if (!left.empty()) return left;
  for (const int other : reducing_) {
    if (other == bucket || !state.goes_on) break;
    left = NotEnded(buckets_[static_cast<size_t>(other)].works);
    if (!left.empty()) return left;
  }
  return state.works;
}

bool UnshardManager::IsFree(const Occurrence& gather) const {
  return places_.fixed() ? places_.IsFree(gather.index())
                         : pool_.IsFree(gather.offset(), gather.bytes());
}

absl::StatusOr<std::byte*> UnshardManager::TakePlace(int unit, const size_t* offset) {
  const size_t bytes = layout_.units[static_cast<size_t>(unit)].bytes;
  std::byte* const destination = units_[static_cast<size_t>(unit)].destination;
  std::byte* const fixed = places_.fixed() ? places_.Take(unit) : nullptr;
  if (destination != nullptr) return destination;
  if (fixed != nullptr) return fixed;
  return offset == nullptr ? pool_.Take(bytes) : pool_.TakeNear(*offset, bytes);
}

// A schedule never comes to this; should it, it has lost what it counted on.
absl::StatusOr<Works> UnshardManager::MakeWay(int unit) {
  if (!places_.fixed()) return Works();
  WEFT_ASSIGN_OR_RETURN(const std::vector<int> others, places_.InTheWay(unit));
  WEFT_RETURN_IF_ERROR(StartGathers().status());
  for (const int other : others) {
    Unit& state = units_[static_cast<size_t>(other)];
    if (gathers_.Has(other)) return Works{gathers_.first()};
    if (!state.works.empty()) return std::exchange(state.works, {});
    schedule_ = nullptr;
    Free(other);
  }
  return Works();
}

absl::Status UnshardManager::StartNext() {
  const Occurrence next = schedule_->Gather(next_gather_);
  const size_t offset = next.offset();
  WEFT_ASSIGN_OR_RETURN(std::byte* const data, TakePlace(next.index(), &offset));
  units_[static_cast<size_t>(next.index())].residency = static_cast<int>(next_gather_);
  ++next_gather_;
  return StartGather(next.index(), data);
}

absl::Status UnshardManager::StartGather(int unit, std::byte* data) {
  Unit& state = units_[static_cast<size_t>(unit)];
  state.data = data;
  gathered_bytes_ += layout_.units[static_cast<size_t>(unit)].bytes;
  gathers_.Add(unit, data, state.part);
  return StartGathers().status();
}

absl::StatusOr<bool> UnshardManager::StartGathers() {
  return gathers_.StartReady(
      [this](int unit) -> Works& { return units_[static_cast<size_t>(unit)].works; });
}

absl::StatusOr<Works> UnshardManager::Need(int unit) {
  Unit& state = units_[static_cast<size_t>(unit)];
  Works updates = updates_.TakeFor(unit);
  if (!updates.empty()) return updates;
  WEFT_ASSIGN_OR_RETURN(Works before, Begin(unit));
  if (!before.empty()) return before;
  WEFT_RETURN_IF_ERROR(StartGathers().status());
  if (gathers_.Has(unit)) return Works{gathers_.first()};
  if (!state.works.empty() && EndedWell(state.works)) state.spent.swap(state.works);
  if (state.works.empty() && state.part != nullptr) GiveBack(pool_, state.part);
  Works works = std::exchange(state.works, {});
  if (!works.empty() || state.destination == nullptr) return works;
  if (!state.delivered && state.data != state.destination) {
    std::memcpy(state.destination, state.data, layout_.units[static_cast<size_t>(unit)].bytes);
  }
  state.delivered = true;
  return works;
}

absl::StatusOr<Works> UnshardManager::Begin(int unit) {
  Unit& state = units_[static_cast<size_t>(unit)];
  if (!Sharded(unit)) return Works();
  FreeReduced();
  while (state.data == nullptr && schedule_ != nullptr) {
    WEFT_CHECK(next_gather_ < schedule_->gather_count());
    const Occurrence next = schedule_->Gather(next_gather_);
    WEFT_ASSIGN_OR_RETURN(Works way, MakeWay(next.index()));
    if (!way.empty()) return way;
    if (schedule_ == nullptr) break;
    Works before = Before(next);
    if (!before.empty()) return before;
    WEFT_RETURN_IF_ERROR(StartNext());
  }
  if (state.data == nullptr) {
    WEFT_ASSIGN_OR_RETURN(Works before, MakeWay(unit));
    if (before.empty() && !places_.fixed() && state.destination == nullptr) {
      before = RoomFor(layout_.units[static_cast<size_t>(unit)].bytes);
    }
    if (!before.empty()) return before;
    WEFT_ASSIGN_OR_RETURN(std::byte* const data, TakePlace(unit, nullptr));
    WEFT_RETURN_IF_ERROR(StartGather(unit, data));
  }
  places_.Tell(unit);
  return Works();
}

absl::Status UnshardManager::Reshard(int unit, bool in_backward) {
  Unit& state = units_[static_cast<size_t>(unit)];
  if (!Sharded(unit) || state.data == nullptr) return absl::OkStatus();
  if (schedule_ != nullptr && state.residency >= 0) {
    const Occurrence residency = schedule_->Gather(static_cast<size_t>(state.residency));
    if (residency.end() > Now()) return absl::OkStatus();
    if (residency.part() >= 0) WEFT_RETURN_IF_ERROR(KeepPart(unit));
  } else if (!in_backward && train_ && specs_[static_cast<size_t>(unit)].placement.kept_between) {
    return absl::OkStatus();
  }
  Free(unit);
  return absl::OkStatus();
}

absl::Status UnshardManager::TakeBack(int index) {
  Unit& unit = units_[static_cast<size_t>(index)];
  if (unit.destination != nullptr && unit.data == unit.destination) {
    // Without a place the params stay where they are, in memory that is not the pool's.
    const size_t bytes = layout_.units[static_cast<size_t>(index)].bytes;
    std::byte* place = nullptr;
    if (places_.fixed()) {
      place = places_.AddressOf(index);
    } else if (schedule_ != nullptr && unit.residency >= 0) {
      const size_t offset = schedule_->Gather(static_cast<size_t>(unit.residency)).offset();
      WEFT_ASSIGN_OR_RETURN(place, pool_.TakeNear(offset, bytes));
    } else {
      WEFT_ASSIGN_OR_RETURN(place, pool_.Take(bytes));
    }
    std::memcpy(place, unit.data, bytes);
    unit.data = place;
  }
  unit.destination = nullptr;
  unit.delivered = false;
  return absl::OkStatus();
}

void UnshardManager::ReshardIdle() {
  if (schedule_ != nullptr) return;
  for (size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = units_[i];
    const bool under_way = !unit.works.empty() || gathers_.Has(static_cast<int>(i));
    if (unit.data != nullptr && !under_way) Free(static_cast<int>(i));
    if (unit.data == nullptr && unit.part != nullptr) GiveBack(pool_, unit.part);
  }
}

// Memory of the caller's is left as it is.
void UnshardManager::Free(int index) {
  Unit& unit = units_[static_cast<size_t>(index)];
  WEFT_CHECK(unit.works.empty() && !gathers_.Has(index));
  const bool own = unit.data != unit.destination;
  if (places_.fixed()) {
    places_.GiveBack(index, own);
  } else if (own) {
    pool_.GiveBack(unit.data);
  }
  unit = {.part = unit.part};
}

absl::Status UnshardManager::KeepPart(int index) {
  Unit& unit = units_[static_cast<size_t>(index)];
  const Pack& pack = layout_.parts[static_cast<size_t>(index)];
  const int at = schedule_->Gather(static_cast<size_t>(unit.residency)).part();
  const Residency& residency = schedule_->parts[static_cast<size_t>(at)];
  WEFT_ASSIGN_OR_RETURN(unit.part, pool_.TakeNear(residency.offset, residency.bytes));
  for (size_t i = 0; i < pack.extents.size(); ++i) {
    const Extent& extent = layout_.extents[static_cast<size_t>(pack.extents[i])];
    const size_t size = DtypeSize(layout_.SpaceOf(extent).dtype);
    const std::byte* const whole = unit.data + layout_.units[static_cast<size_t>(index)].offsets[i];
    std::memcpy(unit.part + pack.offsets[i], whole + layout_.InnerFirst(extent) * size,
                layout_.InnerCount(extent) * size);
  }
  return absl::OkStatus();
}

absl::StatusOr<Works> UnshardManager::NeedGradients(int bucket, bool* fresh) {
  *fresh = false;
  BucketState& state = buckets_[static_cast<size_t>(bucket)];
  FreeReduced();
  if (state.reducing) return WorksLeft(bucket);
  if (state.data != nullptr) return Works();
  if (schedule_ != nullptr && next_gradients_ < schedule_->gradient_count()) {
    Works before = Before(schedule_->Gradient(next_gradients_));
    if (!before.empty()) return before;
  } else {
    Works before = RoomFor(layout_.buckets[static_cast<size_t>(bucket)].pack.bytes);
    if (!before.empty()) return before;
  }
  WEFT_RETURN_IF_ERROR(PlaceNextGradients(bucket));
  *fresh = true;
  return Works();
}

Works UnshardManager::NeedUntouched() {
  FreeReduced();
  if (schedule_ == nullptr) return {};
  for (size_t i = next_gradients_; i < schedule_->gradient_count(); ++i) {
    const Occurrence residency = schedule_->Gradient(i);
    if (static_cast<size_t>(residency.need()) + 1 != events_.size()) break;
    Works before = Before(residency);
    if (!before.empty()) return before;
  }
  return {};
}

// Near the offset of the schedule if the bucket is the one that it expects.
absl::Status UnshardManager::PlaceNextGradients(int bucket) {
  BucketState& state = buckets_[static_cast<size_t>(bucket)];
  const size_t bytes = layout_.buckets[static_cast<size_t>(bucket)].pack.bytes;
  const bool expected = schedule_ != nullptr && next_gradients_ < schedule_->gradient_count() &&
                        schedule_->Gradient(next_gradients_).index() == bucket;
  if (!expected) {
    WEFT_ASSIGN_OR_RETURN(state.data, pool_.Take(bytes));
    return absl::OkStatus();
  }
  state.residency = static_cast<int>(next_gradients_++);
  const size_t offset = schedule_->Gradient(static_cast<size_t>(state.residency)).offset();
  WEFT_ASSIGN_OR_RETURN(state.data, pool_.TakeNear(offset, bytes));
  return absl::OkStatus();
}

absl::StatusOr<bool> UnshardManager::PlaceGradients(int bucket) {
  FreeReduced();
  if (buckets_[static_cast<size_t>(bucket)].data != nullptr) return false;
  WEFT_RETURN_IF_ERROR(PlaceNextGradients(bucket));
  return true;
}

void UnshardManager::ReductionStarted(int bucket, Works works, bool goes_on) {
  BucketState& state = buckets_[static_cast<size_t>(bucket)];
  if (!state.reducing) reducing_.push_back(bucket);
  state.reducing = true;
  state.goes_on = goes_on;
  state.works = std::move(works);
}

void UnshardManager::ReductionEnded(int bucket) {
  buckets_[static_cast<size_t>(bucket)].goes_on = false;
  FreeReduced();
}

// A rank that lacks a gradient starts the reduction of its bucket with post_backward, which may come after this call: until
// then it cannot be waited for.
Works UnshardManager::RoomFor(size_t bytes) const {
  if (pool_.HasRoom(bytes) || reducing_.empty()) return {};
  const std::vector<int>& units = layout_.buckets[static_cast<size_t>(reducing_.front())].units;
  const bool everywhere = std::none_of(units.begin(), units.end(),
                                       [&](int unit) { return tracker_.Of(unit).InBackward(); });
  return everywhere ? WorksLeft(reducing_.front()) : Works();
}

void UnshardManager::FreeReduced() {
  const auto ended = [&](int bucket) {
    BucketState& state = buckets_[static_cast<size_t>(bucket)];
    if (state.goes_on || !NotEnded(state.works).empty()) return false;
    pool_.GiveBack(state.data);
    if (state.residency >= 0 && !reduced_.empty())
      reduced_[static_cast<size_t>(state.residency)] = true;
    state = {};
    return true;
  };
  std::erase_if(reducing_, ended);
}

Works UnshardManager::UnderWay() const {
  Works works;
  const auto add = [&](const Works& more) {
    works.insert(works.end(), more.begin(), more.end());
  };
  for (const Unit& unit : units_)
    add(unit.works);
  for (const BucketState& bucket : buckets_)
    add(bucket.works);
  updates_.AddUnderWay(works);
  return works;
}

void UnshardManager::Drop() {
  gathers_.Drop();
  for (size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = units_[i];
    unit.works.clear();
    if (unit.data != nullptr) Free(static_cast<int>(i));
    if (unit.part != nullptr) GiveBack(pool_, unit.part);
  }
  for (BucketState& bucket : buckets_) {
    if (bucket.data != nullptr) pool_.GiveBack(bucket.data);
    bucket = {};
  }
  updates_.Drop();
  pool_.ReleaseGivenBack();
  reducing_.clear();
}

std::byte* UnshardManager::UnitExtent(int unit, int extent) const {
  const auto index = static_cast<size_t>(unit);
  const Unit& state = units_[index];
  return ExtentIn(layout_.units[index], state.delivered ? state.destination : state.data, extent);
}

std::byte* UnshardManager::BucketExtent(int bucket, int extent) const {
  const auto index = static_cast<size_t>(bucket);
  return ExtentIn(layout_.buckets[index].pack, buckets_[index].data, extent);
}

}  // namespace weft
