// What a context will do and need, worked out before anything of it exists: the layout, the schedules that its
// first steps will follow, and the numbers of weft_shard_plan_t.
//
//   WEFT_ASSIGN_OR_RETURN(const ContextPlan plan, MakePlan(input));
//   plan.numbers.peak_bytes; plan.layout; plan.expected[WEFT_SHARD_TRAIN]
//
// finalize allocates by it, so what a plan says without peers is what finalize says with them. It is made from
// declarations and options alone; nothing that is as large as the model is allocated.
//
// Thread-safety: values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "weft/shard.h"

#include "absl/status/statusor.h"
#include "shard/layout/layout.h"
#include "shard/layout/registry.h"
#include "shard/layout/storage.h"
#include "shard/offload/offloaded_state.h"
#include "shard/optimizer/param_groups.h"
#include "shard/step/fixed_places.h"
#include "shard/step/prediction.h"
#include "shard/step/schedule.h"

namespace weft {

struct PlanInput {
  const Registry* registry = nullptr;
  // Units as forward uses them, or the runs of a training step's micro-batch. nullptr, both: as declared.
  const std::vector<int>* order = nullptr;
  const std::vector<UnitRun>* runs = nullptr;
  std::span<const OptimizerGroup> groups;  // of its optimizer; empty: it has none
  Member member;                           // of all ranks
  Member inner;                            // of those along the mesh's last axis
  BucketLimits limits;
  Accumulate accumulate = Accumulate::kNothing;
  bool overlap = true;
  int prefetch = 1;
  size_t budget_bytes = 0;  // of the pool; 0: none
  int microbatches = 1;
  weft_shard_views_t views = WEFT_SHARD_VIEWS_MOVE;
  size_t offload_buffer_bytes = 0;  // 0: optimizer state stays in memory
  bool offload_params = false;      // those that are sharded at rest are offloaded with it

  bool reduces_every() const { return accumulate != Accumulate::kNothing; }
};

// Bytes that a rank sends per step.
struct SentBytes {
  uint64_t gathered = 0;
  uint64_t reduced = 0;

  uint64_t total() const { return gathered + reduced; }
};

struct Traffic {
  SentBytes all;          // among all ranks
  SentBytes inner;        // along the mesh's last axis
  SentBytes outer;        // among the ranks with the same place on it
  uint64_t gathered = 0;  // params as they are unsharded
};

struct ContextPlan {
  Layout layout;
  std::array<Schedule, 2> expected;  // by mode; empty if nothing is cut
  FixedPlaces places;                // of params; empty if views move
  size_t moving_bytes = 0;           // of the pool, for all that has no such place
  OffloadPlan offload;               // of optimizer state; without windows if it stays in memory
  Traffic traffic;
  weft_shard_plan_t numbers = {};
};

bool AnythingSharded(const Registry& registry);

// What a schedule of steps of this mode is made from. All outlive it; `places` may be nullptr: views move, or places are still to be
// found.
ScheduleInput ScheduleInputOf(const PlanInput& input, const Layout& layout, weft_shard_mode_t mode,
                              const FixedPlaces* places);

// The calls that a step of this mode is expected to make.
std::vector<Event> ExpectedEvents(const PlanInput& input, weft_shard_mode_t mode);

// OUT_OF_MEMORY if the least pool is larger than the budget, UNSUPPORTED for params that the optimizer cannot
// update, INVALID_USAGE if params are to be offloaded and there is no optimizer.
absl::StatusOr<ContextPlan> MakePlan(const PlanInput& input);

}  // namespace weft
