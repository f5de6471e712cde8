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
#include <vector>

#include "weft/shard.h"

#include "absl/status/statusor.h"
#include "shard/layout/layout.h"
#include "shard/layout/registry.h"
#include "shard/layout/storage.h"
#include "shard/optimizer/shard_optimizer.h"
#include "shard/step/schedule.h"

namespace weft {

struct PlanInput {
  const Registry* registry = nullptr;
  const std::vector<int>* order = nullptr;     // units as forward uses them; nullptr: as declared
  const OptimizerConfig* optimizer = nullptr;  // nullptr: none
  Member member;                               // of all ranks
  Member inner;                                // of those along the mesh's last axis
  BucketLimits limits;
  Accumulate accumulate = Accumulate::kNothing;
  bool overlap = true;
  int prefetch = 1;
  size_t budget_bytes = 0;  // of the pool; 0: none
  int microbatches = 1;

  bool reduces_every() const { return accumulate != Accumulate::kNothing; }
};

struct ContextPlan {
  Layout layout;
  std::array<Schedule, 2> expected;  // by mode; empty if nothing is cut
  weft_shard_plan_t numbers = {};
};

bool AnythingSharded(const Registry& registry);

// What a schedule of steps of this mode is made from. `layout` and `input` outlive it.
ScheduleInput ScheduleInputOf(const PlanInput& input, const Layout& layout, weft_shard_mode_t mode);

// The calls that a step of this mode is expected to make.
std::vector<Event> ExpectedEvents(const PlanInput& input, weft_shard_mode_t mode);

// OUT_OF_MEMORY if the least pool is larger than the budget, UNSUPPORTED for params that the optimizer cannot
// update.
absl::StatusOr<ContextPlan> MakePlan(const PlanInput& input);

}  // namespace weft
