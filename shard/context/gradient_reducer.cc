// Reductions start inside a call that gives a gradient and end on any thread; here is decided only which may start. All
// ranks start them in one order, else the group's operations would not match, so a bucket that is complete early waits
// for its turn. Whoever waits does so without the mutex: a chain that goes on with the inter-replica all_reduce is
// continued by the thread that completes its first link, which needs it.
#include "shard/context/gradient_reducer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/kernels/dtype.h"
#include "shard/step/accumulate.h"

namespace weft {
namespace {

// The name of the unit whose gradients the bucket has; empty if there are several.
std::string_view OnlyUnitOf(const ContextCore& core, int bucket) {
  const std::vector<int>& units = core.runtime().layout.buckets[static_cast<size_t>(bucket)].units;
  return units.size() == 1 ? std::string_view(core.UnitOf(units[0]).name) : std::string_view();
}

}  // namespace

void GradientReducer::BeginStep() {
  folded_microbatches_ = 0;
  waited_ns_ = 0;
  last_ended_ns_ = 0;
}

void GradientReducer::BeginMicrobatch(int index, bool last) {
  Runtime& runtime = core_.runtime();
  if (ReducesThisMicrobatch()) {
    runtime.readiness.Reset();
    core_.purposes().BeginReducing();
  }
  if (core_.options().keeps_sums()) runtime.reduction.BeginMicrobatch(index == 0, last);
}

bool GradientReducer::ReducesThisMicrobatch() const {
  return core_.runtime().state.training() &&
         (core_.options().reduces_every() || core_.runtime().state.last_microbatch());
}

absl::Status GradientReducer::Settle(const std::vector<int>& params) {
  if (!ReducesThisMicrobatch()) return absl::OkStatus();
  for (const int param : params) {
    ZeroIfUnset(param);
    core_.runtime().readiness.Settle(param);
  }
  if (!core_.options().overlap) return absl::OkStatus();
  return StartComplete();
}

absl::Status GradientReducer::StartComplete() {
  WEFT_RETURN_IF_ERROR(core_.failure());
  Readiness& readiness = core_.runtime().readiness;
  for (int bucket = readiness.Next(); bucket >= 0; bucket = readiness.Next()) {
    WEFT_RETURN_IF_ERROR(core_.Latch(WithSubject(Start(bucket), OnlyUnitOf(core_, bucket), {})));
    readiness.Started();
  }
  return absl::OkStatus();
}

// A bucket that no unit ran backward for still has to be reduced: its gradients are zero on this rank.
absl::Status GradientReducer::Start(int bucket) {
  Runtime& runtime = core_.runtime();
  if (runtime.unshard_manager.GradientsAreSharded(bucket)) {
    WEFT_ASSIGN_OR_RETURN(const bool fresh, runtime.unshard_manager.PlaceGradients(bucket));
    if (fresh) {
      std::memset(runtime.unshard_manager.BucketData(bucket), 0,
                  runtime.layout.buckets[static_cast<size_t>(bucket)].bytes);
    }
  }
  return runtime.reduction.Start(bucket);
}

// Nobody writes it any more before it is reduced.
void GradientReducer::ZeroIfUnset(int param) {
  Runtime& runtime = core_.runtime();
  if (!runtime.clearing.Unset(param)) return;
  const Space& space = runtime.layout.spaces[static_cast<size_t>(runtime.PlaceOf(param).space)];
  std::memset(runtime.GradientOf(param), 0,
              core_.SpecOf(param).count * DtypeSize(space.grad_dtype));
  runtime.clearing.Written(param);
}

void GradientReducer::ClearBucket(int bucket) {
  Runtime& runtime = core_.runtime();
  runtime.clearing.ZeroBucket(bucket, runtime.unshard_manager.BucketData(bucket));
  Section section(core_.mutex);
  runtime.clearing.BucketBegins(bucket);
}

void GradientReducer::ClearWhole() {
  Runtime& runtime = core_.runtime();
  runtime.clearing.ZeroWhole(runtime.storage);
  Section section(core_.mutex);
  runtime.clearing.WholeBegins();
}

absl::Status GradientReducer::Fold() {
  {
    Section section(core_.mutex);
    if (!fold_pending_ || !core_.failure().ok()) return core_.failure();
  }
  WEFT_RETURN_IF_ERROR(WaitForAll());
  AddToAccumulated();
  ClearWhole();
  ++folded_microbatches_;
  Section section(core_.mutex);
  fold_pending_ = false;
  return absl::OkStatus();
}

absl::StatusOr<bool> GradientReducer::EndMicrobatch() {
  const StepState& state = core_.runtime().state;
  fold_pending_ = core_.options().reduces_every() && state.training() && !state.last_microbatch();
  if (!fold_pending_ || core_.options().overlap) return false;
  WEFT_RETURN_IF_ERROR(StartComplete());
  return true;
}

absl::Status GradientReducer::WaitForStarted(const std::vector<StartedReduce>& started) {
  absl::Status first_failure;
  const int64_t begin_ns = MonotonicNs();
  for (const StartedReduce& reduce : started) {
    const absl::Status status = core_.Await(*reduce.work, "reducing gradients: ");
    if (!status.ok() && first_failure.ok()) {
      first_failure =
          WithSubject(Annotate(status, StrCat("reducing gradient bucket ", reduce.bucket, ": ")),
                      OnlyUnitOf(core_, reduce.bucket), {});
    }
    // The callback may still be on its way on the completing thread.
    const int64_t ended_ns = reduce.ended_ns->load(std::memory_order_acquire);
    last_ended_ns_ = std::max(last_ended_ns_, ended_ns != 0 ? ended_ns : MonotonicNs());
  }
  if (!started.empty()) waited_ns_ += MonotonicNs() - begin_ns;
  return first_failure;
}

// Chains go on while they are waited for, so new works may come.
absl::Status GradientReducer::WaitForAll() {
  for (;;) {
    std::vector<StartedReduce> started;
    absl::Status advanced;
    {
      Section section(core_.mutex);
      advanced = core_.Advance();
      started = core_.runtime().reduction.TakeStarted();
    }
    absl::Status status = WaitForStarted(started);
    if (status.ok()) status = advanced;
    if (!status.ok()) {
      Section section(core_.mutex);
      return core_.Latch(Annotate(status, StrCat("step ", core_.runtime().state.step(),
                                                 " on group ", core_.group().name(), ": ")));
    }
    if (started.empty()) return absl::OkStatus();
  }
}

// A bucket whose turn has not come waits for other units' gradients, which this thread may be the one to give.
absl::Status GradientReducer::CheckUnderWay(int unit) const {
  Runtime& runtime = core_.runtime();
  WEFT_RETURN_IF_ERROR(runtime.state.CheckReduceWait(unit));
  if (!core_.options().overlap) {
    return runtime.state.NotInUse(
        "reduce_wait", unit,
        "the context does not overlap: reductions start when the micro-batch has ended; wait in "
        "finish");
  }
  if (!ReducesThisMicrobatch() ||
      (core_.options().keeps_sums() && !runtime.state.last_microbatch())) {
    return runtime.state.NotInUse(
        "reduce_wait", unit,
        "gradients are not reduced to the end in this micro-batch; wait in the step's last one");
  }
  const std::vector<Bucket>& buckets = runtime.layout.buckets;
  const std::span<const int> waiting = runtime.readiness.NotStarted();
  for (const int bucket : waiting) {
    const std::vector<int>& units = buckets[static_cast<size_t>(bucket)].units;
    if (std::find(units.begin(), units.end(), unit) == units.end()) continue;
    const int first = buckets[static_cast<size_t>(waiting.front())].units.front();
    return runtime.state.NotInUse(
        "reduce_wait", unit,
        StrCat("its reduction has not started, as that of unit ", core_.UnitOf(first).name,
               " comes first and is not complete: run its backward, or wait in finish"));
  }
  return absl::OkStatus();
}

absl::Status GradientReducer::WaitForUnit(int unit) {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("reduce_wait"));
    WEFT_RETURN_IF_ERROR(CheckUnderWay(unit));
  }
  const std::vector<Bucket>& buckets = core_.runtime().layout.buckets;
  for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    const std::vector<int>& units = buckets[bucket].units;
    if (std::find(units.begin(), units.end(), unit) == units.end()) continue;
    for (;;) {
      Works left;
      {
        Section section(core_.mutex);
        WEFT_RETURN_IF_ERROR(core_.Advance());
        left = core_.runtime().reduction.Left(static_cast<int>(bucket));
      }
      if (left.empty()) break;
      WEFT_RETURN_IF_ERROR(core_.AwaitAll(left, StrCat("reducing gradient bucket ", bucket, ": "),
                                          &waited_ns_, core_.UnitOf(unit).name));
    }
  }
  return absl::OkStatus();
}

absl::Status GradientReducer::Finish() {
  WEFT_RETURN_IF_ERROR(WaitForAll());
  if (folded_microbatches_ > 0) AddFromAccumulated();
  return absl::OkStatus();
}

int64_t GradientReducer::busy_ns() const {
  const int64_t first_ns = core_.runtime().reduction.first_start_ns();
  return first_ns == 0 ? 0 : std::max<int64_t>(0, last_ended_ns_ - first_ns);
}

bool GradientReducer::FoldsReduced(const Space& space) const {
  return !space.frozen && !(core_.options().keeps_sums() && space.placement.replicated);
}

void GradientReducer::AddToAccumulated() const {
  const Layout& layout = core_.runtime().layout;
  for (const Extent& extent : layout.extents) {
    if (!FoldsReduced(layout.SpaceOf(extent))) continue;
    const weft_dtype_t dtype = layout.SpaceOf(extent).grad_dtype;
    const Part grads = core_.runtime().storage.Reduced(layout, extent);
    std::byte* const total = core_.runtime().storage.Accumulated(layout, extent);
    if (grads.count == 0) continue;
    if (folded_microbatches_ == 0) {
      std::memcpy(total, grads.data, grads.count * DtypeSize(dtype));
    } else {
      AddTo(total, grads.data, grads.count, dtype, core_.isa());
    }
  }
}

void GradientReducer::AddFromAccumulated() const {
  const Layout& layout = core_.runtime().layout;
  for (const Extent& extent : layout.extents) {
    if (!FoldsReduced(layout.SpaceOf(extent))) continue;
    const Part grads = core_.runtime().storage.Reduced(layout, extent);
    if (grads.count == 0) continue;
    AddTo(grads.data, core_.runtime().storage.Accumulated(layout, extent), grads.count,
          layout.SpaceOf(extent).grad_dtype, core_.isa());
  }
}

}  // namespace weft
