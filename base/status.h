// Errors: an absl::Status that also knows weft's result code and who is to blame.
//
//   WEFT_ASSIGN_OR_RETURN(Pages pages, Pages::Create("weft-group", bytes, Backing::kAllocated));
//   WEFT_RETURN_IF_ERROR(CheckCgroupMemory("", bytes));
//   return MakeError(WEFT_PEER_LOST, {.rank = 2, .pid = 4711, .signal = 9}, "all_reduce #7: ...");
//
// Thread-safety: values. The fields travel as a payload of the status, so they survive copies and
// annotation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "weft/types.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

// What is known about a failure besides its sentence; -1 and "" are "unknown".
struct ErrorFields {
  int32_t rank = -1;       // group rank of the culprit
  int32_t pid = -1;        // its process
  int32_t signal = -1;     // that ended it, 0 if it exited by itself
  int32_t exit_code = -1;  // when it exited by itself
  int64_t sequence = -1;   // of the operation in its group
  std::string host = {};
  std::string group = {};
  std::string operation = {};
  int32_t world_rank = -1;   // of the culprit, in the group that all others were split from
  std::string unit = {};     // the shard unit that it is about
  std::string param = {};    // and its param
  int32_t device = -1;       // the accelerator that failed
  int32_t device_code = -1;  // and the code of its driver, CUresult
};

// A failed status. `message` is a full sentence: attempted, found, what to do.
absl::Status MakeError(weft_result_t result, std::string_view message);
absl::Status MakeError(weft_result_t result, const ErrorFields& fields, std::string_view message);

// `prefix` + `status`'s message, with its code and fields; Ok stays Ok.
absl::Status Annotate(const absl::Status& status, std::string_view prefix);

// `status` with the unit and the param that it is about, unless it names one already; Ok stays Ok.
absl::Status WithSubject(const absl::Status& status, std::string_view unit, std::string_view param);

// `status` of the operation that has failed by it, unless it names one already: a process may be found dead by whoever waits for
// none. `sequence` is -1 for messages. Ok stays Ok.
absl::Status WithOperation(const absl::Status& status, std::string_view operation,
                           int64_t sequence);

// The result code of any status, also of one that absl made.
weft_result_t ResultOf(const absl::Status& status);
// The fields of a status; all unknown when it has none.
ErrorFields FieldsOf(const absl::Status& status);

// SYSTEM_ERROR (OUT_OF_MEMORY for ENOMEM and ENOSPC): "<what>: <text of error_number>".
absl::Status SystemError(int error_number, std::string_view what);

// As above, for a system call that old kernels lack and that the filters of containers refuse:
// "<what>: <call>: <text of error_number>", and where the call itself seems to be refused (ENOSYS, EPERM, EACCES) by whom.
absl::Status RefusedCallError(int error_number, std::string_view call, std::string_view what);

}  // namespace weft

#define WEFT_RETURN_IF_ERROR(expression)                                                \
  do {                                                                                  \
    if (absl::Status weft_status = (expression); !weft_status.ok()) return weft_status; \
  } while (false)

#define WEFT_STATUS_JOIN_INNER(a, b) a##b
#define WEFT_STATUS_JOIN(a, b) WEFT_STATUS_JOIN_INNER(a, b)
#define WEFT_ASSIGN_OR_RETURN(declaration, expression) \
  WEFT_ASSIGN_OR_RETURN_AS(WEFT_STATUS_JOIN(weft_or_, __LINE__), declaration, expression)
#define WEFT_ASSIGN_OR_RETURN_AS(temporary, declaration, expression) \
  auto temporary = (expression);                                     \
  if (!temporary.ok()) return std::move(temporary).status();         \
  declaration = *std::move(temporary)
