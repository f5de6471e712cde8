// Which units' params and which buckets' gradients are unsharded just now, where, and what is on its way.
//
//   unshard_manager.BeginStep(schedule, /*train=*/true);
//   WEFT_RETURN_IF_ERROR(unshard_manager.OnCall({Event::Kind::kPreForward, unit}));
//   for (;;) {
//     WEFT_ASSIGN_OR_RETURN(const Works works, unshard_manager.Need(unit));
//     if (works.empty()) break;
//     (wait for them without the mutex)
//   }
//   WEFT_RETURN_IF_ERROR(unshard_manager.OnServed());
//   ... unshard_manager.Param(unit) ...
//   unshard_manager.Reshard(unit);
//
// As long as a step makes the calls of its schedule, gathers start when the schedule says and lie where it
// says. A step that leaves it, or has none, is served on demand: each unit is gathered when it is needed and
// resharded after its use, at the lowest free place. Gathers that were started stay, so ranks that leave the
// schedule at the same call still agree on all operations of the group.
//
// A part that does not rest in memory is read to where it lies in the gathered unit first (unit_gathers.h); the gather starts when it has come
// and those before it have started, by whichever call or completing thread finds that out.
//
// If places of params are fixed (unit_places.h), what is there and not in use makes way on demand; gradients and HPZ's parts have the pool to
// themselves. A unit may also be gathered to memory of the caller's (Aim): which place it would have, and who makes way for it, stays as if it
// had been gathered there, because other ranks may do so.
//
// Gathers start in one order on all ranks, on a group of their own, so that they and the reductions do not
// wait for each other.
//
// Thread-safety: none of its own; the context's mutex guards it. Never waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "shard/layout/layout.h"
#include "shard/layout/pool.h"
#include "shard/step/schedule.h"
#include "shard/step/unit_gathers.h"
#include "shard/step/unit_places.h"
#include "shard/step/unit_tracker.h"
#include "shard/step/update_gathers.h"

namespace weft {

// Those of `works` that have not ended.
Works NotEnded(const Works& works);

class UnshardManager {
 public:
  // All outlive this.
  UnshardManager(const Layout& layout, const std::vector<UnitSpec>& units,
                 const UnitTracker& tracker, UnitGathers& gathers, UpdateGathers& updates,
                 UnitPlaces& places);
  UnshardManager(const UnshardManager&) = delete;
  UnshardManager& operator=(const UnshardManager&) = delete;

  // Makes room for a schedule, between steps.
  absl::Status Reserve(size_t bytes) { return pool_.Reserve(bytes); }

  void SetSource(const BlockSource& source) { pool_.SetSource(source); }

  // `schedule` outlives the step; nullptr: serve on demand.
  void BeginStep(const Schedule* schedule, bool train);
  // A legal call, before it is served. One that the schedule does not have ends it; what was due before is
  // started all the same.
  absl::Status OnCall(const Event& event);
  // The call is served: starts what its schedule prefetches now.
  absl::Status OnServed();
  // Frees what has been reduced, and starts what is due and has its place.
  absl::Status Poll();

  // The unit's params are to be at `destination` until TakeBack: gathered there, or copied if they are unsharded already.
  void Aim(int unit, std::byte* destination) {
    units_[static_cast<size_t>(unit)].destination = destination;
  }

  // Nothing is left at the destination that Aim has set, if it has: what goes on being unsharded moves to its own place.
  absl::Status TakeBack(int unit);

  // Starts to unshard the unit's params. Empty if that is under way or done; else what to wait for before
  // asking again.
  absl::StatusOr<Works> Begin(int unit);
  // Empty if the unit's params are unsharded; else what to wait for before asking again.
  absl::StatusOr<Works> Need(int unit);
  // The unit's params are no longer used; their memory goes unless the schedule keeps it. `in_backward`: since
  // post_backward, else post_forward.
  absl::Status Reshard(int unit, bool in_backward);
  // The micro-batch ends: without a schedule nothing stays unsharded that is not in use.
  void ReshardIdle();

  bool GradientsAreSharded(int bucket) const { return PlacementOf(bucket).gradients_sharded; }

  // What to wait for before a bucket's gradients, which are sharded at rest, have their place. *fresh is set to true if
  // they have just got it and have to be zeroed.
  absl::StatusOr<Works> NeedGradients(int bucket, bool* fresh);
  // What to wait for before the buckets have places that, by the schedule, only the end of the micro-batch needs, which is
  // being served. The places are not taken yet.
  Works NeedUntouched();
  // Gives a bucket that nothing needed a place at once; true if it had none.
  absl::StatusOr<bool> PlaceGradients(int bucket);
  // The reduction that ends the residency of a bucket's gradients. `goes_on`: more comes after these works;
  // then it is started again with what comes, and ended by ReductionEnded.
  void ReductionStarted(int bucket, Works works, bool goes_on = false);
  void ReductionEnded(int bucket);

  // Starts the gathers whose parts have come. False if others still wait for theirs (UnitGathers::first()).
  absl::StatusOr<bool> StartGathers();

  // What is under way, gathers of updated params included, to be waited for; Drop() then frees everything.
  Works UnderWay() const;
  void Drop();

  // First byte of a bucket's gradients; nullptr if they are sharded.
  std::byte* BucketData(int bucket) const { return buckets_[static_cast<size_t>(bucket)].data; }

  // First byte of an extent of an unsharded unit or bucket; nullptr if that is sharded.
  std::byte* UnitExtent(int unit, int extent) const;
  std::byte* BucketExtent(int bucket, int extent) const;

  // The calls of the present step so far.
  const std::vector<Event>& events() const { return events_; }

  bool on_schedule() const { return schedule_ != nullptr; }

  // For the present step; the gathers after the update before it are included.
  uint64_t gathered_bytes() const { return gathered_bytes_; }

  size_t pool_bytes() const { return pool_.bytes() + places_.bytes(); }

  // The most bytes that the present step has had beside the pool.
  size_t spilled_bytes_max() const { return pool_.spilled_bytes_max(); }

 private:
  struct Unit {
    std::byte* data = nullptr;  // nullptr: sharded
    // The caller's, else nullptr; `data` too if it was gathered there. `delivered`: the params are there.
    std::byte* destination = nullptr;
    bool delivered = false;
    Works works;  // of its gather; empty when it has been waited for
    Works spent;  // these then, if nothing was to be waited for; not the caller's time to free
    int residency = -1;         // of the schedule
    std::byte* part = nullptr;  // HPZ: what is kept of it
  };

  struct BucketState {
    std::byte* data = nullptr;  // of its gradients, if these are sharded
    bool reducing = false;
    bool goes_on = false;  // not over when its works are
    Works works;           // of its reduction
    int residency = -1;
  };

  int64_t Now() const;

  const Placement& PlacementOf(int bucket) const {
    return layout_.PlacementOf(layout_.buckets[static_cast<size_t>(bucket)]);
  }

  bool Sharded(int unit) const { return layout_.units[static_cast<size_t>(unit)].bytes > 0; }

  // Reductions under way of what stood at the place before.
  Works Before(const Occurrence& residency) const;
  // Nothing is at the place where the schedule has the gather.
  bool IsFree(const Occurrence& gather) const;
  // Starts the schedule's next gather.
  absl::Status StartNext();
  // Where the unit is gathered to, at `offset` of the pool if places are not fixed, where there is room if it is nullptr.
  absl::StatusOr<std::byte*> TakePlace(int unit, const size_t* offset);
  // Reshards what is at the unit's fixed place; what to wait for first.
  absl::StatusOr<Works> MakeWay(int unit);
  absl::Status PlaceNextGradients(int bucket);
  absl::Status StartGather(int unit, std::byte* data);
  void FreeReduced();
  // Without a schedule: the reductions to wait for before so much is taken; empty if there is room, or none is to be had.
  Works RoomFor(size_t bytes) const;
  Works WorksLeft(int bucket) const;
  void Free(int unit);
  // HPZ: keeps this rank's part of a unit that is about to be resharded.
  absl::Status KeepPart(int unit);

  const Layout& layout_;
  const std::vector<UnitSpec>& specs_;
  const UnitTracker& tracker_;
  UnitGathers& gathers_;
  UpdateGathers& updates_;
  UnitPlaces& places_;
  Pool pool_;
  std::vector<Unit> units_;
  std::vector<BucketState> buckets_;
  std::vector<int> reducing_;  // buckets, oldest first
  std::vector<bool> reduced_;  // by residency of gradients
  const Schedule* schedule_ = nullptr;
  bool train_ = true;
  std::vector<Event> events_;
  bool served_ = false;        // the last of events_
  size_t next_gather_ = 0;     // of the schedule
  size_t next_gradients_ = 0;  // of the schedule
  uint64_t gathered_bytes_ = 0;
};

}  // namespace weft
