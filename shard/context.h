// A shard context: units and params, their storage, and the steps that reduce their gradients.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Context> context, Context::Create(mesh, options));
//   ... BeginUnit, AddParam, SealUnit ...
//   WEFT_RETURN_IF_ERROR(context->Finalize().status());
//   ... StepBegin, MicrobatchBegin, PreForward ..., GradReady ..., Finish, StepEnd ...
//
// include/weft/shard.h states the contract of every call; this class is what it runs on. Parts:
// Registry (what was declared), Layout and Storage (where it lives), StepState (what is legal now),
// Readiness (which buckets are complete), Reduction (their all-reduces).
//
// Thread-safety: GradReady, View and AbortStep from any thread, the rest from one thread at a time.
// One mutex guards the bookkeeping; it is held neither while gradients are added nor while this
// waits. Owns no thread. The destructor ends reductions under way (aborting the group if a peer has
// not come) and returns all memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/kernels/reduce.h"
#include "shard/layout.h"
#include "shard/mesh.h"
#include "shard/readiness.h"
#include "shard/reduction.h"
#include "shard/registry.h"
#include "shard/step_state.h"
#include "shard/storage.h"

namespace weft {

struct ContextOptions {
  BucketLimits limits;
  weft_shard_accumulation_t accumulation = WEFT_SHARD_LOCAL_THEN_REDUCE;
  bool overlap = true;
  bool average = true;
  int64_t timeout_ns = 0;  // of each collective; 0: the group's
};

struct ParamView {
  void* data = nullptr;
  void* grad = nullptr;
  size_t count = 0;
  weft_dtype_t dtype = WEFT_FLOAT32;
};

class Context {
 public:
  static absl::StatusOr<std::unique_ptr<Context>> Create(std::shared_ptr<const Mesh> mesh,
                                                         const ContextOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Set-up. Units and params are known by the index these return.
  absl::StatusOr<int> BeginUnit(std::string_view name);
  absl::StatusOr<int> AddParam(int unit, std::string_view name, const int64_t* shape, int ndim,
                               weft_dtype_t dtype, bool frozen);
  absl::Status SealUnit(int unit);
  absl::StatusOr<weft_shard_plan_t> Finalize();
  absl::Status Broadcast(int root);
  absl::Status Verify();
  absl::StatusOr<ParamView> View(int param);

  // A step.
  absl::Status StepBegin(weft_shard_mode_t mode, uint64_t tag);
  absl::Status MicrobatchBegin(int index, bool last);
  absl::Status PreForward(int unit);
  absl::Status PostForward(int unit);
  absl::Status PreBackward(int unit);
  absl::Status GradReady(int param, const void* grad);
  absl::Status PostBackward(int unit);
  absl::Status MicrobatchEnd();
  absl::StatusOr<weft_shard_step_result_t> Finish();
  absl::Status StepEnd();
  absl::Status AbortStep(std::string_view reason);

  // For tests and `weftctl`; valid after Finalize.
  const Layout& layout() const { return machine_->layout; }

 private:
  // What exists from finalize on.
  struct Machine {
    Machine(const Registry& registry, Layout planned, Storage allocated,
            std::shared_ptr<ProcessGroup> group, const Reduction::Options& options);
    const Layout layout;
    const Storage storage;
    StepState state;
    Readiness readiness;
    Reduction reduction;
    int next_bucket = 0;  // the first one not started in this micro-batch
  };

  Context(std::shared_ptr<const Mesh> mesh, const ContextOptions& options, Isa isa);

  ProcessGroup& group() const { return *mesh_->group(); }

  // Ok, or why no step call works: not finalized, or an earlier failure.
  absl::Status CheckUsable(const char* call) const WEFT_REQUIRES(mutex_);
  absl::Status CheckDeclaring(const char* call) const WEFT_REQUIRES(mutex_);
  // Keeps the first failure of communication: after it nothing is sent any more.
  absl::Status Latch(const absl::Status& status) WEFT_REQUIRES(mutex_);
  absl::Status LatchUnlocked(const absl::Status& status);

  std::vector<RegistryEntry> AgreedEntries() const;
  absl::Status CompareRegistry();
  absl::Status ExplainDifference(const std::vector<RegistryEntry>& entries, size_t index,
                                 const std::vector<int>& ranks);
  absl::Status AgreeOnMemory(const absl::Status& own);
  weft_shard_plan_t PlanOf(const Machine& machine) const;
  absl::Status BroadcastRange(const Range& range, int root);
  absl::Status CompareParams(const char* call);

  bool reduces_every() const { return options_.accumulation == WEFT_SHARD_REDUCE_EVERY; }

  bool ReducesThisMicrobatch() const WEFT_REQUIRES(mutex_);
  absl::Status SettleParams(const std::vector<int>& params) WEFT_REQUIRES(mutex_);
  absl::Status StartComplete() WEFT_REQUIRES(mutex_);
  // REDUCE_EVERY: waits for the reductions of the last micro-batch, moves their result to the
  // accumulated gradients and zeroes the gradients for the next one.
  absl::Status FoldMicrobatch();
  // accumulated += grad, or accumulated = grad for the first; or grad += accumulated at the end.
  void AddToAccumulated() const;
  void AddFromAccumulated() const;

  const std::shared_ptr<const Mesh> mesh_;
  const ContextOptions options_;
  const Isa isa_;
  // Owned by the one thread that makes step calls.
  int folded_microbatches_ = 0;
  WaitTimes times_;

  Mutex mutex_;
  Registry registry_;  // written under mutex_, constant from finalize on
  absl::Status failure_ WEFT_GUARDED_BY(mutex_);
  bool fold_pending_ WEFT_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Machine> machine_;  // set by finalize; its parts are guarded by mutex_
};

}  // namespace weft
