// Moving places are found for residencies, one by one; these for units, all residencies of which must fit. So what counts is which
// units ever meet, and once that is known time plays no part any more.
#include "shard/step/fixed_places.h"

#include <algorithm>
#include <numeric>

#include "shard/step/schedule.h"

namespace weft {
namespace {

// Which units are ever unsharded at the same time.
class Meetings {
 public:
  explicit Meetings(const std::vector<Residency>& gathers) {
    std::vector<size_t> by_begin(gathers.size());
    std::iota(by_begin.begin(), by_begin.end(), size_t{0});
    std::stable_sort(by_begin.begin(), by_begin.end(),
                     [&](size_t a, size_t b) { return gathers[a].begin < gathers[b].begin; });
    for (const Residency& one : gathers) {
      const auto unit = static_cast<size_t>(one.index);
      if (unit >= bytes_.size()) bytes_.resize(unit + 1, 0);
      if (bytes_[unit] == 0) first_used_.push_back(unit);
      bytes_[unit] = one.bytes;
    }
    meets_.resize(bytes_.size(), std::vector<bool>(bytes_.size(), false));
    std::vector<size_t> alive;
    for (const size_t index : by_begin) {
      const Residency& one = gathers[index];
      std::erase_if(alive, [&](size_t other) { return gathers[other].end < one.begin; });
      for (const size_t other : alive)
        Meet(static_cast<size_t>(one.index), static_cast<size_t>(gathers[other].index));
      alive.push_back(index);
    }
  }

  // Units in the order of their first use.
  const std::vector<size_t>& first_used() const { return first_used_; }

  size_t unit_count() const { return bytes_.size(); }

  size_t BytesOf(size_t unit) const { return bytes_[unit]; }

  bool AreTogether(size_t a, size_t b) const { return meets_[a][b]; }

 private:
  void Meet(size_t a, size_t b) {
    meets_[a][b] = true;
    meets_[b][a] = true;
  }

  std::vector<size_t> bytes_;  // by unit
  std::vector<size_t> first_used_;
  std::vector<std::vector<bool>> meets_;
};

// By unit: each at the lowest offset that is free of all before it that it meets.
FixedPlaces PlaceInOrder(const Meetings& meetings, const std::vector<size_t>& order) {
  FixedPlaces places{.offsets = std::vector<size_t>(meetings.unit_count(), FixedPlaces::kNowhere)};
  const auto& offsets = places.offsets;
  std::vector<size_t> placed;  // by offset
  for (const size_t unit : order) {
    const size_t bytes = meetings.BytesOf(unit);
    size_t offset = 0;
    for (const size_t other : placed) {
      if (!meetings.AreTogether(unit, other)) continue;
      if (offset + bytes <= offsets[other]) break;
      offset = std::max(offset, offsets[other] + meetings.BytesOf(other));
    }
    places.offsets[unit] = offset;
    places.bytes = std::max(places.bytes, offset + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), unit,
                                   [&](size_t a, size_t b) { return offsets[a] < offsets[b]; }),
                  unit);
  }
  return places;
}

}  // namespace

FixedPlaces PlacesApart(const Layout& layout) {
  FixedPlaces places;
  for (const Pack& unit : layout.units) {
    places.offsets.push_back(unit.bytes == 0 ? FixedPlaces::kNowhere : places.bytes);
    places.bytes += unit.bytes;
  }
  return places;
}

size_t ShareFixedPlaces(std::vector<Residency>& gathers) {
  const Meetings meetings(gathers);
  std::vector<size_t> order = meetings.first_used();
  const FixedPlaces in_turn = PlaceInOrder(meetings, order);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return meetings.BytesOf(a) > meetings.BytesOf(b); });
  const FixedPlaces largest_first = PlaceInOrder(meetings, order);
  const FixedPlaces& places = largest_first.bytes < in_turn.bytes ? largest_first : in_turn;
  for (Residency& one : gathers)
    one.offset = places.offsets[static_cast<size_t>(one.index)];
  return places.bytes;
}

FixedPlaces PlacesOf(const Schedule& schedule, const Layout& layout) {
  FixedPlaces places{.offsets = std::vector<size_t>(layout.units.size(), FixedPlaces::kNowhere),
                     .bytes = schedule.fixed_bytes};
  for (const Residency& gather : schedule.gathers)
    places.offsets[static_cast<size_t>(gather.index)] = gather.offset;
  for (size_t unit = 0; unit < layout.units.size(); ++unit) {
    if (layout.units[unit].bytes == 0 || places.offsets[unit] != FixedPlaces::kNowhere) continue;
    places.offsets[unit] = places.bytes;
    places.bytes += layout.units[unit].bytes;
  }
  return places;
}

}  // namespace weft
