#include "shard/reduction.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {

Reduction::Reduction(std::shared_ptr<ProcessGroup> group, const Layout& layout,
                     const Storage& storage, const Options& options)
    : group_(std::move(group)), layout_(layout), storage_(storage), options_(options) {}

absl::Status Reduction::Start(int bucket) {
  if (first_start_ns_ == 0) first_start_ns_ = MonotonicNs();
  for (const Range& range : layout_.buckets[static_cast<size_t>(bucket)].ranges) {
    std::byte* const grads = storage_.Grad(range.space, range.begin);
    absl::StatusOr<WorkRef> work =
        group_->Start({.kind = OpKind::kAllReduce,
                       .dtype = layout_.spaces[static_cast<size_t>(range.space)].dtype,
                       .op = options_.op,
                       .count = range.count,
                       .in = grads,
                       .out = grads,
                       .timeout_ns = options_.timeout_ns,
                       .tag = static_cast<uint64_t>(bucket)});
    if (!work.ok()) {
      // If a reduction started before it has ended the group, this is the refusal and not the cause.
      const absl::Status cause = group_->error();
      return Annotate(cause.ok() ? work.status() : cause,
                      StrCat("reducing gradient bucket ", bucket, ": "));
    }
    auto ended_ns = std::make_shared<std::atomic<int64_t>>(0);
    (*work)->OnComplete([ended_ns](const absl::Status&) {
      ended_ns->store(MonotonicNs(), std::memory_order_release);
    });
    started_.push_back({*std::move(work), bucket, std::move(ended_ns)});
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
