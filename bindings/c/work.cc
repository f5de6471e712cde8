#include "weft/work.h"

#include "bindings/c/guard.h"
#include "bindings/c/handles.h"

namespace weft {
namespace {

absl::StatusOr<WorkRef> WorkOf(weft_work_t work, std::string_view call) {
  if (work == nullptr || work->magic != weft_work::kMagic) {
    return InvalidArgument(call, "work is NULL or not a work");
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
    WEFT_RETURN_IF_ERROR(weft::WorkOf(work, "weft_work_free").status());
    work->magic = 0;
    delete work;
    return absl::OkStatus();
  });
}
