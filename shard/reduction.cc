#include "shard/reduction.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {

Reduction::Reduction(std::shared_ptr<ProcessGroup> group, const Layout& layout,
                     const Storage& storage, const ExtentCalls& calls, Residence& residence,
                     const Options& options)
    : group_(std::move(group)),
      layout_(layout),
      storage_(storage),
      calls_(calls),
      residence_(residence),
      options_(options) {}

Collective Reduction::CallOf(int bucket, int extent) const {
  const Extent& of = layout_.extents[static_cast<size_t>(extent)];
  const Placement& placement = layout_.SpaceOf(of).placement;
  std::byte* const own = storage_.Reduced(layout_, of).data;
  if (placement.optimizer_cut) {
    const std::byte* const whole = placement.gradients_cut
                                       ? residence_.BucketExtent(bucket, extent)
                                       : storage_.Grad(of.range.space, of.range.begin);
    return calls_.Reduce(extent, options_.op, whole, own);
  }
  return {.kind = OpKind::kAllReduce,
          .dtype = layout_.SpaceOf(of).dtype,
          .op = options_.op,
          .count = of.range.count,
          .in = own,
          .out = own,
          .timeout_ns = options_.timeout_ns};
}

absl::Status Reduction::Start(int bucket) {
  if (first_start_ns_ == 0) first_start_ns_ = MonotonicNs();
  Works works;
  for (const int extent : layout_.buckets[static_cast<size_t>(bucket)].pack.extents) {
    Collective call = CallOf(bucket, extent);
    call.tag = static_cast<uint64_t>(bucket);
    absl::StatusOr<WorkRef> work = group_->Start(call);
    if (!work.ok()) {
      // If a reduction started before it has ended the group, this is the refusal and not the cause.
      const absl::Status cause = group_->error();
      return Annotate(cause.ok() ? work.status() : cause,
                      StrCat("reducing gradient bucket ", bucket, ": "));
    }
    works.push_back(*work);
    started_.push_back({*std::move(work), bucket, std::make_shared<std::atomic<int64_t>>(0)});
  }
  if (residence_.GradientsAreCut(bucket)) residence_.ReductionStarted(bucket, works);
  // Last, because one that has ended calls back at once.
  for (size_t i = started_.size() - works.size(); i < started_.size(); ++i) {
    started_[i].work->OnComplete(
        [ended_ns = started_[i].ended_ns, doorbell = options_.doorbell](const absl::Status&) {
          ended_ns->store(MonotonicNs(), std::memory_order_release);
          if (doorbell != nullptr) doorbell->Ring();
        });
  }
  started_bytes_ += layout_.buckets[static_cast<size_t>(bucket)].bytes;
  return absl::OkStatus();
}

std::vector<StartedReduce> Reduction::TakeStarted() {
  return std::exchange(started_, {});
}

void Reduction::BeginStep() {
  first_start_ns_ = 0;
  started_bytes_ = 0;
}

absl::Status WaitFor(const std::vector<StartedReduce>& started, WaitTimes* times) {
  absl::Status first_failure;
  const int64_t begin_ns = MonotonicNs();
  for (const StartedReduce& reduce : started) {
    const absl::Status status = reduce.work->Wait(0);
    if (!status.ok() && first_failure.ok()) {
      first_failure = Annotate(status, StrCat("reducing gradient bucket ", reduce.bucket, ": "));
    }
    // The callback may still be on its way on the completing thread.
    const int64_t ended_ns = reduce.ended_ns->load(std::memory_order_acquire);
    times->last_ended_ns = std::max(times->last_ended_ns, ended_ns != 0 ? ended_ns : MonotonicNs());
  }
  if (!started.empty()) times->waited_ns += MonotonicNs() - begin_ns;
  return first_failure;
}

}  // namespace weft
