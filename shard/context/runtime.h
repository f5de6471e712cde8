// What a context has from finalize on: the memory, the groups, and what follows a step.
//
//   auto runtime = std::make_unique<Runtime>(registry, std::move(plan), ...);
//   runtime->layout; runtime->state; ...
//
// A plain collection: who may touch which part is said beside it, the rules are those of the parts.
//
// Thread-safety: parts that are not const are guarded by the context's mutex.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "weft/shard.h"

#include "comm/group/process_group.h"
#include "shard/layout/extent_calls.h"
#include "shard/layout/layout.h"
#include "shard/layout/mesh.h"
#include "shard/layout/part_source.h"
#include "shard/layout/registry.h"
#include "shard/layout/storage.h"
#include "shard/optimizer/callers_turn.h"
#include "shard/optimizer/shard_optimizer.h"
#include "shard/step/gradient_clearing.h"
#include "shard/step/readiness.h"
#include "shard/step/recorded_steps.h"
#include "shard/step/reduction.h"
#include "shard/step/step_state.h"
#include "shard/step/unit_gathers.h"
#include "shard/step/unit_places.h"
#include "shard/step/unshard_manager.h"
#include "shard/step/update_gathers.h"
#include "shard/step/wait_watch.h"

namespace weft {

struct Runtime {
  // `watch` may be nullptr: there are no groups that could wait for each other. `registry` outlives this.
  Runtime(const Registry& registry, Layout layout, Storage storage, ExtentCalls calls,
          const Mesh& mesh, std::unique_ptr<WaitWatch> watch, const Reduction::Options& options);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Through the watch, if there is one.
  std::shared_ptr<ProcessGroup> Watched(ContextGroup channel, std::shared_ptr<ProcessGroup> group);

  const Place& PlaceOf(int param) const { return layout.places[static_cast<size_t>(param)]; }

  // Where a param, or its gradient, is while it is unsharded; nullptr while it is not.
  std::byte* UnshardedParam(int param) const;
  std::byte* UnshardedGradient(int param) const;
  // Where this rank writes the param's gradient just now; nullptr while there is no place for it.
  std::byte* GradientOf(int param) const;

  const Registry& registry;
  weft_shard_plan_t plan = {};
  const std::unique_ptr<WaitWatch> watch;
  const std::shared_ptr<ProcessGroup> group;  // the mesh's
  const std::shared_ptr<ProcessGroup> inner;
  const std::shared_ptr<ProcessGroup> outer;
  const Layout layout;
  const Storage storage;
  const ExtentCalls calls;
  StepState state;
  Readiness readiness;
  GradientClearing clearing;
  std::unique_ptr<ShardOptimizer> optimizer;  // may be nullptr
  CallersTurn callers_turn;
  GatherGroups gather_groups;
  UpdateGathers updates;
  UnitGathers unit_gathers;
  UnitPlaces unit_places;
  UnshardManager unshard_manager;
  std::unique_ptr<PartSource> parts;  // of gathers; nullptr if all rest in memory
  Reduction reduction;
  RecordedSteps recorded;
  std::vector<std::vector<int>> sharded_buckets;  // by unit: those whose gradients are gathered
};

}  // namespace weft
