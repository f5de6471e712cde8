#include "comm/node/node_work.h"

#include <utility>

#include "base/status.h"
#include "comm/group/progress.h"
#include "comm/node/heap.h"
#include "comm/node/node_group.h"

namespace weft {

NodeWork::NodeWork(std::shared_ptr<NodeGroup> group, const Collective& call, uint64_t sequence,
                   const NodeState& state, int64_t timeout_ns)
    : group_(std::move(group)),
      prepared_(call, state),
      operation_(prepared_, sequence),
      deadline_{timeout_ns, MonotonicNs() + std::min(timeout_ns, INT64_MAX / 4)} {
  ForEachBuffer([](const void* memory) { ProcessHeap().Pin(memory); });
}

template <typename Visit>
void NodeWork::ForEachBuffer(Visit&& visit) const {
  visit(prepared_.call.in);
  visit(prepared_.call.out);
  if (!TraitsOf(prepared_.call.kind).iov) return;
  for (const weft_iov_t& part : prepared_.call.layout->parts) {
    visit(part.in);
    visit(part.out);
  }
}

void NodeWork::Finish() {
  ForEachBuffer([](const void* memory) { ProcessHeap().Unpin(memory); });
  std::function<void(const absl::Status&)> callback;
  {
    MutexLock lock(mutex_);
    ended_.store(1, std::memory_order_seq_cst);
    callback = std::move(callback_);
  }
  group_->RingLocal();
  if (callback) callback(status_);
  NoteWorkEnded();
}

bool NodeWork::Test() {
  if (ended()) return true;
  WaitTarget target;
  group_->TryStep(&target);
  return ended();
}

absl::Status NodeWork::Wait(int64_t timeout_ns) {
  Deadline patience{timeout_ns > 0 ? timeout_ns : INT64_MAX / 4};
  if (timeout_ns > 0) patience.Passed(MonotonicNs());
  while (!ended()) {
    WaitTarget target;
    group_->TryStep(&target);
    if (ended()) break;
    const bool in_time = group_->WaitForTurn(target, patience, ended_);
    group_->CountWait(std::exchange(patience.slow_ns, 0));
    if (!in_time) {
      return MakeError(WEFT_IN_PROGRESS, "the operation has not ended yet");
    }
  }
  return status_;
}

absl::Status NodeWork::status() {
  return ended() ? status_ : absl::OkStatus();
}

bool NodeWork::OnComplete(std::function<void(const absl::Status&)> callback) {
  {
    MutexLock lock(mutex_);
    if (has_callback_) return false;
    has_callback_ = true;
    if (!ended()) {
      callback_ = std::move(callback);
      return true;
    }
  }
  callback(status_);
  return true;
}

}  // namespace weft
