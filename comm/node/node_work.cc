#include "comm/node/node_work.h"

#include <utility>

#include "base/status.h"
#include "comm/group/progress.h"
#include "comm/node/heap.h"
#include "comm/node/node_group.h"

namespace weft {

NodeWork::NodeWork(std::shared_ptr<NodeGroup> group, const PreparedCall& prepared,
                   int64_t timeout_ns)
    : group_(std::move(group)), prepared_(prepared), deadline_{timeout_ns} {
  ForEachBuffer([](const void* memory) { ProcessHeap().Pin(memory); });
}

NodeWork::~NodeWork() {
  if (!ended()) ForEachBuffer([](const void* memory) { ProcessHeap().Unpin(memory); });
}

template <typename Visit>
void NodeWork::ForEachBuffer(Visit&& visit) const {
  visit(prepared_.call.in);
  if (prepared_.call.out != prepared_.call.in) visit(prepared_.call.out);
  if (!TraitsOf(prepared_.call.kind).iov) return;
  for (const weft_iov_t& part : prepared_.call.layout->parts) {
    visit(part.in);
    visit(part.out);
  }
}

void NodeWork::End() {
  ForEachBuffer([](const void* memory) { ProcessHeap().Unpin(memory); });
  owes_callback_ = ended_.exchange(kEnded, std::memory_order_seq_cst) == kHasCallback;
  NotifyAll(group_->queue().woken());
}

void NodeWork::RunCallback() {
  if (owes_callback_) {
    std::function<void(const absl::Status&)> callback;
    {
      MutexLock lock(mutex_);
      callback = std::move(callback_);
    }
    callback(status_);
  }
  NoteWorkEnded();
}

bool NodeWork::Test() {
  if (ended() || !group_->here()) return ended();
  WaitTarget target;
  group_->queue().TryStep(&target);
  return ended();
}

absl::Status NodeWork::Wait(int64_t timeout_ns) {
  if (ended()) return status_;
  const bool in_time = group_->queue().Await(*this, timeout_ns);
  // A callback may have forked meanwhile: what returns in its child is the rest of the parent's call.
  if (!group_->here()) return group_->Forked();
  if (!in_time) return MakeError(WEFT_IN_PROGRESS, "the operation has not ended yet");
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
    callback_ = std::move(callback);
    uint32_t under_way = kUnderWay;
    if (ended_.compare_exchange_strong(under_way, kHasCallback, std::memory_order_seq_cst)) {
      return true;
    }
    callback = std::move(callback_);
  }
  callback(status_);
  return true;
}

}  // namespace weft
