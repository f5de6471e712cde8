#include "weft/work.h"

#include "bindings/c/batch.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "comm/group/progress.h"

namespace weft {
namespace {

absl::Status CheckWork(weft_work_t work, std::string_view call) {
  if (work == nullptr || work->magic != weft_work::kMagic) {
    return InvalidArgument(call, "work is NULL or not a work");
  }
  return work->origin.here() ? absl::OkStatus() : ForkedError(call, "work");
}

// A reference of its own: a callback that runs within the call may free the handle.
absl::StatusOr<WorkRef> WorkOf(weft_work_t work, std::string_view call) {
  WEFT_RETURN_IF_ERROR(CheckWork(work, call));
  if (work->batched != nullptr && !work->batched->settled()) {
    return CallError(WEFT_BAD_STATE, call,
                     "the work belongs to a batch that has not ended; call weft_batch_end() first");
  }
  return work->work;
}

}  // namespace
}  // namespace weft

using weft::Guarded;

weft_result_t weft_work_test(weft_work_t work, int* done) {
  return Guarded([&]() -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(const weft::WorkRef of, weft::WorkOf(work, "weft_work_test"));
    if (done == nullptr) return weft::InvalidArgument("weft_work_test", "done is NULL");
    *done = of->Test() ? 1 : 0;
    return *done == 1 ? of->status() : absl::OkStatus();
  });
}

weft_result_t weft_work_wait(weft_work_t work, int64_t timeout_ns) {
  return Guarded([&]() -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(const weft::WorkRef of, weft::WorkOf(work, "weft_work_wait"));
    if (timeout_ns < 0) return weft::InvalidArgument("weft_work_wait", "timeout_ns is negative");
    return of->Wait(timeout_ns);
  });
}

weft_result_t weft_work_error(weft_work_t work) {
  bool under_way = false;
  const weft_result_t result = Guarded([&]() -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(const weft::WorkRef of, weft::WorkOf(work, "weft_work_error"));
    under_way = !of->ended();
    return under_way ? absl::OkStatus() : of->status();
  });
  return under_way ? WEFT_IN_PROGRESS : result;  // no failure: weft_last_error() stays
}

weft_result_t weft_progress(int* pending) {
  return Guarded([&]() -> absl::Status {
    const int left = weft::ProgressAll();
    if (pending != nullptr) *pending = left;
    return absl::OkStatus();
  });
}

weft_result_t weft_progress_fd(int* fd) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_progress_fd";
    if (fd == nullptr) return weft::InvalidArgument(kCall, "fd is NULL");
    const absl::StatusOr<int> made = weft::ProgressFd();
    if (!made.ok()) return weft::Annotate(made.status(), "weft_progress_fd: ");
    *fd = *made;
    return absl::OkStatus();
  });
}

weft_result_t weft_work_on_complete(weft_work_t work, weft_work_callback_t callback, void* user) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_work_on_complete";
    WEFT_ASSIGN_OR_RETURN(const weft::WorkRef of, weft::WorkOf(work, kCall));
    if (callback == nullptr) return weft::InvalidArgument(kCall, "callback is NULL");
    const bool set = of->OnComplete([callback, user](const absl::Status& status) {
      callback(weft::SetLastError(status), user);
    });
    if (set) return absl::OkStatus();
    return weft::CallError(WEFT_INVALID_USAGE, kCall, "the work has a callback already");
  });
}

weft_result_t weft_work_free(weft_work_t work) {
  return Guarded([&]() -> absl::Status {
    if (work == nullptr) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(weft::CheckWork(work, "weft_work_free"));
    work->magic = 0;
    delete work;
    return absl::OkStatus();
  });
}
