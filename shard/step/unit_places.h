// Which place each unit's params have whenever they are unsharded, if views are to stay where they are, and who is there now.
//
//   WEFT_RETURN_IF_ERROR(places.Fix(planned, source));             // finalize
//   WEFT_RETURN_IF_ERROR(places.Check("pre_forward", unit));       // before anything is done for the call
//   WEFT_ASSIGN_OR_RETURN(const std::vector<int> others, places.InTheWay(unit));
//   (reshard these)
//   std::byte* const data = places.Take(unit);
//   places.Tell(unit);                                             // from here on its address may be known
//   places.GiveBack(unit, /*written=*/true);
//
// Units share places that the plan never has unsharded together. A step may do so all the same. A unit that nobody has been told the
// address of then gets a place in a block beside; one that has an address must wait until the use of the other one ends,
// and Check refuses the call. All of this follows from the calls of a step alone, so all ranks decide the same.
//
// With BlockSource::poison all places that are not taken hold 0xff.
//
// Thread-safety: none of its own; the context's mutex guards it.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/layout/block.h"
#include "shard/layout/layout.h"
#include "shard/layout/registry.h"
#include "shard/step/fixed_places.h"
#include "shard/step/unit_tracker.h"

namespace weft {

class UnitPlaces {
 public:
  // All outlive this.
  UnitPlaces(const Layout& layout, const std::vector<UnitSpec>& units, const UnitTracker& tracker);
  UnitPlaces(const UnitPlaces&) = delete;
  UnitPlaces& operator=(const UnitPlaces&) = delete;

  // From here on units have these places, in memory that stays until this is destroyed. OUT_OF_MEMORY leaves all as it was.
  absl::Status Fix(FixedPlaces planned, const BlockSource& source);

  bool fixed() const { return fixed_; }

  // As schedules have to keep to them; nullptr if they are not fixed.
  const FixedPlaces* places() const { return fixed_ ? &places_ : nullptr; }

  // Units that have got another place than the planned one, in this order.
  const std::vector<int>& moved() const { return moved_; }

  // Ok, or BAD_STATE naming who is in use at the place of the unit, for which `call` asks.
  absl::Status Check(const char* call, int unit) const;
  // Nobody is at the unit's place.
  bool IsFree(int unit) const;
  // Units at its place that nothing keeps unsharded. Gives the unit another place if one of them is in use and it has not been told
  // its address. Errors: BAD_STATE as Check, OUT_OF_MEMORY.
  absl::StatusOr<std::vector<int>> InTheWay(int unit);

  // The place must be free.
  std::byte* Take(int unit);
  std::byte* AddressOf(int unit) const;

  // The program knows the unit's address.
  void Tell(int unit) { told_[static_cast<size_t>(unit)] = true; }

  // `written`: params were there.
  void GiveBack(int unit, bool written);

  // Of all blocks; and of the one that Fix has made.
  size_t bytes() const { return places_.bytes; }

  size_t planned_bytes() const { return planned_.bytes(); }

 private:
  struct Added {
    size_t offset = 0;
    Block block;
  };

  size_t BytesOf(int unit) const { return layout_.units[static_cast<size_t>(unit)].bytes; }

  size_t OffsetOf(int unit) const { return places_.offsets[static_cast<size_t>(unit)]; }

  bool Overlap(size_t begin, size_t end, int unit) const {
    return OffsetOf(unit) < end && begin < OffsetOf(unit) + BytesOf(unit);
  }

  // Who is in use in [begin, end), -1 if nobody is.
  int InUse(size_t begin, size_t end) const;
  // Gives the unit a place beside, where nobody is in use.
  absl::Status Move(int unit);
  absl::Status Refuse(const char* call, int unit, int other) const;

  const Layout& layout_;
  const std::vector<UnitSpec>& specs_;
  const UnitTracker& tracker_;
  bool fixed_ = false;
  BlockSource source_;
  FixedPlaces places_;
  Block planned_;             // offsets from 0 on
  std::vector<Added> added_;  // behind it
  std::vector<bool> told_;    // by unit
  std::vector<int> present_;  // units, in the order in which they came
  std::vector<int> moved_;
};

}  // namespace weft
