#include "shard/context.h"

#include <utility>

#include "base/status.h"
#include "base/text.h"

namespace weft {

absl::StatusOr<std::unique_ptr<Context>> Context::Create(std::shared_ptr<const Mesh> mesh,
                                                         const ContextOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const Isa isa, SelectIsa());
  return std::unique_ptr<Context>(new Context(std::move(mesh), options, isa));
}

Context::Context(std::shared_ptr<const Mesh> mesh, const ContextOptions& options, Isa isa)
    : mesh_(std::move(mesh)), options_(options), isa_(isa) {}

Context::~Context() {
  if (machine_ == nullptr) return;
  const std::vector<StartedReduce> started = machine_->reduction.TakeStarted();
  bool ended = true;
  for (const StartedReduce& reduce : started)
    ended = reduce.work->Test() && ended;
  if (ended) return;
  // A peer may never come to meet these; the memory must be quiet before it goes.
  group().Abort(StrCat("rank ", group().rank(),
                       " destroyed its shard context while gradients were being reduced"));
  for (const StartedReduce& reduce : started)
    (void)reduce.work->Wait(0);
}

Context::Machine::Machine(const Registry& registry, Layout planned, Storage allocated,
                          std::shared_ptr<ProcessGroup> group, const Reduction::Options& options)
    : layout(std::move(planned)),
      storage(std::move(allocated)),
      state(registry),
      readiness(layout),
      reduction(std::move(group), layout, storage, options) {}

absl::Status Context::CheckUsable(const char* call) const {
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

absl::Status Context::Latch(const absl::Status& status) {
  if (failure_.ok()) failure_ = status;
  return status;
}

absl::Status Context::LatchUnlocked(const absl::Status& status) {
  if (status.ok()) return status;
  MutexLock lock(mutex_);
  return Latch(status);
}

absl::StatusOr<int> Context::BeginUnit(std::string_view name) {
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckDeclaring("unit_begin"));
  return registry_.BeginUnit(name);
}

absl::StatusOr<int> Context::AddParam(int unit, std::string_view name, const int64_t* shape,
                                      int ndim, weft_dtype_t dtype, bool frozen) {
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckDeclaring("unit_add_param"));
  return registry_.AddParam(unit, name, shape, ndim, dtype, frozen);
}

absl::Status Context::SealUnit(int unit) {
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckDeclaring("unit_seal"));
  return registry_.SealUnit(unit);
}

absl::StatusOr<ParamView> Context::View(int param) {
  MutexLock lock(mutex_);
  if (machine_ == nullptr) WEFT_RETURN_IF_ERROR(CheckUsable("param_view"));
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  ParamView view{.count = spec.count, .dtype = spec.dtype};
  if (spec.count == 0) return view;
  const Place& place = machine_->layout.places[static_cast<size_t>(param)];
  view.data = machine_->storage.Data(place.space, place.begin);
  if (!spec.frozen) view.grad = machine_->storage.Grad(place.space, place.begin);
  return view;
}

absl::Status Context::AbortStep(std::string_view reason) {
  std::string text;
  {
    MutexLock lock(mutex_);
    const int64_t step = machine_ == nullptr ? 0 : machine_->state.step();
    text = StrCat("rank ", group().rank(), " aborted step ", step, ": ",
                  reason.empty() ? std::string_view("no reason given") : reason);
    if (failure_.ok()) {
      failure_ = MakeError(
          WEFT_ABORTED,
          {.rank = group().rank(), .group = group().name(), .operation = "abort_step"}, text);
    }
  }
  group().Abort(text);
  return absl::OkStatus();
}

}  // namespace weft
