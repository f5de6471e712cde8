// A shard context: units and params, their storage, and the steps that gather and reduce them.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Context> context, Context::Create(mesh, options));
//   ... BeginUnit, AddParam, SealUnit ...
//   WEFT_RETURN_IF_ERROR(context->Finalize().status());
//   ... StepBegin, MicrobatchBegin, PreForward ..., GradReady ..., Finish, StepEnd ...
//
// include/weft/shard.h states the contract of every call; this class is what it runs on. Parts:
// Registry (what was declared), Layout and Storage (where it rests), StepState (what is legal now),
// Residence (what is whole, or on its way there), Readiness (which buckets are complete), Reduction (their
// reductions), Schedule (what a step is expected to do).
//
// Thread-safety: GradReady, View and AbortStep from any thread, the rest from one thread at a time.
// One mutex guards the bookkeeping; it is held neither while gradients are added or zeroed nor while this
// waits. Owns no thread but those of its optimizer; a reduction that has ended starts the gather that waited
// for its place, on the completing thread. The destructor waits for updated parameters that are on their way,
// ends other operations under way (aborting the group if a peer has not come) and returns all memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/kernels/reduce.h"
#include "shard/checks/agreement.h"
#include "shard/layout/block.h"
#include "shard/layout/extent_calls.h"
#include "shard/layout/grouping.h"
#include "shard/layout/layout.h"
#include "shard/layout/mesh.h"
#include "shard/layout/registry.h"
#include "shard/layout/storage.h"
#include "shard/optimizer/nonfinite.h"
#include "shard/optimizer/shard_optimizer.h"
#include "shard/plan/plan.h"
#include "shard/step/doorbell.h"
#include "shard/step/purposes.h"
#include "shard/step/readiness.h"
#include "shard/step/reduction.h"
#include "shard/step/residence.h"
#include "shard/step/schedule.h"
#include "shard/step/step_clock.h"
#include "shard/step/step_state.h"
#include "shard/step/wait_watch.h"

namespace weft {

struct ContextOptions {
  BucketLimits limits;
  weft_shard_accumulation_t accumulation = WEFT_SHARD_LOCAL_THEN_REDUCE;
  bool overlap = true;
  bool average = true;
  int64_t timeout_ns = 0;   // of each collective; 0: the group's
  int prefetch = 1;         // units gathered ahead
  size_t budget_bytes = 0;  // of what is gathered; 0: none
  int microbatches = 1;     // that the plan expects
  bool uneven = false;      // ranks may run out of data before others
  BlockSource memory;
  // Training steps after which copies are compared; 0: never.
  int64_t verify_steps = 0;
};

struct ParamView {
  void* data = nullptr;
  void* grad = nullptr;
  size_t count = 0;
  weft_dtype_t dtype = WEFT_FLOAT32;
  weft_dtype_t grad_dtype = WEFT_FLOAT32;
};

class Context {
 public:
  static absl::StatusOr<std::unique_ptr<Context>> Create(std::shared_ptr<const Mesh> mesh,
                                                         const ContextOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Set-up. Units and params are known by the index these return.
  absl::StatusOr<int> BeginUnit(std::string_view name, const Placement& placement = {});
  absl::StatusOr<int> AddParam(int unit, std::string_view name, const int64_t* shape, int ndim,
                               weft_dtype_t dtype, bool frozen, bool decays = true);
  // The unit uses a param of an earlier unit, under this name.
  absl::Status TieParam(int unit, std::string_view name, int param);
  absl::Status SealUnit(int unit);
  absl::Status SetOptimizer(const OptimizerConfig& config);
  // Units that hold `params` in order, as `groups` says, or nothing. Returns the first unit's index and the first
  // param's; the others follow. `unit` of a param is not read.
  absl::StatusOr<std::pair<int, int>> AddUnits(const std::vector<ParamSpec>& params,
                                               const std::vector<ParamGroup>& groups,
                                               const Placement& placement);
  // The order of units in forward; empty: the declared one.
  absl::Status HintOrder(const std::vector<int>& order);
  // The plan, without peers.
  absl::StatusOr<weft_shard_plan_t> Plan();
  // What mesh rank `rank` keeps of a param.
  absl::StatusOr<OwnedElements> Interval(int param, int rank);
  absl::StatusOr<weft_shard_plan_t> Finalize();
  absl::Status Broadcast(int root);
  absl::Status Verify();
  absl::StatusOr<ParamView> View(int param);
  // What this rank owns of a param, where it rests: elements [begin, begin + view.count) of it.
  absl::StatusOr<std::pair<ParamView, size_t>> OwnPart(int param);
  // `values` [count] of rank `root`, or of this rank if root is kEveryRank, become the param's. Collective.
  absl::Status Load(int param, const void* values, int root);
  // Writes the whole param to `values` [count]. Collective.
  absl::Status Read(int param, void* values);

  // The own parts of all params were written: where params rest whole, the parts are gathered. Collective.
  absl::Status Updated();

  static constexpr int kEveryRank = -1;

  // A step.
  absl::Status StepBegin(weft_shard_mode_t mode, uint64_t tag);
  // In place of all micro-batches of a step for which this rank has no data: makes the calls that the others are
  // expected to make, with gradients of zero. Returns how many ranks have data; 0 ends the step. Collective with
  // their first MicrobatchBegin.
  absl::StatusOr<int> Join();
  absl::Status MicrobatchBegin(int index, bool last);
  absl::Status PreForward(int unit);
  absl::Status PostForward(int unit);
  absl::Status UnshardStart(int unit);
  absl::Status UnshardWait(int unit);
  absl::Status Reshard(int unit);
  absl::Status PreBackward(int unit);
  absl::Status GradReady(int param, const void* grad);
  absl::Status PostBackward(int unit);
  absl::Status ReduceWait(int unit);
  absl::Status MicrobatchEnd();
  absl::StatusOr<weft_shard_step_result_t> Finish();
  absl::StatusOr<weft_shard_update_result_t> OptimizerStep(const weft_shard_update_t& update);
  // What the loss is to be multiplied by.
  absl::StatusOr<double> LossScale();
  absl::Status StepEnd();
  absl::Status AbortStep(std::string_view reason);

  // MISMATCH if another rank was given the same bytes. Collective.
  absl::Status CheckSamples(const void* samples, size_t bytes);
  // What every rank keeps and how long its steps took since the last call, by rank. Collective.
  absl::StatusOr<std::vector<weft_shard_rank_report_t>> Report();

  int rank_count() const { return mesh_->size(); }

  // For tests and `weftctl`; valid after Finalize.
  const Layout& layout() const { return machine_->layout; }

  // The calls of a step's micro-batches, in this order, without gradients.
  absl::Status Walk(const std::vector<Event>& events);

  // For tests: the pool, and the most that lay outside of it in this step.
  size_t pool_bytes() const { return machine_->residence.pool_bytes(); }

  size_t spilled_bytes_max() const { return machine_->residence.spilled_bytes_max(); }

 private:
  // What is known of a kind of step: what it will do, or how it was done the last time.
  struct Habit {
    Schedule schedule;
    bool agreed = false;         // on all ranks; else it is served on demand
    std::vector<UnitRuns> runs;  // by unit
  };

  // A mode and a tag.
  using Kind = std::pair<weft_shard_mode_t, uint64_t>;

  // What exists from finalize on.
  struct Machine {
    Machine(const Registry& registry, Layout planned, Storage allocated, ExtentCalls made,
            const Mesh& mesh, std::unique_ptr<WaitWatch> made_watch,
            const Reduction::Options& options);
    // Through the watch, if there is one.
    std::shared_ptr<ProcessGroup> Watched(ContextGroup channel,
                                          std::shared_ptr<ProcessGroup> group);
    weft_shard_plan_t plan = {};
    const std::unique_ptr<WaitWatch>
        watch;  // nullptr: there are no groups that could wait for each other
    // The mesh's.
    const std::shared_ptr<ProcessGroup> group;
    const std::shared_ptr<ProcessGroup> inner;
    const std::shared_ptr<ProcessGroup> outer;
    const Layout layout;
    const Storage storage;
    const ExtentCalls calls;
    StepState state;
    Readiness readiness;
    std::unique_ptr<ShardOptimizer> optimizer;  // may be nullptr
    Residence residence;
    Reduction reduction;
    size_t pool_bytes = 0;                      // that all ranks have
    std::vector<std::vector<int>> cut_buckets;  // by unit: those whose gradients are gathered
    std::map<Kind, Habit> habits;
    Habit expected[2];       // by mode: of a kind that was not seen yet
    std::vector<int> order;  // in which buckets are reduced in it
    size_t next_bucket = 0;  // the first of `order` not started in this micro-batch
  };

  class Section;

  Context(std::shared_ptr<const Mesh> mesh, const ContextOptions& options, Isa isa);

  // Of the mesh; from finalize on with its operations watched.
  ProcessGroup& group() const { return machine_ == nullptr ? *mesh_->group() : *machine_->group; }

  // Ok, or why no step call works: not finalized, or an earlier failure.
  absl::Status CheckUsable(const char* call) const WEFT_REQUIRES(mutex_);
  absl::Status CheckDeclaring(const char* call) const WEFT_REQUIRES(mutex_);
  // Not Ok on a mesh of ranks that do not exist.
  absl::Status CheckPeers(const char* call) const;
  absl::Status CheckSealed(std::string_view call) const WEFT_REQUIRES(mutex_);
  absl::Status CheckOptimizer(const char* call) const WEFT_REQUIRES(mutex_);
  // Keeps the first failure of communication: after it nothing is sent any more.
  absl::Status Latch(const absl::Status& status) WEFT_REQUIRES(mutex_);
  absl::Status LatchUnlocked(const absl::Status& status);
  // Ends the groups of this context and its mesh, and so the waits of other ranks in them. Within a section, or when the
  // doorbell is silent: works that end call back on this thread.
  void EndGroups(const absl::Status& cause) WEFT_REQUIRES(mutex_);
  // Waits for an operation of any of these groups; `what` says what for.
  absl::Status Await(Work& work, std::string_view what = {});
  // While it is waited for: why it should not be any longer, if that is known.
  absl::Status LookAround(const Work& work, std::string_view what);
  absl::Status RunAmong(ProcessGroup& among, const Collective& call);

  // What a reduction that has ended makes room for.
  void AnswerDoorbell();
  absl::Status Look() WEFT_REQUIRES(mutex_);
  // Starts and ends what reductions that have ended make possible. Fails if a completing thread has found a failure
  // since the caller's call began: what that thread was to start, the call must not take for started.
  absl::Status Advance() WEFT_REQUIRES(mutex_);
  void EnterSection() WEFT_ACQUIRE(mutex_);
  void LeaveSection() WEFT_RELEASE(mutex_);

  std::vector<RegistryEntry> AgreedEntries() const;
  absl::Status CompareRegistry();
  absl::Status ExplainDifference(const std::vector<RegistryEntry>& entries,
                                 const Difference& difference);
  absl::StatusOr<uint64_t> AgreeOnMemory(const absl::Status& own);
  PlanInput PlanInputOf() const;
  // What is planned from the present declarations, kept until they change.
  absl::StatusOr<const ContextPlan*> Planned(std::string_view call) WEFT_REQUIRES(mutex_);
  absl::Status CheckMesh(std::string_view call) const;
  absl::Status BroadcastElements(ProcessGroup& among, int space, Part part, int root);
  // After so many training steps as the options say; `call` says in whose name.
  absl::Status VerifyIfDue(const char* call);
  absl::Status CompareCopies(const char* call, bool optimizer_too);
  Digest DigestOfParam(int param);
  Digest DigestOfState(int param) const;
  absl::Status ExplainCopies(const char* call, const Difference& difference);
  absl::StatusOr<weft_shard_rank_report_t> OwnReport();
  absl::StatusOr<std::unique_ptr<Machine>> MakeMachine();
  absl::Status SplitGroups(Machine& machine);
  bool Any(bool (*is)(const Placement&)) const;
  absl::Status CheckRoot(const char* call, int root) const;
  // Where a param, or its gradient, is while it is whole for a time; nullptr while it is not.
  std::byte* WholeParam(int param) const;
  std::byte* WholeGradient(int param) const;
  absl::Status LoadFrom(int param, const void* values, int root);
  void StoreElements(int param, size_t begin, size_t count, const std::byte* values) const;
  absl::Status CompareLoaded(int param, const void* values);
  absl::Status GatherParam(int param, void* values);

  bool reduces_every() const { return options_.accumulation != WEFT_SHARD_LOCAL_THEN_REDUCE; }

  Accumulate accumulate() const {
    if (keeps_sums()) return Accumulate::kSumsOfReplicas;
    return reduces_every() ? Accumulate::kReduced : Accumulate::kNothing;
  }

  // Of replicated spaces sums are kept until the last micro-batch, by the reduction.
  bool keeps_sums() const { return options_.accumulation == WEFT_SHARD_INNER_EVERY_OUTER_LAST; }

  // Prepares for the calls that a step of this kind will probably make.
  void Expect(weft_shard_mode_t mode, uint64_t tag) WEFT_REQUIRES(mutex_);
  absl::Status Note(const Event& event) WEFT_REQUIRES(mutex_);

  const std::vector<int>& UsedBy(int unit) const {
    return registry_.units()[static_cast<size_t>(unit)].used;
  }

  // What pre_backward waits for.
  absl::Status EnterBackward(int unit);
  absl::Status CheckReducing(int unit) WEFT_REQUIRES(mutex_);
  // Residence::Begin or Need, of all units whose params the unit uses: what to wait for before asking again.
  using Ask = absl::StatusOr<Works> (Residence::*)(int unit);
  absl::StatusOr<Works> AskForUsed(int unit, Ask ask) WEFT_REQUIRES(mutex_);
  // Asks until there is nothing to wait for, which `works` is first.
  absl::Status WaitForUsed(int unit, Ask ask, Works works = {});
  // Of the units whose params the unit used, what nothing keeps.
  absl::Status LetGoUsed(int unit, bool in_backward) WEFT_REQUIRES(mutex_);
  // Waits until the gradients of the unit's buckets have their place.
  absl::Status MakeGradients(int unit);
  // Waits for the places of gradients of buckets that no unit ran backward for.
  absl::Status MakeUntouched();
  // Waits for all, also after one failed; keeps and returns the first failure.
  absl::Status WaitForWorks(const Works& works, std::string_view what, int64_t* waited_ns);
  void Zero(int bucket) const;
  std::byte* GradientOf(int param) const;
  // Waits for all of them, also after one failed. Returns the first failure.
  absl::Status WaitForStarted(const std::vector<StartedReduce>& started);
  absl::Status WaitForReductions();
  absl::Status StartReduction(int bucket) WEFT_REQUIRES(mutex_);
  // Until no gather of updated params reads this rank's part of the param, or puts it back where it was.
  void WaitForUpdates(int param);
  // Waits for everything that is under way and lets go of all that is whole only for a time.
  absl::Status Drain();
  // Were this step's calls the expected ones, and the same on all ranks? If only the latter, they are
  // expected the next time.
  absl::Status AgreeOnOrder(weft_shard_step_result_t* result);
  absl::StatusOr<bool> CompareOrder(const std::vector<Event>& events);
  absl::StatusOr<bool> MakeRoom(size_t bytes);
  // Says once that steps need more than the budget.
  void WarnOfBudget(size_t pool_bytes);
  absl::Status AddOverRanks(std::vector<int64_t>& words, Purpose::Kind purpose);
  // What to do about gradients that are not finite; Ok if the step is just skipped. Collective.
  absl::Status AnswerNonfinite(Nonfinite answer, int64_t elements);
  absl::Status UpdateParams();
  Habit* HabitOf(const Kind& kind) WEFT_REQUIRES(mutex_);
  absl::StatusOr<int> TakeTurn(bool active);
  std::vector<Event> EventsOf(const Kind& kind) const;
  // Of an evaluation without finish, for whoever joins the next one.
  void RememberCalls() WEFT_REQUIRES(mutex_);

  bool ReducesThisMicrobatch() const WEFT_REQUIRES(mutex_);
  absl::Status SettleParams(const std::vector<int>& params) WEFT_REQUIRES(mutex_);
  absl::Status StartComplete() WEFT_REQUIRES(mutex_);
  // REDUCE_EVERY: waits for the reductions of the last micro-batch, moves their result to the
  // accumulated gradients and zeroes the gradients for the next one.
  absl::Status FoldMicrobatch();
  // accumulated += grad, or accumulated = grad for the first; or grad += accumulated at the end.
  bool FoldsReduced(const Space& space) const;
  void AddToAccumulated() const;
  void AddFromAccumulated() const;

  const std::shared_ptr<const Mesh> mesh_;
  const ContextOptions options_;
  const Isa isa_;
  // Owned by the one thread that makes step calls.
  int folded_microbatches_ = 0;
  bool joined_ = false;         // it walks through a step without data
  int entering_backward_ = -1;  // the unit whose pre_backward has not returned

  // For reductions of this step.
  struct WaitTimes {
    int64_t waited_ns = 0;      // by this thread
    int64_t last_ended_ns = 0;  // completion of the last one; 0 if there was none
  };

  WaitTimes times_;
  int64_t gather_waited_ns_ = 0;
  bool warned_of_budget_ = false;
  StepClock clock_;
  int64_t steps_unverified_ = 0;

  const std::shared_ptr<Doorbell> doorbell_;
  std::atomic<bool> inside_{false};  // somebody holds mutex_ and will look before it lets go
  std::atomic<bool> rung_{false};
  Mutex mutex_;
  Registry registry_;  // written under mutex_, constant from finalize on
  Purposes purposes_{registry_};
  std::optional<OptimizerConfig> optimizer_config_;  // likewise
  std::vector<int> order_;                           // likewise: hinted, of units in forward
  std::optional<ContextPlan> planned_ WEFT_GUARDED_BY(mutex_);  // moved from by finalize
  absl::Status failure_ WEFT_GUARDED_BY(mutex_);
  bool fold_pending_ WEFT_GUARDED_BY(mutex_) = false;
  NonfiniteRun nonfinite_;            // of the thread that makes step calls
  std::unique_ptr<Machine> machine_;  // set by finalize; its parts are guarded by mutex_
};

}  // namespace weft
