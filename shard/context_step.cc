// Context, the calls of a step.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/kernels/dtype.h"
#include "shard/accumulate.h"
#include "shard/context.h"

namespace weft {
namespace {

// Not Ok if `grad` reaches into the gradient's own memory.
absl::Status CheckApart(const ParamSpec& param, const void* own, const void* grad) {
  const size_t bytes = param.count * DtypeSize(param.dtype);
  const auto own_begin = reinterpret_cast<uintptr_t>(own);
  const auto begin = reinterpret_cast<uintptr_t>(grad);
  if (begin >= own_begin + bytes || own_begin >= begin + bytes) return absl::OkStatus();
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "grad_ready"},
                   StrCat("grad_ready ", param.name,
                          ": grad overlaps the parameter's own "
                          "gradient; pass NULL for a gradient written in place"));
}

}  // namespace

absl::Status Context::StepBegin(weft_shard_mode_t mode, uint64_t tag) {
  {
    MutexLock lock(mutex_);
    WEFT_RETURN_IF_ERROR(CheckUsable("step_begin"));
    WEFT_RETURN_IF_ERROR(Latch(Annotate(group().error(), "step_begin: ")));
    WEFT_RETURN_IF_ERROR(machine_->state.StepBegin(mode, tag));
    machine_->reduction.BeginStep();
  }
  folded_microbatches_ = 0;
  times_ = WaitTimes();
  if (mode == WEFT_SHARD_TRAIN) machine_->storage.ZeroGradients();
  return absl::OkStatus();
}

absl::Status Context::MicrobatchBegin(int index, bool last) {
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckUsable("microbatch_begin"));
  WEFT_RETURN_IF_ERROR(machine_->state.MicrobatchBegin(index, last));
  if (ReducesThisMicrobatch()) {
    machine_->readiness.Reset();
    machine_->next_bucket = 0;
  }
  return absl::OkStatus();
}

absl::Status Context::PreForward(int unit) {
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckUsable("pre_forward"));
  return machine_->state.PreForward(unit);
}

absl::Status Context::PostForward(int unit) {
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckUsable("post_forward"));
  return machine_->state.PostForward(unit);
}

absl::Status Context::PreBackward(int unit) {
  WEFT_RETURN_IF_ERROR(FoldMicrobatch());
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckUsable("pre_backward"));
  return machine_->state.PreBackward(unit);
}

absl::Status Context::GradReady(int param, const void* grad) {
  void* own = nullptr;
  const ParamSpec* spec = nullptr;
  {
    MutexLock lock(mutex_);
    WEFT_RETURN_IF_ERROR(CheckUsable("grad_ready"));
    spec = &registry_.params()[static_cast<size_t>(param)];
    if (!spec->frozen && spec->count > 0) {
      const Place& place = machine_->layout.places[static_cast<size_t>(param)];
      own = machine_->storage.Grad(place.space, place.begin);
    }
    if (grad != nullptr && own != nullptr) WEFT_RETURN_IF_ERROR(CheckApart(*spec, own, grad));
    WEFT_RETURN_IF_ERROR(machine_->state.ClaimGradient(param));
  }
  // The claim keeps everybody else, reductions too, away from this gradient.
  if (grad != nullptr && own != nullptr) AddTo(own, grad, spec->count, spec->dtype, isa_);
  MutexLock lock(mutex_);
  machine_->state.GradientReady(param);
  return SettleParams({param});
}

absl::Status Context::PostBackward(int unit) {
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckUsable("post_backward"));
  std::vector<int> missing;
  WEFT_RETURN_IF_ERROR(machine_->state.PostBackward(unit, missing));
  return SettleParams(missing);
}

absl::Status Context::MicrobatchEnd() {
  WEFT_RETURN_IF_ERROR(FoldMicrobatch());
  {
    MutexLock lock(mutex_);
    WEFT_RETURN_IF_ERROR(CheckUsable("microbatch_end"));
    std::vector<int> missing;
    WEFT_RETURN_IF_ERROR(machine_->state.MicrobatchEnd(missing));
    WEFT_RETURN_IF_ERROR(SettleParams(missing));
    fold_pending_ =
        reduces_every() && machine_->state.training() && !machine_->state.last_microbatch();
    if (!fold_pending_ || options_.overlap) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(StartComplete());
  }
  return FoldMicrobatch();
}

absl::StatusOr<weft_shard_step_result_t> Context::Finish() {
  std::vector<StartedReduce> started;
  {
    MutexLock lock(mutex_);
    WEFT_RETURN_IF_ERROR(CheckUsable("finish"));
    WEFT_RETURN_IF_ERROR(machine_->state.FinishBegin());
    if (machine_->state.training()) WEFT_RETURN_IF_ERROR(StartComplete());
    started = machine_->reduction.TakeStarted();
  }
  const absl::Status reduced = WaitFor(started, &times_);
  if (reduced.ok() && folded_microbatches_ > 0) AddFromAccumulated();

  MutexLock lock(mutex_);
  if (!reduced.ok()) {
    return Latch(Annotate(reduced, StrCat("finish of step ", machine_->state.step(), " on group ",
                                          group().name(), ": ")));
  }
  weft_shard_step_result_t result = {};
  result.struct_size = sizeof(result);
  if (machine_->state.training()) {
    const int64_t first_ns = machine_->reduction.first_start_ns();
    if (first_ns != 0) result.comm_ns = std::max<int64_t>(0, times_.last_ended_ns - first_ns);
    result.comm_exposed_ns = times_.waited_ns;
    result.reduced_bytes = machine_->reduction.started_bytes();
    result.order_changed = machine_->readiness.CompareOrder(machine_->state.tag()) ? 1 : 0;
  }
  machine_->state.FinishEnd();
  return result;
}

absl::Status Context::StepEnd() {
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckUsable("step_end"));
  return machine_->state.StepEnd();
}

bool Context::ReducesThisMicrobatch() const {
  return machine_->state.training() && (reduces_every() || machine_->state.last_microbatch());
}

absl::Status Context::SettleParams(const std::vector<int>& params) {
  if (!ReducesThisMicrobatch()) return absl::OkStatus();
  for (const int param : params)
    machine_->readiness.Settle(param);
  if (!options_.overlap) return absl::OkStatus();
  return StartComplete();
}

// A bucket that is complete before its predecessors waits for them: all ranks start them in one
// order, or the group's operations would not match.
absl::Status Context::StartComplete() {
  if (!failure_.ok()) return failure_;
  const int count = static_cast<int>(machine_->layout.buckets.size());
  int& next = machine_->next_bucket;
  while (next < count && machine_->readiness.Complete(next)) {
    WEFT_RETURN_IF_ERROR(Latch(machine_->reduction.Start(next)));
    ++next;
  }
  return absl::OkStatus();
}

absl::Status Context::FoldMicrobatch() {
  std::vector<StartedReduce> started;
  {
    MutexLock lock(mutex_);
    if (!fold_pending_ || !failure_.ok()) return failure_;
    started = machine_->reduction.TakeStarted();
  }
  WEFT_RETURN_IF_ERROR(LatchUnlocked(WaitFor(started, &times_)));
  AddToAccumulated();
  machine_->storage.ZeroGradients();
  ++folded_microbatches_;
  MutexLock lock(mutex_);
  fold_pending_ = false;
  return absl::OkStatus();
}

void Context::AddToAccumulated() const {
  const std::vector<Space>& spaces = machine_->layout.spaces;
  for (size_t i = 0; i < spaces.size(); ++i) {
    if (spaces[i].frozen || spaces[i].count == 0) continue;
    std::byte* const total = machine_->storage.Accumulated(static_cast<int>(i), 0);
    const std::byte* const grads = machine_->storage.Grad(static_cast<int>(i), 0);
    if (folded_microbatches_ == 0) {
      std::memcpy(total, grads, spaces[i].count * DtypeSize(spaces[i].dtype));
    } else {
      AddTo(total, grads, spaces[i].count, spaces[i].dtype, isa_);
    }
  }
}

void Context::AddFromAccumulated() const {
  const std::vector<Space>& spaces = machine_->layout.spaces;
  for (size_t i = 0; i < spaces.size(); ++i) {
    if (spaces[i].frozen || spaces[i].count == 0) continue;
    AddTo(machine_->storage.Grad(static_cast<int>(i), 0),
          machine_->storage.Accumulated(static_cast<int>(i), 0), spaces[i].count, spaces[i].dtype,
          isa_);
  }
}

}  // namespace weft
