#include "comm/node/group_work.h"

#include "comm/group/progress.h"
#include "comm/node/node_group.h"

namespace weft {

bool GroupWork::Test() {
  if (ended() || !group_->here()) return ended();
  WaitTarget target;
  group_->queue().TryStep(&target);
  return ended();
}

absl::Status GroupWork::status() {
  return ended() ? status_ : absl::OkStatus();
}

const void* GroupWork::moved_with() const {
  return group_.get();
}

// A visitor, so that the group is not closed before Progress has been asked: it forgets groups that close.
void GroupWork::LeaveToProgress() {
  const Visit visit(group_->gate());
  if (visit.inside() && !ended()) group_->queue().AskForProgress(Asking::kNow);
}

bool GroupWork::OnComplete(std::function<void(const absl::Status&)> callback) {
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

void GroupWork::RunCallback() {
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

}  // namespace weft
