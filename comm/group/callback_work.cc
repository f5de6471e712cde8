#include "comm/group/callback_work.h"

#include <utility>

#include "comm/group/progress.h"

namespace weft {

absl::Status CallbackWork::status() {
  return ended() ? status_ : absl::OkStatus();
}

bool CallbackWork::OnComplete(std::function<void(const absl::Status&)> callback) {
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

void CallbackWork::RunCallback() {
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
