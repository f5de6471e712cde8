// What works have in common that end once and tell whoever asked: whether and how they have ended, and the callback.
//
// Who ends a work sets `status_`, calls SetEnded() and, once it holds no lock, RunCallback(). In between the work has ended for
// whoever asks, and a callback that is set then runs at once on the thread that sets it.
// Thread-safety: as in Work; SetEnded and RunCallback once, by whoever ended the work.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "comm/group/work.h"

namespace weft {

class CallbackWork : public Work {
 public:
  bool ended() const override { return ended_.load(std::memory_order_seq_cst) == kEnded; }

  absl::Status status() override;
  bool OnComplete(std::function<void(const absl::Status&)> callback) override;

  // Runs the callback that was set before the work ended, if any; with no lock held.
  void RunCallback();

 protected:
  void SetEnded() {
    owes_callback_ = ended_.exchange(kEnded, std::memory_order_seq_cst) == kHasCallback;
  }

  absl::Status status_;  // written before SetEnded(), constant afterwards

 private:
  static constexpr uint32_t kUnderWay = 0;
  static constexpr uint32_t kHasCallback = 1;  // under way
  static constexpr uint32_t kEnded = 2;

  std::atomic<uint32_t> ended_{kUnderWay};
  bool owes_callback_ = false;  // of whoever ended it
  Mutex mutex_;
  bool has_callback_ WEFT_GUARDED_BY(mutex_) = false;
  std::function<void(const absl::Status&)> callback_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
