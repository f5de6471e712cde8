// Where several ranks wait in several groups, a failure has to reach all of them: this file decides who is told, by
// ending which group, and in what order. The group of all ranks ends first, because everybody looks at it, so that the
// sentence it ended with is the one that every rank reports.
#include "shard/context/context_core.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/interrupt.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

// A death, a mismatch and a deadline are the same for all ranks; what else failed, failed on one.
bool IsOfAllRanks(const absl::Status& failure) {
  const weft_result_t result = ResultOf(failure);
  return result == WEFT_PEER_LOST || result == WEFT_MISMATCH || result == WEFT_TIMEOUT;
}

// An abort that a group has told of, which names who aborted.
bool WasTold(const absl::Status& failure) {
  return ResultOf(failure) == WEFT_ABORTED && FieldsOf(failure).rank >= 0;
}

}  // namespace

bool Declarations::Any(bool (*is)(const Placement&)) const {
  return std::any_of(registry.units().begin(), registry.units().end(),
                     [is](const UnitSpec& unit) { return is(unit.placement); });
}

ContextCore::ContextCore(std::shared_ptr<const Mesh> mesh, const ContextOptions& options, Isa isa)
    : mutex([this] { Answer(); }),
      mesh_(std::move(mesh)),
      options_(options),
      isa_(isa),
      doorbell_(std::make_shared<Doorbell>([this] { mutex.Ask(); })) {}

ContextCore::~ContextCore() {
  doorbell_->Silence();
  if (runtime_ == nullptr) return;
  const bool in_step = !runtime_->state.CheckQuiet("destroy").ok();
  AbandonStep();
  Works works = runtime_->unshard_manager.UnderWay();
  for (const StartedReduce& reduce : runtime_->reduction.TakeStarted())
    works.push_back(reduce.work);
  // Outside of a step these are updated parameters on their way, which every rank gathers: they end by
  // themselves, or by their deadline. So do all of a rank that is alone.
  const bool ends = failure_.ok() && (!in_step || mesh_->size() == 1);
  bool ended = true;
  for (const WorkRef& work : works)
    ended = (ends ? Await(*work).ok() : work->Test()) && ended;
  if (!ended) {
    // A peer may never come to meet these; the memory must be quiet before it goes.
    Section section(mutex);
    const absl::Status cause =
        MakeError(WEFT_ABORTED, StrCat("rank ", group().rank(),
                                       " destroyed its shard context while gradients were "
                                       "being reduced or parameters gathered"));
    if (failure_.ok()) failure_ = cause;  // nothing is started any more
    EndGroups(cause);
    const UninterruptedWaits until_quiet;
    for (const WorkRef& work : works)
      (void)work->Wait(0);
  }
  runtime_->unshard_manager.Drop();
  // A group is left before the memory goes that its operations have used.
  runtime_->gather_groups.ForEach([](ProcessGroup& group) { group.Close(); });
}

// Peers may wait for this rank, or will: they learn at once that it does not come. What failed on all ranks they know.
void ContextCore::AbandonStep() {
  {
    Section section(mutex);
    if (runtime_->state.CheckQuiet("destroy").ok() || mesh_->size() == 1 || IsOfAllRanks(failure_))
      return;
    if (WasTold(failure_)) {  // perhaps by a group that ends before that of all ranks does
      EndGroups(failure_);
      return;
    }
  }
  (void)Abort("its context was destroyed");
}

void ContextCore::SetRuntime(std::unique_ptr<Runtime> runtime) {
  runtime_ = std::move(runtime);
}

void ContextCore::Answer() {
  if (runtime_ != nullptr && failure_.ok()) (void)Latch(Poll());
}

absl::Status ContextCore::Poll() {
  WEFT_RETURN_IF_ERROR(runtime_->reduction.Advance());
  return runtime_->unshard_manager.Poll();
}

absl::Status ContextCore::Advance() {
  if (!failure_.ok()) return failure_;
  return Latch(runtime_->reduction.Advance());
}

absl::Status ContextCore::CheckPeers(const char* call) const {
  if (!mesh_->dry()) return absl::OkStatus();
  return MakeError(WEFT_INVALID_USAGE, {.operation = call},
                   StrCat(call,
                          ": the context's mesh is dry: its ranks do not exist, so it can be "
                          "planned only; make the mesh with weft_mesh_create"));
}

absl::Status ContextCore::CheckUsable(const char* call) const {
  WEFT_RETURN_IF_ERROR(CheckPeers(call));
  if (!failure_.ok()) return Annotate(failure_, StrCat(call, ": an earlier call failed: "));
  if (runtime_ != nullptr) return absl::OkStatus();
  return MakeError(WEFT_BAD_STATE, {.operation = call},
                   StrCat(call,
                          " is not legal here: the context is not finalized; declare all "
                          "units, then call weft_shard_context_finalize"));
}

absl::Status ContextCore::CheckQuiet(const char* call) const {
  WEFT_RETURN_IF_ERROR(CheckUsable(call));
  return runtime_->state.CheckQuiet(call);
}

absl::Status ContextCore::CheckUpdated(const char* call) const {
  const CallersTurn& turn = runtime_->callers_turn;
  if (!turn.due()) return absl::OkStatus();
  return AboutParam(
      turn.first_param(),
      MakeError(
          WEFT_BAD_STATE, {.operation = call},
          StrCat(call, ": optimizer_step has left the parameters of kind OWN to you, such as ",
                 SpecOf(turn.first_param()).name,
                 "; update their parts and call weft_shard_params_updated first")));
}

absl::Status ContextCore::Latch(const absl::Status& status) {
  if (status.ok()) return status;
  if (!failure_.ok()) {
    // What a completing thread has found on this rank's disk is why this rank has ended the groups.
    const bool by_itself = ResultOf(status) == WEFT_ABORTED && PartsHaveFailed();
    return by_itself ? failure_ : status;
  }
  failure_ = status;
  // What fails among some of the ranks, or on this one's disk, is not known to the others, who will wait for this one elsewhere.
  if (PartsHaveFailed() || mesh_->axes().size() > 1) EndGroups(status);
  return status;
}

bool ContextCore::PartsHaveFailed() const {
  return runtime_ != nullptr && !runtime_->unit_gathers.failure().ok();
}

absl::Status ContextCore::LatchUnlocked(const absl::Status& status) {
  if (status.ok()) return status;
  Section section(mutex);
  return Latch(status);
}

absl::Status ContextCore::Abort(std::string_view reason) {
  WEFT_RETURN_IF_ERROR(CheckPeers("abort_step"));
  Section section(mutex);
  const int64_t step = runtime_ == nullptr ? 0 : runtime_->state.step();
  const std::string text = StrCat("rank ", group().rank(), " aborted step ", step, ": ",
                                  reason.empty() ? std::string_view("no reason given") : reason);
  if (failure_.ok()) {
    failure_ = MakeError(WEFT_ABORTED, CulpritOf(group(), group().rank(), "abort_step"), text);
  }
  EndGroups(MakeError(WEFT_ABORTED, text));
  return absl::OkStatus();
}

absl::Status ContextCore::AwaitUnheld() {
  ShardOptimizer* const optimizer = runtime_->optimizer.get();
  if (optimizer == nullptr) return absl::OkStatus();
  return optimizer->kept().AwaitUnheld([&]() -> absl::Status {
    Section section(mutex);
    WEFT_RETURN_IF_ERROR(failure_);
    return group().error();
  });
}

absl::Status ContextCore::AwaitReaders() {
  if (runtime_ == nullptr) return absl::OkStatus();
  AbandonStep();
  ShardOptimizer* const optimizer = runtime_->optimizer.get();
  if (optimizer == nullptr) return absl::OkStatus();
  return Annotate(optimizer->kept().AwaitUnheld([] { return absl::OkStatus(); }),
                  "nothing was freed, call it again when weft_checkpoint_wait says that the save "
                  "has ended: ");
}

absl::Status ContextCore::GiveUp(std::string_view call, const absl::Status& cause) {
  const absl::Status said = Annotate(cause, StrCat(call, ": "));
  WEFT_RETURN_IF_ERROR(Abort(FromAbsl(said.message())));
  return said;
}

// The group of all ends first: where several ranks have found something, what it ended with is the cause in all of them.
void ContextCore::EndGroups(const absl::Status& found) {
  const bool told = IsOfAllRanks(found) || WasTold(found);
  const std::string text(FromAbsl(found.message()));
  const std::string reason =
      ResultOf(found) == WEFT_ABORTED ? text : StrCat("rank ", group().rank(), " failed: ", text);
  const auto end = [&](ProcessGroup& ended, const absl::Status& cause) {
    cause.ok() ? ended.Abort(reason) : ended.Fail(cause);
  };
  end(group(), told ? found : absl::OkStatus());
  const absl::Status cause = told ? group().error() : absl::OkStatus();
  if (mesh_->axes().size() > 1) {
    end(*mesh_->inner(), cause);
    end(*mesh_->outer(), cause);
  }
  if (runtime_ == nullptr) return;
  runtime_->gather_groups.ForEach([&](ProcessGroup& ended) { end(ended, cause); });
  // No gather can follow what is being read.
  runtime_->unit_gathers.Cancel();
  runtime_->reduction.ForEachGroup([&](ProcessGroup& ended) { end(ended, cause); });
}

// The others would wait for a rank whose program has left the step.
absl::Status ContextCore::EndIfInterrupted(Work& work, absl::Status status) {
  if (ResultOf(status) != WEFT_INTERRUPTED) return status;
  (void)TakeInterrupt();
  {
    Section section(mutex);
    EndGroups(MakeError(WEFT_ABORTED,
                        StrCat("rank ", group().rank(), " was interrupted by its program")));
  }
  const UninterruptedWaits until_quiet;  // its buffers may be the caller's
  (void)work.Wait(0);
  return status;
}

// The rank that this one waits for, in a group of some of the ranks, may itself be waiting in another one for a rank
// that will not come: the watch finds that. All groups that were split from that of all ranks end with it.
absl::Status ContextCore::Await(Work& work, std::string_view what) {
  constexpr int64_t kLookNs = 100'000'000;
  WaitWatch* const watch = this->watch();
  if (watch == nullptr) return EndIfInterrupted(work, work.Wait(0));
  for (bool looked = false;; looked = true) {
    absl::Status status = work.Wait(kLookNs);
    if (ResultOf(status) != WEFT_IN_PROGRESS) {
      if (looked) watch->EndWait();
      if (ResultOf(status) == WEFT_INTERRUPTED) return EndIfInterrupted(work, std::move(status));
      if (!IsOfAllRanks(status)) return status;
      // Others may wait for this rank in another group.
      Section section(mutex);
      EndGroups(status);
      return status;
    }
    const absl::Status cause = LookAround(work, what);
    if (cause.ok()) continue;
    Section section(mutex);
    EndGroups(cause);
  }
}

absl::Status ContextCore::LookAround(const Work& work, std::string_view what) {
  WEFT_RETURN_IF_ERROR(group().error());
  WaitWatch* const watch = this->watch();
  watch->NoteEnded();
  bool promises = false;
  std::string call;
  {
    // What completing threads would do for what has ended is done now, before the counts are shown.
    Section section(mutex);
    if (!failure_.ok()) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(Latch(Poll()));
    promises = !runtime_->state.AwaitsGradients();
    call = runtime_->state.LastCall();
  }
  if (call.empty()) call = "before the first step";
  constexpr std::string_view kColon = ": ";
  if (what.ends_with(kColon)) what.remove_suffix(kColon.size());
  return watch->Look(work, promises, what.empty() ? call : StrCat(call, ", ", what));
}

absl::Status ContextCore::Run(ProcessGroup& among, const Collective& call) {
  if (watch() != nullptr || &among == mesh_->group().get()) return among.Run(call);
  WEFT_ASSIGN_OR_RETURN(const WorkRef work, among.Start(call));
  return Await(*work);
}

absl::Status ContextCore::AwaitAll(const Works& works, std::string_view what, int64_t* waited_ns,
                                   std::string_view unit) {
  absl::Status first_failure;
  const int64_t begin_ns = MonotonicNs();
  for (const WorkRef& work : works) {
    const absl::Status status = Await(*work, what);
    if (!status.ok() && first_failure.ok()) first_failure = status;
  }
  *waited_ns += MonotonicNs() - begin_ns;
  return LatchUnlocked(WithSubject(Annotate(first_failure, what), unit, {}));
}

// Gathers whose parts are still being read are started, too: other ranks have.
absl::Status ContextCore::StartRest(std::string_view what, int64_t* waited_ns) {
  for (;;) {
    Works first;
    {
      Section section(mutex);
      const absl::StatusOr<bool> all_started = runtime_->unshard_manager.StartGathers();
      if (!all_started.ok()) return Latch(all_started.status());
      if (*all_started) return absl::OkStatus();
      first = {runtime_->unit_gathers.first()};
    }
    WEFT_RETURN_IF_ERROR(AwaitAll(first, what, waited_ns));
  }
}

absl::Status ContextCore::Drain() {
  constexpr std::string_view kWhat = "gathering parameters: ";
  int64_t waited_ns = 0;  // of no step: finish has taken the times
  const absl::Status started = StartRest(kWhat, &waited_ns);
  Works works;
  {
    Section section(mutex);
    works = runtime_->unshard_manager.UnderWay();
  }
  const absl::Status ended = AwaitAll(works, kWhat, &waited_ns);
  Section section(mutex);
  runtime_->unshard_manager.Drop();
  return started.ok() ? ended : started;
}

}  // namespace weft
