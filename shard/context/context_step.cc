// Context, the calls of a step.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/kernels/dtype.h"
#include "shard/context/context.h"
#include "shard/context/section.h"
#include "shard/step/accumulate.h"

namespace weft {
namespace {

// Not Ok if `grad` reaches into the gradient's own memory.
absl::Status CheckApart(const ParamSpec& param, weft_dtype_t dtype, const void* own,
                        const void* grad) {
  const size_t bytes = param.count * DtypeSize(dtype);
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
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("step_begin"));
    WEFT_RETURN_IF_ERROR(Latch(Annotate(group().error(), "step_begin: ")));
    WEFT_RETURN_IF_ERROR(machine_->state.StepBegin(mode, tag));
    if (mode == WEFT_SHARD_TRAIN) {
      machine_->reduction.BeginStep();
      purposes_.BeginStep();
    }
    Expect(mode, tag);
  }
  folded_microbatches_ = 0;
  times_ = WaitTimes();
  gather_waited_ns_ = 0;
  clock_.Begin();
  if (mode == WEFT_SHARD_TRAIN) machine_->storage.ZeroGradients(machine_->layout);
  return absl::OkStatus();
}

absl::Status Context::MicrobatchBegin(int index, bool last) {
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("microbatch_begin"));
    WEFT_RETURN_IF_ERROR(machine_->state.MicrobatchBegin(index, last));
  }
  if (options_.uneven && index == 0 && !joined_) {
    WEFT_RETURN_IF_ERROR(TakeTurn(/*active=*/true).status());
  }
  Section section(*this);
  purposes_.BeginMicrobatch(index);
  if (ReducesThisMicrobatch()) {
    machine_->readiness.Reset();
    purposes_.BeginReducing();
    machine_->next_bucket = 0;
  }
  if (keeps_sums()) machine_->reduction.BeginMicrobatch(index == 0, last);
  WEFT_RETURN_IF_ERROR(Note({Event::Kind::kMicrobatchBegin, last ? 1 : 0}));
  return Latch(machine_->residence.Served());
}

absl::Status Context::PreForward(int unit) {
  Works needed;
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("pre_forward"));
    WEFT_RETURN_IF_ERROR(machine_->state.PreForward(unit));
    WEFT_RETURN_IF_ERROR(Note({Event::Kind::kPreForward, unit}));
    WEFT_ASSIGN_OR_RETURN(needed, AskForUsed(unit, &Residence::Need));
    if (needed.empty()) return Latch(machine_->residence.Served());
  }
  WEFT_RETURN_IF_ERROR(WaitForUsed(unit, &Residence::Need, std::move(needed)));
  Section section(*this);
  return Latch(machine_->residence.Served());
}

absl::Status Context::PostForward(int unit) {
  Section section(*this);
  WEFT_RETURN_IF_ERROR(CheckUsable("post_forward"));
  WEFT_RETURN_IF_ERROR(machine_->state.PostForward(unit));
  WEFT_RETURN_IF_ERROR(Note({Event::Kind::kPostForward, unit}));
  WEFT_RETURN_IF_ERROR(LetGoUsed(unit, /*in_backward=*/false));
  return Latch(machine_->residence.Served());
}

absl::Status Context::PreBackward(int unit) {
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("pre_backward"));
    WEFT_RETURN_IF_ERROR(machine_->state.PreBackward(unit));
  }
  entering_backward_ = unit;
  const absl::Status entered = EnterBackward(unit);
  entering_backward_ = -1;
  WEFT_RETURN_IF_ERROR(entered);
  Section section(*this);
  return Latch(machine_->residence.Served());
}

absl::Status Context::EnterBackward(int unit) {
  WEFT_RETURN_IF_ERROR(FoldMicrobatch());
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(Note({Event::Kind::kPreBackward, unit}));
  }
  WEFT_RETURN_IF_ERROR(WaitForUsed(unit, &Residence::Need));
  for (const int used : UsedBy(unit))
    WEFT_RETURN_IF_ERROR(MakeGradients(used));
  return absl::OkStatus();
}

absl::Status Context::GradReady(int param, const void* grad) {
  void* own = nullptr;
  const ParamSpec* spec = nullptr;
  weft_dtype_t dtype = WEFT_FLOAT32;
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("grad_ready"));
    spec = &registry_.params()[static_cast<size_t>(param)];
    if (!spec->frozen && spec->count > 0) {
      own = GradientOf(param);
      const int space = machine_->layout.places[static_cast<size_t>(param)].space;
      dtype = machine_->layout.spaces[static_cast<size_t>(space)].grad_dtype;
    }
    if (grad != nullptr && own != nullptr) {
      WEFT_RETURN_IF_ERROR(CheckApart(*spec, dtype, own, grad));
    }
    WEFT_RETURN_IF_ERROR(machine_->state.ClaimGradient(param));
  }
  // The claim keeps everybody else, reductions too, away from this gradient.
  if (grad != nullptr && own != nullptr) AddTo(own, grad, spec->count, dtype, isa_);
  Section section(*this);
  if (!machine_->state.GradientReady(param)) return absl::OkStatus();
  return SettleParams({param});
}

// nullptr while the gradients of the param's bucket are not whole; then no gradient is legal.
std::byte* Context::GradientOf(int param) const {
  const Place& place = machine_->layout.places[static_cast<size_t>(param)];
  if (!machine_->residence.GradientsAreCut(place.bucket)) {
    return machine_->storage.Grad(place.space, place.begin);
  }
  return WholeGradient(param);
}

absl::Status Context::PostBackward(int unit) {
  Section section(*this);
  WEFT_RETURN_IF_ERROR(CheckUsable("post_backward"));
  std::vector<int> settled;
  WEFT_RETURN_IF_ERROR(machine_->state.PostBackward(unit, settled));
  WEFT_RETURN_IF_ERROR(Note({Event::Kind::kPostBackward, unit}));
  WEFT_RETURN_IF_ERROR(LetGoUsed(unit, /*in_backward=*/true));
  WEFT_RETURN_IF_ERROR(SettleParams(settled));
  return Latch(machine_->residence.Served());
}

absl::Status Context::MicrobatchEnd() {
  std::vector<int> settled;
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("microbatch_end"));
    WEFT_RETURN_IF_ERROR(machine_->state.MicrobatchEnd(settled));
  }
  WEFT_RETURN_IF_ERROR(FoldMicrobatch());
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(Note({Event::Kind::kMicrobatchEnd, 0}));
    machine_->residence.LetGoIdle();
  }
  WEFT_RETURN_IF_ERROR(MakeUntouched());
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(SettleParams(settled));
    WEFT_RETURN_IF_ERROR(Latch(machine_->residence.Served()));
    fold_pending_ =
        reduces_every() && machine_->state.training() && !machine_->state.last_microbatch();
    if (!fold_pending_ || options_.overlap) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(StartComplete());
  }
  return FoldMicrobatch();
}

absl::Status Context::WaitForStarted(const std::vector<StartedReduce>& started) {
  absl::Status first_failure;
  const int64_t begin_ns = MonotonicNs();
  for (const StartedReduce& reduce : started) {
    const absl::Status status = Await(*reduce.work, "reducing gradients: ");
    if (!status.ok() && first_failure.ok()) {
      first_failure = Annotate(status, StrCat("reducing gradient bucket ", reduce.bucket, ": "));
    }
    // The callback may still be on its way on the completing thread.
    const int64_t ended_ns = reduce.ended_ns->load(std::memory_order_acquire);
    times_.last_ended_ns = std::max(times_.last_ended_ns, ended_ns != 0 ? ended_ns : MonotonicNs());
  }
  if (!started.empty()) times_.waited_ns += MonotonicNs() - begin_ns;
  return first_failure;
}

// Chains go on while they are waited for, so new works may come.
absl::Status Context::WaitForReductions() {
  for (;;) {
    std::vector<StartedReduce> started;
    absl::Status advanced;
    {
      Section section(*this);
      advanced = Advance();
      started = machine_->reduction.TakeStarted();
    }
    absl::Status status = WaitForStarted(started);
    if (status.ok()) status = advanced;
    if (!status.ok()) {
      Section section(*this);
      return Latch(Annotate(
          status, StrCat("step ", machine_->state.step(), " on group ", group().name(), ": ")));
    }
    if (started.empty()) return absl::OkStatus();
  }
}

absl::StatusOr<weft_shard_step_result_t> Context::Finish() {
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("finish"));
    WEFT_RETURN_IF_ERROR(machine_->state.FinishBegin());
    if (machine_->state.training()) WEFT_RETURN_IF_ERROR(StartComplete());
    WEFT_RETURN_IF_ERROR(Note({Event::Kind::kFinish, 0}));
    purposes_.EndMicrobatches();
  }
  clock_.Computed(gather_waited_ns_ + times_.waited_ns);
  WEFT_RETURN_IF_ERROR(WaitForReductions());
  if (folded_microbatches_ > 0) AddFromAccumulated();
  weft_shard_step_result_t result = {};
  result.struct_size = sizeof(result);
  result.gather_exposed_ns = gather_waited_ns_;
  WEFT_RETURN_IF_ERROR(Drain());
  WEFT_RETURN_IF_ERROR(AgreeOnOrder(&result));

  Section section(*this);
  if (!failure_.ok()) return failure_;
  result.gathered_bytes = machine_->residence.gathered_bytes();
  if (machine_->state.training()) {
    const int64_t first_ns = machine_->reduction.first_start_ns();
    if (first_ns != 0) result.comm_ns = std::max<int64_t>(0, times_.last_ended_ns - first_ns);
    result.comm_exposed_ns = times_.waited_ns;
    result.reduced_bytes = machine_->reduction.started_bytes();
    clock_.Finished(result.gather_exposed_ns, times_.waited_ns);
    if (machine_->readiness.CompareOrder(machine_->state.tag())) result.order_changed = 1;
  }
  machine_->state.FinishEnd();
  return result;
}

absl::Status Context::StepEnd() {
  bool ended = false;
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("step_end"));
    ended = machine_->state.training();
    const bool finished = machine_->state.finished();
    WEFT_RETURN_IF_ERROR(machine_->state.StepEnd());
    purposes_.EndMicrobatches();
    if (options_.uneven && !finished) RememberCalls();
  }
  return ended ? VerifyIfDue("step_end") : Drain();
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
  const std::vector<int>& order = machine_->order;
  size_t& next = machine_->next_bucket;
  while (next < order.size() && machine_->readiness.Complete(order[next])) {
    WEFT_RETURN_IF_ERROR(Latch(StartReduction(order[next])));
    ++next;
  }
  return absl::OkStatus();
}

// A bucket that no unit ran backward for still has to be reduced: its gradients are zero on this rank.
absl::Status Context::StartReduction(int bucket) {
  if (machine_->residence.GradientsAreCut(bucket)) {
    WEFT_ASSIGN_OR_RETURN(const bool fresh, machine_->residence.PlaceGradients(bucket));
    if (fresh) Zero(bucket);
  }
  return machine_->reduction.Start(bucket);
}

absl::Status Context::FoldMicrobatch() {
  {
    Section section(*this);
    if (!fold_pending_ || !failure_.ok()) return failure_;
  }
  WEFT_RETURN_IF_ERROR(WaitForReductions());
  AddToAccumulated();
  machine_->storage.ZeroGradients(machine_->layout);
  ++folded_microbatches_;
  Section section(*this);
  fold_pending_ = false;
  return absl::OkStatus();
}

bool Context::FoldsReduced(const Space& space) const {
  return !space.frozen && !(keeps_sums() && space.placement.replicated);
}

void Context::AddToAccumulated() const {
  const Layout& layout = machine_->layout;
  for (const Extent& extent : layout.extents) {
    if (!FoldsReduced(layout.SpaceOf(extent))) continue;
    const weft_dtype_t dtype = layout.SpaceOf(extent).grad_dtype;
    const Part grads = machine_->storage.Reduced(layout, extent);
    std::byte* const total = machine_->storage.Accumulated(layout, extent);
    if (grads.count == 0) continue;
    if (folded_microbatches_ == 0) {
      std::memcpy(total, grads.data, grads.count * DtypeSize(dtype));
    } else {
      AddTo(total, grads.data, grads.count, dtype, isa_);
    }
  }
}

void Context::AddFromAccumulated() const {
  const Layout& layout = machine_->layout;
  for (const Extent& extent : layout.extents) {
    if (!FoldsReduced(layout.SpaceOf(extent))) continue;
    const Part grads = machine_->storage.Reduced(layout, extent);
    if (grads.count == 0) continue;
    AddTo(grads.data, machine_->storage.Accumulated(layout, extent), grads.count,
          layout.SpaceOf(extent).grad_dtype, isa_);
  }
}

}  // namespace weft
