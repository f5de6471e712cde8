// What the parts of a context share: the mutex, what was declared, the runtime, and the first failure.
//
//   Section section(core.mutex);
//   WEFT_RETURN_IF_ERROR(core.CheckUsable("pre_forward"));
//   WEFT_RETURN_IF_ERROR(core.Latch(core.runtime().unshard_manager.OnServed()));
//
// Every wait of a context goes through here. Operations run in several groups, some of them of a part of the ranks: a
// rank may wait in one for a peer that waits in another for somebody who has failed. So a long wait looks around, and
// whoever knows of a failure ends all groups of the context.
//
// Thread-safety: one mutex guards the bookkeeping of all parts; it is held neither while gradients are added or
// zeroed nor while anybody waits. What does not say that it requires the mutex takes it itself.
// The destructor aborts a step that is under way, if there are peers; else it waits for updated parameters that are on their
// way (aborting the group if a peer does not come). Then it waits until the memory is quiet. Whoever reads optimizer state that he holds
// must have ended before: see AwaitReaders.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "comm/group/process_group.h"
#include "comm/kernels/isa.h"
#include "shard/context/answering_mutex.h"
#include "shard/context/context_options.h"
#include "shard/context/runtime.h"
#include "shard/layout/mesh.h"
#include "shard/layout/registry.h"
#include "shard/optimizer/optimizer_config.h"
#include "shard/optimizer/param_groups.h"
#include "shard/step/doorbell.h"
#include "shard/step/prediction.h"
#include "shard/step/purposes.h"

namespace weft {

// What a program says before finalize.
struct Declarations {
  Registry registry;
  std::optional<OptimizerConfig> optimizer;
  std::vector<OptimizerGroup> groups;  // of the optimizer, if there is one; 0 is its config
  // Hinted: units in the order of forward, or the runs of a micro-batch. One of them is empty; both: as declared.
  std::vector<int> order;
  std::vector<UnitRun> runs;

  bool Any(bool (*is)(const Placement&)) const;
};

class ContextCore {
 public:
  ContextCore(std::shared_ptr<const Mesh> mesh, const ContextOptions& options, Isa isa);
  ~ContextCore();
  ContextCore(const ContextCore&) = delete;
  ContextCore& operator=(const ContextCore&) = delete;

  AnsweringMutex mutex;

  const Mesh& mesh() const { return *mesh_; }

  const ContextOptions& options() const { return options_; }

  // Between steps.
  void SetOptions(const ContextOptions& options) WEFT_REQUIRES(mutex) { options_ = options; }

  Isa isa() const { return isa_; }

  // Rung by completing threads.
  const std::shared_ptr<Doorbell>& doorbell() const { return doorbell_; }

  // Written under the mutex, constant from finalize on.
  const Declarations& declared() const { return declared_; }

  const ParamSpec& SpecOf(int param) const {
    return declared_.registry.params()[static_cast<size_t>(param)];
  }

  const UnitSpec& UnitOf(int unit) const {
    return declared_.registry.units()[static_cast<size_t>(unit)];
  }

  Declarations& Declare() WEFT_REQUIRES(mutex) { return declared_; }

  // `status` with the param, and its unit, as what it is about.
  absl::Status AboutParam(int param, const absl::Status& status) const {
    return WithSubject(status, UnitOf(SpecOf(param).unit).name, SpecOf(param).name);
  }

  Purposes& purposes() { return purposes_; }

  // The mesh's group; from finalize on with its operations watched.
  ProcessGroup& group() const { return runtime_ == nullptr ? *mesh_->group() : *runtime_->group; }

  bool finalized() const { return runtime_ != nullptr; }

  // From finalize on.
  Runtime& runtime() const { return *runtime_; }

  void SetRuntime(std::unique_ptr<Runtime> runtime) WEFT_REQUIRES(mutex);

  // Not Ok on a mesh of ranks that do not exist.
  absl::Status CheckPeers(const char* call) const;
  // Ok, or why no call works that needs storage: not finalized, or an earlier failure.
  absl::Status CheckUsable(const char* call) const WEFT_REQUIRES(mutex);
  // CheckUsable, between steps or after finish.
  absl::Status CheckQuiet(const char* call) const WEFT_REQUIRES(mutex);
  // BAD_STATE while optimizer_step has left params to the caller: those that lie in a bucket with them are gathered when the
  // caller has updated them, and are old on some ranks until then.
  absl::Status CheckUpdated(const char* call) const WEFT_REQUIRES(mutex);

  // The first failure of communication: after it nothing is sent any more.
  const absl::Status& failure() const WEFT_REQUIRES(mutex) { return failure_; }

  // Keeps the first failure; returns `status`.
  absl::Status Latch(const absl::Status& status) WEFT_REQUIRES(mutex);
  absl::Status LatchUnlocked(const absl::Status& status);
  // The caller's own failure: ends the groups, so that other ranks learn of it.
  absl::Status Abort(std::string_view reason);
  // Until nobody holds optimizer state any more, or the context has failed, which is returned.
  absl::Status AwaitUnheld();
  // For whoever is about to destroy this: until nobody holds optimizer state any more, whatever has failed. Aborts a step that is under way
  // first, as the destructor does. TIMEOUT if somebody still holds it when he must not any more: then it is not to be destroyed yet.
  absl::Status AwaitReaders();
  // This rank alone cannot go on, because of `cause`, which is returned with the call that it came in: Abort, so that no other waits for it.
  absl::Status GiveUp(std::string_view call, const absl::Status& cause);

  // Starts and ends what reductions that have ended make possible. Fails if a completing thread has found a failure
  // since the caller's call began: what that thread was to start, the call must not take for started.
  absl::Status Advance() WEFT_REQUIRES(mutex);

  // Waits for an operation of any group of the context; `what` says what for.
  absl::Status Await(Work& work, std::string_view what = {});
  // Waits for all, also after one failed; keeps and returns the first failure. Adds to *waited_ns. `unit` is the name of
  // the one that they are for, if it is one.
  absl::Status AwaitAll(const Works& works, std::string_view what, int64_t* waited_ns,
                        std::string_view unit = {});
  absl::Status Run(ProcessGroup& among, const Collective& call);
  // Waits for everything that is under way and frees all that is unsharded for a time only.
  absl::Status Drain();

 private:
  // Parts of offloaded units cannot be read any more.
  bool PartsHaveFailed() const WEFT_REQUIRES(mutex);
  absl::Status StartRest(std::string_view what, int64_t* waited_ns);
  // What a reduction that has ended makes room for. `mutex` calls it, while it is held.
  void Answer() WEFT_THREAD_ANNOTATION(no_thread_safety_analysis);
  absl::Status Poll() WEFT_REQUIRES(mutex);
  // While something is waited for: why it should not be any longer, if that is known.
  absl::Status EndIfInterrupted(Work& work, absl::Status status);
  absl::Status LookAround(const Work& work, std::string_view what);
  // This rank leaves. If that is in the middle of a step, its peers are told.
  void AbandonStep();
  // Ends the groups of this context and its mesh, and so the waits of other ranks in them. Works that end call back on
  // this thread.
  void EndGroups(const absl::Status& cause) WEFT_REQUIRES(mutex);

  WaitWatch* watch() const { return runtime_ == nullptr ? nullptr : runtime_->watch.get(); }

  const std::shared_ptr<const Mesh> mesh_;
  ContextOptions options_;
  const Isa isa_;
  const std::shared_ptr<Doorbell> doorbell_;
  Declarations declared_;
  Purposes purposes_{declared_.registry};
  absl::Status failure_ WEFT_GUARDED_BY(mutex);
  std::unique_ptr<Runtime> runtime_;  // set by finalize
};

}  // namespace weft
