// A shard context: units and params, their storage, and the steps that gather and reduce them.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Context> context, Context::Create(mesh, options));
//   ... BeginUnit, AddParam, SealUnit ...
//   WEFT_RETURN_IF_ERROR(context->Finalize().status());
//   ... StepBegin, MicrobatchBegin, PreForward ..., GradReady ..., Finish, StepEnd ...
//
// include/weft/shard.h states the contract of every call; this class hands each on to the part that owns its state:
//
//   ContextCore        what the parts share: the mutex, the runtime, the first failure, waiting
//   ContextBuilder     declares, plans, and makes the runtime
//   StepDriver         the calls of a step, with GradientReducer and OrderAgreement
//   OptimizerDriver    the update
//   ParamAccess        views, parts, load, read, broadcast
//   StateAccess        what a checkpoint saves and restores
//   ConsistencyChecks  copies that differ, samples that do not, ranks that lag behind
//
// Thread-safety: GradReady, View, IsUnsharded and UnshardedBytes of params(), Plan, Interval and AbortStep from any thread, registry
// from finalize on; the rest from one thread at a time.
// Owns no thread but those of its optimizer; a reduction that has ended starts the gather that waited
// for its place, on the completing thread. The destructor aborts a step that is under way, if there are
// peers; else it waits for updated parameters that are on their way, and aborts the group if a peer does not come. It returns
// all memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/context/consistency_checks.h"
#include "shard/context/context_builder.h"
#include "shard/context/context_core.h"
#include "shard/context/context_options.h"
#include "shard/context/optimizer_driver.h"
#include "shard/context/param_access.h"
#include "shard/context/state_access.h"
#include "shard/context/step_driver.h"

namespace weft {

class Context {
 public:
  static absl::StatusOr<std::unique_ptr<Context>> Create(std::shared_ptr<const Mesh> mesh,
                                                         const ContextOptions& options);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Set-up. Units and params are known by the index these return.
  absl::StatusOr<int> BeginUnit(std::string_view name, const Placement& placement = {}) {
    return builder_.BeginUnit(name, placement);
  }

  absl::StatusOr<int> AddParam(int unit, std::string_view name, const int64_t* shape, int ndim,
                               weft_dtype_t dtype, uint32_t flags = 0) {
    return builder_.AddParam(unit, name, shape, ndim, dtype, flags);
  }

  // The unit uses a param of an earlier unit, under this name.
  absl::Status TieParam(int unit, std::string_view name, int param) {
    return builder_.TieParam(unit, name, param);
  }

  absl::Status SealUnit(int unit) { return builder_.SealUnit(unit); }

  absl::Status SetOptimizer(const OptimizerConfig& config) { return builder_.SetOptimizer(config); }

  // Units that hold `params` in order, as `groups` says, or nothing. Returns the first unit's index and the first
  // param's; the others follow. `unit` of a param is not read.
  absl::StatusOr<std::pair<int, int>> AddUnits(const std::vector<ParamSpec>& params,
                                               const std::vector<ParamGroup>& groups,
                                               const Placement& placement) {
    return builder_.AddUnits(params, groups, placement);
  }

  // The order of units in forward, param groups.
  ContextBuilder& builder() { return builder_; }

  // The plan, without peers.
  absl::StatusOr<weft_shard_plan_t> Plan() { return builder_.Plan(); }

  // What mesh rank `rank` keeps of a param.
  absl::StatusOr<OwnedElements> Interval(int param, int rank) {
    return builder_.Interval(param, rank);
  }

  absl::StatusOr<weft_shard_plan_t> Finalize() { return builder_.Finalize(); }

  // What was declared; constant from finalize on.
  const Registry& registry() const { return core_.declared().registry; }

  // Params outside of the calls of a step.
  static constexpr int kEveryRank = ParamAccess::kEveryRank;

  absl::StatusOr<ParamView> View(int param) { return params_.View(param); }

  // What is unsharded, and how large it is then.
  ParamAccess& params() { return params_; }

  // What a checkpoint needs.
  StateAccess& state() { return state_; }

  absl::StatusOr<std::pair<ParamView, size_t>> OwnPart(int param) { return params_.OwnPart(param); }

  absl::Status Load(int param, const void* values, int root) {
    return params_.Load(param, values, root);
  }

  absl::Status Read(int param, void* values, int root = kEveryRank) {
    return params_.Read(param, values, root);
  }

  absl::Status Updated() { return params_.Updated(); }

  // Compares what has come as well: a broadcast is asked for when copies are not trusted.
  absl::Status Broadcast(int root);

  // A step.
  absl::Status StepBegin(weft_shard_mode_t mode, uint64_t tag) { return steps_.Begin(mode, tag); }

  absl::StatusOr<int> Join() { return steps_.Join(); }

  absl::Status MicrobatchBegin(int index, bool last) { return steps_.MicrobatchBegin(index, last); }

  absl::Status PreForward(int unit) { return steps_.PreForward(unit); }

  absl::Status PostForward(int unit) { return steps_.PostForward(unit); }

  absl::Status UnshardStart(int unit, const UnshardDestination& destination = {}) {
    return steps_.UnshardStart(unit, destination);
  }

  absl::Status UnshardWait(int unit) { return steps_.UnshardWait(unit); }

  absl::Status Reshard(int unit) { return steps_.Reshard(unit); }

  absl::Status PreBackward(int unit) { return steps_.PreBackward(unit); }

  absl::Status GradReady(int param, const void* grad) { return steps_.GradReady(param, grad); }

  absl::Status PostBackward(int unit) { return steps_.PostBackward(unit); }

  absl::Status ReduceWait(int unit) { return steps_.ReduceWait(unit); }

  absl::Status MicrobatchEnd() { return steps_.MicrobatchEnd(); }

  absl::StatusOr<weft_shard_step_result_t> Finish() { return steps_.Finish(); }

  absl::StatusOr<weft_shard_update_result_t> OptimizerStep(const weft_shard_update_t& update) {
    return optimizer_.Step(update);
  }

  absl::Status DropGradients() { return optimizer_.DropGradients(); }

  // The loss scale, the norm.
  OptimizerDriver& optimizer() { return optimizer_; }

  // After a step of training compares copies, if that is due.
  absl::Status StepEnd();

  absl::Status AbortStep(std::string_view reason) { return core_.Abort(reason); }

  // What goes wrong quietly.
  absl::Status Verify() { return checks_.Verify(); }

  absl::Status CheckSamples(const void* samples, size_t bytes) {
    return checks_.CheckSamples(samples, bytes);
  }

  absl::StatusOr<std::vector<weft_shard_rank_report_t>> Report() { return checks_.Report(); }

  int rank_count() const { return core_.mesh().size(); }

  // For tests, valid after Finalize: the pool, and the most that lay outside of it in this step.
  size_t pool_bytes() const { return core_.runtime().unshard_manager.pool_bytes(); }

  size_t spilled_bytes_max() const { return core_.runtime().unshard_manager.spilled_bytes_max(); }

 private:
  Context(std::shared_ptr<const Mesh> mesh, const ContextOptions& options, Isa isa);

  ContextCore core_;
  ContextBuilder builder_;
  ParamAccess params_;
  StepDriver steps_;
  OptimizerDriver optimizer_;
  StateAccess state_;
  ConsistencyChecks checks_;
};

}  // namespace weft
