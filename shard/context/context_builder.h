// Sets a context up: declares units and params, plans without peers, and makes with them what the steps need.
//
//   ContextBuilder builder(core);
//   WEFT_ASSIGN_OR_RETURN(const int unit, builder.BeginUnit("block.0", placement));
//   ... AddParam, SealUnit ...
//   builder.Plan();          // as often as wanted, on dry meshes too
//   builder.Finalize();      // once; collective
//
// What Finalize allocates is what Plan said, as both are made by MakePlan from the same declarations.
//
// Thread-safety: one thread at a time; Plan and Interval from any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/context/context_core.h"
#include "shard/context/settings.h"
#include "shard/layout/grouping.h"
#include "shard/plan/plan.h"

namespace weft {

// What the declarations of a context are planned from. The core outlives it.
PlanInput PlanInputOf(const ContextCore& core);

class ContextBuilder {
 public:
  // `core` outlives this.
  explicit ContextBuilder(ContextCore& core) : core_(core) {}

  // Units and params are known by the index these return.
  absl::StatusOr<int> BeginUnit(std::string_view name, const Placement& placement);
  absl::StatusOr<int> AddParam(int unit, std::string_view name, const int64_t* shape, int ndim,
                               weft_dtype_t dtype, uint32_t flags);
  absl::Status TieParam(int unit, std::string_view name, int param);
  absl::Status SealUnit(int unit);
  absl::Status SetOptimizer(const OptimizerConfig& config);
  // Returns its number.
  absl::StatusOr<int> AddGroup(const weft_shard_param_group_t& numbers);
  absl::Status SetParamGroup(int param, int group);
  // As Registry::SetGlobal.
  absl::Status SetParamGlobal(int param, std::string_view name, const int64_t* shape, int ndim,
                              size_t begin);
  absl::StatusOr<std::pair<int, int>> AddUnits(const std::vector<ParamSpec>& params,
                                               const std::vector<ParamGroup>& groups,
                                               const Placement& placement);
  // As Registry::NestUnit.
  absl::Status NestUnit(int unit, int outer);
  // Of units in forward; empty: the declared one.
  absl::Status HintOrder(const std::vector<int>& order);
  // Of a training step's micro-batch; empty: as declared. A unit runs forward before it runs backward.
  absl::Status HintRuns(const std::vector<UnitRun>& runs);

  absl::StatusOr<weft_shard_plan_t> Plan();
  absl::StatusOr<OwnedElements> Interval(int param, int rank);
  absl::StatusOr<weft_shard_plan_t> Finalize();

  // Of a context that is finalized. Collective.
  absl::Status Change(const SettingsChange& change) { return ChangeSettings(core_, change); }

 private:
  absl::Status CheckDeclaring(const char* call) const WEFT_REQUIRES(core_.mutex);
  absl::Status CheckSealed(std::string_view call) const WEFT_REQUIRES(core_.mutex);
  absl::Status CheckMesh(std::string_view call) const;
  // CheckDeclaring; what was planned is forgotten, as the caller is about to change declarations.
  absl::StatusOr<Declarations*> Declare(const char* call) WEFT_REQUIRES(core_.mutex);
  // What is planned from the present declarations, kept until they change.
  absl::StatusOr<const ContextPlan*> Planned(std::string_view call) WEFT_REQUIRES(core_.mutex);
  absl::StatusOr<std::unique_ptr<Runtime>> MakeRuntime();
  // Where the optimizer's state will be, and the params that are offloaded with it.
  absl::StatusOr<std::unique_ptr<StateStore>> MakeStore(const OffloadPlan& offload,
                                                        Runtime* runtime) const;
  absl::StatusOr<uint64_t> AgreeOnMemory(const absl::Status& own);
  absl::Status SplitGroups(Runtime& runtime);

  ContextCore& core_;
  std::optional<ContextPlan> planned_ WEFT_GUARDED_BY(core_.mutex);  // moved from by finalize
};

}  // namespace weft
