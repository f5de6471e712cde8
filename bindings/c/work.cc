#include "weft/work.h"

#include <memory>
#include <string>

#include "base/interrupt.h"
#include "bindings/c/batch.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "bindings/c/last_error.h"
#include "bindings/c/struct_size.h"
#include "comm/group/progress.h"

namespace weft {
namespace {

absl::Status CheckWork(weft_work_t work, std::string_view call) {
  if (work == nullptr || work->magic != weft_work::kMagic) {
    return InvalidArgument(call, "work is NULL or not a work");
  }
  return work->origin.here() ? absl::OkStatus() : ForkedError(call, "work");
}

// Runs `answer` with the work's status if it has ended; else returns WEFT_IN_PROGRESS, which is no failure: weft_last_error()
// stays.
template <typename Answer>
weft_result_t OnceEnded(weft_work_t work, std::string_view call, Answer&& answer) {
  bool under_way = false;
  const weft_result_t result = Guarded([&]() -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(const WorkRef of, WorkOf(work, call));
    under_way = !of->ended();
    return under_way ? absl::OkStatus() : answer(of->status());
  });
  return under_way ? WEFT_IN_PROGRESS : result;
}

// Several threads may ask at once.
const char* SentenceOf(weft_work& work, const absl::Status& status) {
  if (status.ok()) return "";
  const std::string* known = work.sentence.load(std::memory_order_acquire);
  if (known != nullptr) return known->c_str();
  auto made = std::make_unique<const std::string>(status.message());
  if (work.sentence.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) {
    known = made.release();
  }
  return known->c_str();
}

}  // namespace

absl::StatusOr<WorkRef> WorkOf(weft_work_t work, std::string_view call) {
  WEFT_RETURN_IF_ERROR(CheckWork(work, call));
  if (work->batched != nullptr && !work->batched->settled()) {
    return CallError(WEFT_BAD_STATE, call,
                     "the work belongs to a batch that has not ended; call weft_batch_end() first");
  }
  return work->work;
}

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
    const absl::Status status = of->Wait(timeout_ns);
    if (weft::ResultOf(status) == WEFT_INTERRUPTED) (void)weft::TakeInterrupt();
    return status;
  });
}

weft_result_t weft_work_stream_wait(weft_work_t work, void* /*stream*/) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_work_stream_wait";
    WEFT_RETURN_IF_ERROR(weft::WorkOf(work, kCall).status());
    return weft::CallError(WEFT_UNSUPPORTED, kCall,
                           "the work is of a group of host memory, which has no streams; call "
                           "weft_work_wait");
  });
}

weft_result_t weft_work_error(weft_work_t work) {
  return weft::OnceEnded(work, "weft_work_error",
                         [](const absl::Status& status) { return status; });
}

weft_result_t weft_work_error_info(weft_work_t work, weft_error_info_t* info) {
  constexpr const char* kCall = "weft_work_error_info";
  if (info == nullptr) return weft::SetLastError(weft::InvalidArgument(kCall, "info is NULL"));
  if (absl::Status checked = weft::CheckAnswer(kCall, info); !checked.ok()) {
    return weft::SetLastError(checked);
  }
  return weft::OnceEnded(work, kCall, [info](const absl::Status& status) {
    weft::WriteAnswer(weft::ErrorInfoOf(status), info);
    return absl::OkStatus();
  });
}

weft_result_t weft_work_error_message(weft_work_t work, const char** message) {
  constexpr const char* kCall = "weft_work_error_message";
  if (message == nullptr)
    return weft::SetLastError(weft::InvalidArgument(kCall, "message is NULL"));
  return weft::OnceEnded(work, kCall, [work, message](const absl::Status& status) {
    *message = weft::SentenceOf(*work, status);
    return absl::OkStatus();
  });
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
    return weft::CallError(WEFT_INVALID_USAGE, kCall,
                           "the work has a callback, or a completion queue, already");
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
