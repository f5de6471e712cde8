#include "base/status.h"

#include <algorithm>
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
constexpr size_t kFieldCount = 14;

struct CodePair {
  weft_result_t result;
  absl::StatusCode code;
};

// The first row with a result is its code, the first with a code its result; without one, it is an internal error.
constexpr CodePair kCodes[] = {
    {WEFT_SUCCESS, absl::StatusCode::kOk},
    {WEFT_INVALID_ARGUMENT, absl::StatusCode::kInvalidArgument},
    {WEFT_INVALID_ARGUMENT, absl::StatusCode::kOutOfRange},
    {WEFT_BAD_STATE, absl::StatusCode::kFailedPrecondition},
    {WEFT_INVALID_USAGE, absl::StatusCode::kFailedPrecondition},
    {WEFT_MISMATCH, absl::StatusCode::kFailedPrecondition},
    {WEFT_TIMEOUT, absl::StatusCode::kDeadlineExceeded},
    {WEFT_UNREACHABLE, absl::StatusCode::kUnavailable},
    {WEFT_PEER_LOST, absl::StatusCode::kUnavailable},
    {WEFT_ABORTED, absl::StatusCode::kAborted},
    {WEFT_ABORTED, absl::StatusCode::kCancelled},
    {WEFT_INTERRUPTED, absl::StatusCode::kCancelled},
    {WEFT_UNSUPPORTED, absl::StatusCode::kUnimplemented},
    {WEFT_OUT_OF_MEMORY, absl::StatusCode::kResourceExhausted},
    {WEFT_CORRUPT, absl::StatusCode::kDataLoss},
    {WEFT_AUTH_FAILED, absl::StatusCode::kPermissionDenied},
    {WEFT_AUTH_FAILED, absl::StatusCode::kUnauthenticated},
    {WEFT_INTERNAL_ERROR, absl::StatusCode::kInternal},
    {WEFT_SYSTEM_ERROR, absl::StatusCode::kInternal},
    // Of files (base/files.h).
    {WEFT_SYSTEM_ERROR, absl::StatusCode::kNotFound},
    {WEFT_SYSTEM_ERROR, absl::StatusCode::kAlreadyExists},
};

absl::StatusCode AbslCode(weft_result_t result) {
  for (const CodePair& row : kCodes) {
    if (row.result == result) return row.code;
  }
  return absl::StatusCode::kInternal;
}

weft_result_t ResultOfAbslCode(absl::StatusCode code) {
  for (const CodePair& row : kCodes) {
    if (row.code == code) return row.result;
  }
  return WEFT_INTERNAL_ERROR;
}

std::optional<std::vector<std::string>> Payload(const absl::Status& status) {
  const auto payload = status.GetPayload(ToAbsl(kPayloadUrl));
  if (!payload) return std::nullopt;
  std::vector<std::string> parts = absl::StrSplit(std::string(*payload), kSeparator);
  if (parts.size() != kFieldCount) return std::nullopt;
  return parts;
}

// A name that a program chose, in which a separator would move the fields behind it.
std::string Name(std::string name) {
  std::replace(name.begin(), name.end(), kSeparator, '?');
  return name;
}

int64_t Number(const std::string& text) {
  int64_t value = -1;
  return absl::SimpleAtoi(text, &value) ? value : -1;
}

// `code` is absl's, which may say more than `result`: that a file is not there.
absl::Status MakeStatus(absl::StatusCode code, weft_result_t result, const ErrorFields& fields,
                        std::string_view message) {
  absl::Status status(code, ToAbsl(message));
  const std::string separator(1, kSeparator);
  status.SetPayload(
      ToAbsl(kPayloadUrl),
      absl::Cord(absl::StrJoin(
          {StrCat(static_cast<int>(result)), StrCat(fields.rank), StrCat(fields.pid),
           StrCat(fields.signal), StrCat(fields.exit_code), StrCat(fields.sequence), fields.host,
           Name(fields.group), fields.operation, StrCat(fields.world_rank), Name(fields.unit),
           Name(fields.param), StrCat(fields.device), StrCat(fields.device_code)},
          separator)));
  return status;
}

}  // namespace

absl::Status MakeError(weft_result_t result, std::string_view message) {
  return MakeError(result, ErrorFields{}, message);
}

absl::Status MakeError(weft_result_t result, const ErrorFields& fields, std::string_view message) {
  return MakeStatus(AbslCode(result), result, fields, message);
}

absl::Status Annotate(const absl::Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  return MakeStatus(status.code(), ResultOf(status), FieldsOf(status),
                    StrCat(prefix, status.message()));
}

absl::Status WithSubject(const absl::Status& status, std::string_view unit,
                         std::string_view param) {
  if (status.ok() || (unit.empty() && param.empty())) return status;
  ErrorFields fields = FieldsOf(status);
  if (!fields.unit.empty() || !fields.param.empty()) return status;
  fields.unit = unit;
  fields.param = param;
  return MakeStatus(status.code(), ResultOf(status), fields, FromAbsl(status.message()));
}

absl::Status WithOperation(const absl::Status& status, std::string_view operation,
                           int64_t sequence) {
  if (status.ok()) return status;
  ErrorFields fields = FieldsOf(status);
  if (!fields.operation.empty()) return status;
  fields.operation = operation;
  fields.sequence = sequence;
  return MakeStatus(status.code(), ResultOf(status), fields, FromAbsl(status.message()));
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
    fields.unit = (*parts)[10];
    fields.param = (*parts)[11];
    fields.device = static_cast<int32_t>(Number((*parts)[12]));
    fields.device_code = static_cast<int32_t>(Number((*parts)[13]));
  }
  return fields;
}

absl::Status SystemError(int error_number, std::string_view what) {
  const bool memory = error_number == ENOMEM || error_number == ENOSPC;
  char buffer[128];
  return MakeError(memory ? WEFT_OUT_OF_MEMORY : WEFT_SYSTEM_ERROR,
                   StrCat(what, ": ", strerror_r(error_number, buffer, sizeof(buffer))));
}

absl::Status RefusedCallError(int error_number, std::string_view call, std::string_view what) {
  absl::Status error = SystemError(error_number, StrCat(what, ": ", call));
  std::string by;
  switch (error_number) {
    case ENOSYS:
    case EPERM:
    case EACCES:
      by = StrCat("; the kernel or a seccomp filter (of a container, say) does not allow ", call);
      break;
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
      break;  // the text says it
    default:
      return error;
  }
  return MakeStatus(absl::StatusCode::kPermissionDenied, ResultOf(error), ErrorFields{},
                    StrCat(error.message(), by));
}

}  // namespace weft
