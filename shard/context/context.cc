#include "shard/context/context.h"

#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "shard/context/section.h"

namespace weft {
namespace {

// A death, a mismatch and a deadline are the same for all ranks; what else failed, failed on one.
bool IsOfAllRanks(const absl::Status& failure) {
  const weft_result_t result = ResultOf(failure);
  return result == WEFT_PEER_LOST || result == WEFT_MISMATCH || result == WEFT_TIMEOUT;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Context>> Context::Create(std::shared_ptr<const Mesh> mesh,
                                                         const ContextOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const Isa isa, SelectIsa());
  return std::unique_ptr<Context>(new Context(std::move(mesh), options, isa));
}

Context::Context(std::shared_ptr<const Mesh> mesh, const ContextOptions& options, Isa isa)
    : mesh_(std::move(mesh)),
      options_(options),
      isa_(isa),
      doorbell_(std::make_shared<Doorbell>([this] { AnswerDoorbell(); })) {}

Context::~Context() {
  doorbell_->Silence();
  if (machine_ == nullptr) return;
  Works works = machine_->residence.UnderWay();
  for (const StartedReduce& reduce : machine_->reduction.TakeStarted())
    works.push_back(reduce.work);
  // Outside of a step these are updated parameters on their way, which every rank gathers: they end by
  // themselves, or by their deadline.
  const bool ends = failure_.ok() && machine_->state.CheckQuiet("destroy").ok();
  bool ended = true;
  for (const WorkRef& work : works)
    ended = (ends ? Await(*work).ok() : work->Test()) && ended;
  if (!ended) {
    // A peer may never come to meet these; the memory must be quiet before it goes.
    MutexLock lock(mutex_);
    EndGroups(MakeError(WEFT_ABORTED, StrCat("rank ", group().rank(),
                                             " destroyed its shard context while gradients were "
                                             "being reduced or parameters gathered")));
    for (const WorkRef& work : works)
      (void)work->Wait(0);
  }
  machine_->residence.Drop();
}

Context::Machine::Machine(const Registry& registry, Layout planned, Storage allocated,
                          ExtentCalls made, const Mesh& mesh, std::unique_ptr<WaitWatch> made_watch,
                          const Reduction::Options& options)
    : watch(std::move(made_watch)),
      group(Watched(ContextGroup::kMesh, mesh.group())),
      inner(Watched(ContextGroup::kMeshInner, mesh.inner())),
      outer(Watched(ContextGroup::kMeshOuter, mesh.outer())),
      layout(std::move(planned)),
      storage(std::move(allocated)),
      calls(std::move(made)),
      state(registry),
      readiness(layout),
      residence(layout, storage, calls, registry.units(), *options.purposes),
      reduction(group, layout, storage, calls, residence, options),
      cut_buckets(registry.units().size()) {
  for (size_t i = 0; i < layout.buckets.size(); ++i) {
    const int bucket = static_cast<int>(i);
    order.push_back(bucket);
    if (!residence.GradientsAreCut(bucket)) continue;
    for (const int unit : layout.buckets[i].units)
      cut_buckets[static_cast<size_t>(unit)].push_back(bucket);
  }
}

std::shared_ptr<ProcessGroup> Context::Machine::Watched(ContextGroup channel,
                                                        std::shared_ptr<ProcessGroup> unwatched) {
  return watch == nullptr ? unwatched : watch->Watch(channel, std::move(unwatched));
}

// The flag is set after the lock and cleared before the unlock, so whoever sees it clear and fails to
// take the lock has met another section, which will look.
void Context::EnterSection() {
  mutex_.Lock();
  inside_.store(true, std::memory_order_seq_cst);
}

void Context::LeaveSection() {
  for (;;) {
    if (rung_.exchange(false, std::memory_order_seq_cst) && machine_ != nullptr && failure_.ok()) {
      (void)Latch(Look());
    }
    inside_.store(false, std::memory_order_seq_cst);
    mutex_.Unlock();
    if (!rung_.load(std::memory_order_seq_cst) || !mutex_.TryLock()) return;
    inside_.store(true, std::memory_order_seq_cst);
  }
}

absl::Status Context::Advance() {
  if (!failure_.ok()) return failure_;
  return Latch(machine_->reduction.Advance());
}

absl::Status Context::Look() {
  WEFT_RETURN_IF_ERROR(machine_->reduction.Advance());
  return machine_->residence.Look();
}

// On a thread that may be inside a section itself, further up its stack: then that section looks.
void Context::AnswerDoorbell() {
  rung_.store(true, std::memory_order_seq_cst);
  if (inside_.load(std::memory_order_seq_cst) || !mutex_.TryLock()) return;
  inside_.store(true, std::memory_order_seq_cst);
  LeaveSection();
}

absl::Status Context::CheckPeers(const char* call) const {
  if (!mesh_->dry()) return absl::OkStatus();
  return MakeError(WEFT_INVALID_USAGE, {.operation = call},
                   StrCat(call,
                          ": the context's mesh is dry: its ranks do not exist, so it can be "
                          "planned only; make the mesh with weft_mesh_create"));
}

absl::Status Context::CheckUsable(const char* call) const {
  WEFT_RETURN_IF_ERROR(CheckPeers(call));
  if (!failure_.ok()) return Annotate(failure_, StrCat(call, ": an earlier call failed: "));
  if (machine_ != nullptr) return absl::OkStatus();
  return MakeError(WEFT_BAD_STATE, {.operation = call},
                   StrCat(call,
                          " is not legal here: the context is not finalized; declare all "
                          "units, then call weft_shard_context_finalize"));
}

absl::Status Context::CheckDeclaring(const char* call) const {
  if (machine_ == nullptr) return absl::OkStatus();
  return MakeError(WEFT_BAD_STATE, {.operation = call},
                   StrCat(call,
                          " is not legal here: the context is finalized; units and "
                          "parameters are declared before that, finalize is called once"));
}

absl::Status Context::CheckSealed(std::string_view call) const {
  if (registry_.open_unit() < 0) return absl::OkStatus();
  return MakeError(
      WEFT_BAD_STATE, {.operation = std::string(call)},
      StrCat(call, ": unit ", registry_.units()[static_cast<size_t>(registry_.open_unit())].name,
             " is open; seal it first"));
}

absl::Status Context::Latch(const absl::Status& status) {
  if (status.ok() || !failure_.ok()) return status;
  failure_ = status;
  // What fails among some of the ranks is not known to the others, who will wait for this one elsewhere.
  if (mesh_->axes().size() > 1) EndGroups(status);
  return status;
}

absl::Status Context::LatchUnlocked(const absl::Status& status) {
  if (status.ok()) return status;
  Section section(*this);
  return Latch(status);
}

// The group of all ends first:
// where several ranks have found something, what it ended with is the cause in all of them.
void Context::EndGroups(const absl::Status& found) {
  const bool told = IsOfAllRanks(found);
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
  if (machine_ == nullptr) return;
  machine_->residence.ForEachGroup([&](ProcessGroup& ended) { end(ended, cause); });
  machine_->reduction.ForEachGroup([&](ProcessGroup& ended) { end(ended, cause); });
}

// The rank that this one waits for, in a group of some of the ranks, may itself be waiting in another one for a rank
// that will not come. Who knows that ends the group of all, at which everybody looks.
absl::Status Context::Await(Work& work, std::string_view what) {
  constexpr int64_t kLookNs = 100'000'000;
  WaitWatch* const watch = machine_ == nullptr ? nullptr : machine_->watch.get();
  if (watch == nullptr && mesh_->axes().size() == 1) return work.Wait(0);
  for (bool looked = false;; looked = true) {
    absl::Status status = work.Wait(kLookNs);
    if (ResultOf(status) != WEFT_IN_PROGRESS) {
      if (looked && watch != nullptr) watch->EndWait();
      if (watch == nullptr || !IsOfAllRanks(status)) return status;
      // Others may wait for this rank in another group.
      Section section(*this);
      EndGroups(status);
      return status;
    }
    const absl::Status cause = LookAround(work, what);
    if (cause.ok()) continue;
    Section section(*this);
    EndGroups(cause);
  }
}

absl::Status Context::LookAround(const Work& work, std::string_view what) {
  WEFT_RETURN_IF_ERROR(group().error());
  WaitWatch* const watch = machine_ == nullptr ? nullptr : machine_->watch.get();
  if (watch == nullptr) return absl::OkStatus();
  watch->NoteEnded();
  bool promises = false;
  std::string call;
  {
    // What completing threads would do for what has ended is done now, before the counts are shown.
    Section section(*this);
    if (!failure_.ok()) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(Latch(Look()));
    promises = !machine_->state.AwaitsGradients(entering_backward_);
    call = machine_->state.LastCall();
  }
  if (call.empty()) call = "before the first step";
  constexpr std::string_view kColon = ": ";
  if (what.ends_with(kColon)) what.remove_suffix(kColon.size());
  return watch->Look(work, promises, what.empty() ? call : StrCat(call, ", ", what));
}

absl::Status Context::RunAmong(ProcessGroup& among, const Collective& call) {
  const bool watched = machine_ != nullptr && machine_->watch != nullptr;
  if (watched || &among == mesh_->group().get()) return among.Run(call);
  WEFT_ASSIGN_OR_RETURN(const WorkRef work, among.Start(call));
  return Await(*work);
}

absl::StatusOr<int> Context::BeginUnit(std::string_view name, const Placement& placement) {
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckDeclaring("unit_begin"));
  planned_.reset();
  return registry_.BeginUnit(name, placement);
}

absl::StatusOr<int> Context::AddParam(int unit, std::string_view name, const int64_t* shape,
                                      int ndim, weft_dtype_t dtype, bool frozen, bool decays) {
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckDeclaring("unit_add_param"));
  planned_.reset();
  return registry_.AddParam(unit, name, shape, ndim, dtype, frozen, decays);
}

absl::Status Context::TieParam(int unit, std::string_view name, int param) {
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckDeclaring("unit_tie_param"));
  planned_.reset();
  return registry_.TieParam(unit, name, param);
}

absl::Status Context::SealUnit(int unit) {
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckDeclaring("unit_seal"));
  return registry_.SealUnit(unit);
}

absl::Status Context::AbortStep(std::string_view reason) {
  WEFT_RETURN_IF_ERROR(CheckPeers("abort_step"));
  Section section(*this);
  const int64_t step = machine_ == nullptr ? 0 : machine_->state.step();
  const std::string text = StrCat("rank ", group().rank(), " aborted step ", step, ": ",
                                  reason.empty() ? std::string_view("no reason given") : reason);
  if (failure_.ok()) {
    failure_ = MakeError(WEFT_ABORTED, CulpritOf(group(), group().rank(), "abort_step"), text);
  }
  EndGroups(MakeError(WEFT_ABORTED, text));
  return absl::OkStatus();
}

}  // namespace weft
