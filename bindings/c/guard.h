// The edge of the C interface: sentences of bad calls, and no exception beyond it.
//
//   return Guarded([&]() -> absl::Status { ... });
//
// Thread-safety: any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/text.h"
#include "bindings/c/last_error.h"

namespace weft {

// The status for the exception that is being handled.
absl::Status StatusOfException();

// Runs `body`, keeps its failure for weft_last_error() and returns its code. Lack of memory and
// anything a library throws become statuses.
template <typename Body>
[[gnu::always_inline]] inline weft_result_t Guarded(Body&& body) {
  try {
    return SetLastError(body());
  } catch (...) {
    return SetLastError(StatusOfException());
  }
}

// The name of a call as weft_error_info_t::operation has it: without "weft_".
inline std::string OperationName(std::string_view call) {
  constexpr std::string_view kPrefix = "weft_";
  if (call.substr(0, kPrefix.size()) == kPrefix) call.remove_prefix(kPrefix.size());
  return std::string(call);
}

// "<call>: <what>".
inline absl::Status CallError(weft_result_t result, std::string_view call, std::string_view what) {
  return MakeError(result, {.operation = OperationName(call)}, StrCat(call, ": ", what));
}

inline absl::Status InvalidArgument(std::string_view call, std::string_view what) {
  return CallError(WEFT_INVALID_ARGUMENT, call, what);
}

// FORKED: "<call>: the <kind> was made by the parent of this forked process ...".
absl::Status ForkedError(std::string_view call, std::string_view kind);

}  // namespace weft
