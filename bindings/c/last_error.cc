#include "bindings/c/last_error.h"

#include <string>

#include "weft/error.h"

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/struct_size.h"

namespace weft {
namespace {

struct LastError {
  weft_result_t result = WEFT_SUCCESS;
  std::string message;
  ErrorFields fields;
};

LastError& OfThisThread() {
  thread_local LastError error;
  return error;
}

}  // namespace

weft_result_t KeepFailure(const absl::Status& status) {
  LastError& error = OfThisThread();
  error.result = ResultOf(status);
  error.message = std::string(status.message());
  error.fields = FieldsOf(status);
  return error.result;
}

}  // namespace weft

const char* weft_last_error(void) {
  return weft::OfThisThread().message.c_str();
}

weft_result_t weft_last_error_info(weft_error_info_t* info) {
  constexpr const char* kCall = "weft_last_error_info";
  if (info == nullptr) return weft::SetLastError(weft::InvalidArgument(kCall, "info is NULL"));
  if (absl::Status checked = weft::CheckAnswer(kCall, info); !checked.ok()) {
    return weft::SetLastError(checked);
  }
  const weft::LastError& error = weft::OfThisThread();
  weft_error_info_t full{};
  full.result = error.result;
  full.rank = error.fields.rank;
  full.pid = error.fields.pid;
  full.signal = error.fields.signal;
  full.exit_code = error.fields.exit_code;
  full.sequence = error.fields.sequence;
  weft::CopyText(full.host, error.fields.host);
  weft::CopyText(full.group, error.fields.group);
  weft::CopyText(full.operation, error.fields.operation);
  full.world_rank = error.fields.world_rank;
  weft::WriteAnswer(full, info);
  return WEFT_SUCCESS;
}

const char* weft_result_name(weft_result_t result) {
  switch (result) {
    case WEFT_SUCCESS:
      return "success";
    case WEFT_DEVICE_ERROR:
      return "device_error";
    case WEFT_SYSTEM_ERROR:
      return "system_error";
    case WEFT_INTERNAL_ERROR:
      return "internal_error";
    case WEFT_INVALID_ARGUMENT:
      return "invalid_argument";
    case WEFT_INVALID_USAGE:
      return "invalid_usage";
    case WEFT_REMOTE_ERROR:
      return "remote_error";
    case WEFT_IN_PROGRESS:
      return "in_progress";
    case WEFT_TIMEOUT:
      return "timeout";
    case WEFT_MISMATCH:
      return "mismatch";
    case WEFT_PEER_LOST:
      return "peer_lost";
    case WEFT_UNREACHABLE:
      return "unreachable";
    case WEFT_ABORTED:
      return "aborted";
    case WEFT_UNSUPPORTED:
      return "unsupported";
    case WEFT_OUT_OF_MEMORY:
      return "out_of_memory";
    case WEFT_CORRUPT:
      return "corrupt";
    case WEFT_BAD_STATE:
      return "bad_state";
    case WEFT_NO_QUORUM:
      return "no_quorum";
    case WEFT_AUTH_FAILED:
      return "auth_failed";
    case WEFT_FORKED:
      return "forked";
  }
  return "unknown";
}
