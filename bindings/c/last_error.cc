#include "bindings/c/last_error.h"

#include <new>
#include <string>

#include "weft/error.h"

#include "base/callback_reason.h"
#include "base/per_thread.h"
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

using LastErrorOfThread = PerThread<LastError>;

weft_error_info_t ToInfo(weft_result_t result, const ErrorFields& fields) {
  weft_error_info_t info{};
  info.result = result;
  info.rank = fields.rank;
  info.pid = fields.pid;
  info.signal = fields.signal;
  info.exit_code = fields.exit_code;
  info.sequence = fields.sequence;
  CopyText(info.host, fields.host);
  CopyText(info.group, fields.group);
  CopyText(info.operation, fields.operation);
  info.world_rank = fields.world_rank;
  CopyText(info.unit, fields.unit);
  CopyText(info.param, fields.param);
  info.device = fields.device;
  info.device_code = fields.device_code;
  return info;
}

}  // namespace

weft_result_t KeepFailure(const absl::Status& status) {
  const weft_result_t result = ResultOf(status);
  try {
    LastError& error = LastErrorOfThread::Get();
    error.result = result;
    error.message = std::string(status.message());
    error.fields = FieldsOf(status);
  } catch (const std::bad_alloc&) {
    // The code must do; the sentence of an earlier failure would mislead.
    LastError* const error = LastErrorOfThread::Find();
    if (error != nullptr) *error = {.result = result, .message = {}, .fields = {}};
  }
  return result;
}

weft_error_info_t ErrorInfoOf(const absl::Status& status) {
  return ToInfo(ResultOf(status), FieldsOf(status));
}

}  // namespace weft

const char* weft_last_error(void) {
  const weft::LastError* const error = weft::LastErrorOfThread::Find();
  return error == nullptr ? "" : error->message.c_str();
}

weft_result_t weft_last_error_info(weft_error_info_t* info) {
  constexpr const char* kCall = "weft_last_error_info";
  if (info == nullptr) return weft::SetLastError(weft::InvalidArgument(kCall, "info is NULL"));
  if (absl::Status checked = weft::CheckAnswer(kCall, info); !checked.ok()) {
    return weft::SetLastError(checked);
  }
  const weft::LastError none;
  const weft::LastError* const found = weft::LastErrorOfThread::Find();
  const weft::LastError& error = found == nullptr ? none : *found;
  weft::WriteAnswer(weft::ToInfo(error.result, error.fields), info);
  return WEFT_SUCCESS;
}

weft_result_t weft_callback_failed(weft_result_t result, const char* sentence) {
  weft::KeepCallbackReason(sentence);
  return result;
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
    case WEFT_INTERRUPTED:
      return "interrupted";
  }
  return "unknown";
}
