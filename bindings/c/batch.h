// Calls that were noted between weft_batch_begin() and weft_batch_end(), or weft_batch_cancel().
//
// A function that issues an operation checks its arguments and then asks first:
//
//   if (InBatch()) {
//     return NoteInBatch({.group = group, .priority = priority,
//                         .start = [group, call] { return group->Start(call); }}, work);
//   }
//
// `start` owns all it needs: arrays of the caller's are copied into it. Nothing else about batches is
// known outside of this file.
// Thread-safety: a batch belongs to its thread; a BatchedWork, any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "weft/types.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bindings/c/batch_groups.h"
#include "comm/group/process_group.h"
#include "comm/group/work.h"

namespace weft {

// The work of an operation that is started later, or never.
class BatchedWork : public Work {
 public:
  // Once, when the batch ends or is cancelled: what the operation has become.
  void Settle(absl::StatusOr<WorkRef> started);

  // False while the batch goes on; nothing below may be called before.
  bool settled() const { return settled_.load(std::memory_order_acquire); }

  bool Test() override { return started_ == nullptr || started_->Test(); }

  absl::Status Wait(int64_t timeout_ns) override {
    return started_ == nullptr ? failure_ : started_->Wait(timeout_ns);
  }

  bool ended() const override { return started_ == nullptr || started_->ended(); }

  absl::Status status() override { return started_ == nullptr ? failure_ : started_->status(); }

  const void* moved_with() const override {
    return started_ == nullptr ? this : started_->moved_with();
  }

  void LeaveToProgress() override {
    if (started_ != nullptr) started_->LeaveToProgress();
  }

  bool OnComplete(std::function<void(const absl::Status&)> callback) override;

 private:
  WorkRef started_;       // nullptr: it was not started, and failure_ says why
  absl::Status failure_;  // constant, like started_, once settled_ is set
  std::atomic<bool> settled_{false};
  std::atomic<bool> has_callback_{false};
};

struct BatchedCall {
  std::shared_ptr<ProcessGroup> group;
  int32_t priority = 0;
  std::function<absl::StatusOr<WorkRef>()> start;
};

// How many batches this thread has open, one in the other. Every call looks at it: no constructor to ask
// for, and a place that is known when the library is loaded.
extern constinit thread_local int batch_depth [[gnu::tls_model("initial-exec")]];

// True if this thread has a batch open.
inline bool InBatch() {
  return batch_depth > 0;
}

// Notes a call whose arguments have been checked. `work` as in the call: if it is not NULL, *work gets a
// handle that is settled when the batch ends.
absl::Status NoteInBatch(BatchedCall call, weft_work_t* work);

constexpr size_t kMakingsMax = 256;

// Notes a group to be made, whose arguments have been checked. INVALID_USAGE for more than kMakingsMax.
absl::Status NoteMakingInBatch(std::string_view call, GroupMaking making);

}  // namespace weft
