// Blocks never move and are never given up, because addresses in them have been told. So the offsets that schedules compare are those of
// an endless line of blocks, to which only more can be added.
#include "shard/step/unit_places.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {

UnitPlaces::UnitPlaces(const Layout& layout, const std::vector<UnitSpec>& units,
                       const UnitTracker& tracker)
    : layout_(layout), specs_(units), tracker_(tracker), told_(units.size(), false) {}

absl::Status UnitPlaces::Fix(FixedPlaces planned, const BlockSource& source) {
  absl::StatusOr<Block> block = Block::Allocate(source, WEFT_SHARD_TIER_POOL, planned.bytes);
  if (!block.ok()) {
    return Annotate(block.status(), StrCat("allocating ", planned.bytes,
                                           " bytes for the stable places of parameters: "));
  }
  source_ = source;
  planned_ = *std::move(block);
  if (source.poison && planned.bytes > 0) std::memset(planned_.data(), 0xff, planned.bytes);
  places_ = std::move(planned);
  fixed_ = true;
  return absl::OkStatus();
}

int UnitPlaces::InUse(size_t begin, size_t end) const {
  for (const int other : present_) {
    if (Overlap(begin, end, other) && tracker_.Of(other).Kept()) return other;
  }
  return -1;
}

absl::Status UnitPlaces::Check(const char* call, int unit) const {
  if (!fixed_ || BytesOf(unit) == 0 || !told_[static_cast<size_t>(unit)]) return absl::OkStatus();
  const int other = InUse(OffsetOf(unit), OffsetOf(unit) + BytesOf(unit));
  return other < 0 || other == unit ? absl::OkStatus() : Refuse(call, unit, other);
}

absl::Status UnitPlaces::Refuse(const char* call, int unit, int other) const {
  const std::string& name = specs_[static_cast<size_t>(unit)].name;
  const std::string& there = specs_[static_cast<size_t>(other)].name;
  return WithSubject(
      MakeError(
          WEFT_BAD_STATE, {.operation = call},
          StrCat(call, " ", name, " is not legal here: unit ", there,
                 " is in use, and it has the place of unit ", name,
                 ", as the planned steps never have both unsharded; end the use of unit ", there,
                 " first, or set stable_views of the context's config to "
                 "WEFT_SHARD_VIEWS_APART, which gives each unit a place of its own")),
      name, {});
}

bool UnitPlaces::IsFree(int unit) const {
  const size_t begin = OffsetOf(unit);
  return std::none_of(present_.begin(), present_.end(),
                      [&](int other) { return Overlap(begin, begin + BytesOf(unit), other); });
}

absl::StatusOr<std::vector<int>> UnitPlaces::InTheWay(int unit) {
  const int other = InUse(OffsetOf(unit), OffsetOf(unit) + BytesOf(unit));
  if (other >= 0 && told_[static_cast<size_t>(unit)]) return Refuse("unshard", unit, other);
  if (other >= 0) WEFT_RETURN_IF_ERROR(Move(unit));
  const size_t begin = OffsetOf(unit);
  std::vector<int> idle;
  for (const int there : present_) {
    if (Overlap(begin, begin + BytesOf(unit), there)) idle.push_back(there);
  }
  return idle;
}

absl::Status UnitPlaces::Move(int unit) {
  const size_t bytes = BytesOf(unit);
  size_t& offset = places_.offsets[static_cast<size_t>(unit)];
  moved_.push_back(unit);
  for (const Added& added : added_) {
    if (added.block.bytes() < bytes || InUse(added.offset, added.offset + bytes) >= 0) continue;
    offset = added.offset;
    return absl::OkStatus();
  }
  absl::StatusOr<Block> block = Block::Allocate(source_, WEFT_SHARD_TIER_POOL, bytes);
  if (!block.ok()) {
    return Annotate(block.status(),
                    StrCat("allocating ", bytes, " bytes outside the plan, as unit ",
                           specs_[static_cast<size_t>(unit)].name,
                           " is used together with one that has its place: "));
  }
  if (source_.poison) std::memset(block->data(), 0xff, bytes);
  offset = places_.bytes;
  places_.bytes += bytes;
  added_.push_back({offset, *std::move(block)});
  return absl::OkStatus();
}

std::byte* UnitPlaces::AddressOf(int unit) const {
  const size_t offset = OffsetOf(unit);
  if (offset < planned_.bytes()) return planned_.data() + offset;
  const auto found = std::find_if(added_.begin(), added_.end(),
                                  [&](const Added& added) { return added.offset == offset; });
  WEFT_CHECK(found != added_.end());
  return found->block.data();
}

std::byte* UnitPlaces::Take(int unit) {
  WEFT_CHECK(IsFree(unit));
  present_.push_back(unit);
  return AddressOf(unit);
}

void UnitPlaces::GiveBack(int unit, bool written) {
  if (written && source_.poison) std::memset(AddressOf(unit), 0xff, BytesOf(unit));
  std::erase(present_, unit);
}

}  // namespace weft
