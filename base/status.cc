#include "base/status.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr std::string_view kPayloadUrl = "weft/error";
constexpr char kSeparator = '\x1f';
constexpr size_t kFieldCount = 10;

absl::StatusCode AbslCode(weft_result_t result) {
  switch (result) {
    case WEFT_SUCCESS:
      return absl::StatusCode::kOk;
    case WEFT_INVALID_ARGUMENT:
      return absl::StatusCode::kInvalidArgument;
    case WEFT_INVALID_USAGE:
    case WEFT_BAD_STATE:
    case WEFT_MISMATCH:
      return absl::StatusCode::kFailedPrecondition;
    case WEFT_TIMEOUT:
      return absl::StatusCode::kDeadlineExceeded;
    case WEFT_PEER_LOST:
    case WEFT_UNREACHABLE:
      return absl::StatusCode::kUnavailable;
    case WEFT_ABORTED:
      return absl::StatusCode::kAborted;
    case WEFT_UNSUPPORTED:
      return absl::StatusCode::kUnimplemented;
    case WEFT_OUT_OF_MEMORY:
      return absl::StatusCode::kResourceExhausted;
    case WEFT_CORRUPT:
      return absl::StatusCode::kDataLoss;
    case WEFT_AUTH_FAILED:
      return absl::StatusCode::kPermissionDenied;
    default:
      return absl::StatusCode::kInternal;
  }
}

weft_result_t ResultOfAbslCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return WEFT_SUCCESS;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return WEFT_INVALID_ARGUMENT;
    case absl::StatusCode::kFailedPrecondition:
      return WEFT_BAD_STATE;
    case absl::StatusCode::kDeadlineExceeded:
      return WEFT_TIMEOUT;
    case absl::StatusCode::kUnavailable:
      return WEFT_UNREACHABLE;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      return WEFT_ABORTED;
    case absl::StatusCode::kUnimplemented:
      return WEFT_UNSUPPORTED;
    case absl::StatusCode::kResourceExhausted:
      return WEFT_OUT_OF_MEMORY;
    case absl::StatusCode::kDataLoss:
      return WEFT_CORRUPT;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return WEFT_AUTH_FAILED;
    default:
      return WEFT_INTERNAL_ERROR;
  }
}

std::optional<std::vector<std::string>> Payload(const absl::Status& status) {
  const auto payload = status.GetPayload(ToAbsl(kPayloadUrl));
  if (!payload) return std::nullopt;
  std::vector<std::string> parts = absl::StrSplit(std::string(*payload), kSeparator);
  if (parts.size() != kFieldCount) return std::nullopt;
  return parts;
}

int64_t Number(const std::string& text) {
  int64_t value = -1;
  return absl::SimpleAtoi(text, &value) ? value : -1;
}

}  // namespace

absl::Status MakeError(weft_result_t result, std::string_view message) {
  return MakeError(result, ErrorFields{}, message);
}

absl::Status MakeError(weft_result_t result, const ErrorFields& fields, std::string_view message) {
  absl::Status status(AbslCode(result), ToAbsl(message));
  const std::string separator(1, kSeparator);
  status.SetPayload(ToAbsl(kPayloadUrl),
                    absl::Cord(absl::StrJoin(
                        {StrCat(static_cast<int>(result)), StrCat(fields.rank), StrCat(fields.pid),
                         StrCat(fields.signal), StrCat(fields.exit_code), StrCat(fields.sequence),
                         fields.host, fields.group, fields.operation, StrCat(fields.world_rank)},
                        separator)));
  return status;
}

absl::Status Annotate(const absl::Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  return MakeError(ResultOf(status), FieldsOf(status), StrCat(prefix, status.message()));
}

weft_result_t ResultOf(const absl::Status& status) {
  if (status.ok()) return WEFT_SUCCESS;
  if (const auto parts = Payload(status)) return static_cast<weft_result_t>(Number((*parts)[0]));
  return ResultOfAbslCode(status.code());
}

ErrorFields FieldsOf(const absl::Status& status) {
  ErrorFields fields;
  if (const auto parts = Payload(status)) {
    fields.rank = static_cast<int32_t>(Number((*parts)[1]));
    fields.pid = static_cast<int32_t>(Number((*parts)[2]));
    fields.signal = static_cast<int32_t>(Number((*parts)[3]));
    fields.exit_code = static_cast<int32_t>(Number((*parts)[4]));
    fields.sequence = Number((*parts)[5]);
    fields.host = (*parts)[6];
    fields.group = (*parts)[7];
    fields.operation = (*parts)[8];
    fields.world_rank = static_cast<int32_t>(Number((*parts)[9]));
  }
  return fields;
}

absl::Status SystemError(int error_number, std::string_view what) {
  const bool memory = error_number == ENOMEM || error_number == ENOSPC;
  char buffer[128];
  return MakeError(memory ? WEFT_OUT_OF_MEMORY : WEFT_SYSTEM_ERROR,
                   StrCat(what, ": ", strerror_r(error_number, buffer, sizeof(buffer))));
}

}  // namespace weft
