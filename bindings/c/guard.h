// The edge of the C interface: checks of handles and structs, and no exception beyond it.
//
//   return Guarded([&]() -> absl::Status { ... });
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstring>
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

inline bool IsZero(const char* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (data[i] != 0) return false;
  }
  return true;
}

// More than any struct of this interface will ever have: a struct_size that was never set.
constexpr size_t kStructBytesMax = 4096;

// Copies a caller's config into `*full`, which holds the defaults. NULL or a struct_size of 0 leave
// them; a larger struct_size than this library's is accepted only if what it does not know is zero.
// The size of a struct is a multiple of its alignment; any other number would cut a field in two.
template <typename T>
absl::Status ReadConfig(std::string_view call, const T* given, T* full) {
  if (given == nullptr || given->struct_size == 0) {
    return given == nullptr || IsZero(reinterpret_cast<const char*>(given), sizeof(T))
               ? absl::OkStatus()
               : InvalidArgument(call,
                                 "the config's struct_size is 0 but other fields are set; set "
                                 "struct_size to sizeof the struct");
  }
  const size_t bytes = given->struct_size;
  if (bytes < sizeof(size_t) || bytes > kStructBytesMax || bytes % alignof(T) != 0) {
    return InvalidArgument(call, StrCat("struct_size ", bytes, " is not the size of this struct (",
                                        sizeof(T), "); set it to sizeof the struct"));
  }
  if (bytes > sizeof(T) &&
      !IsZero(reinterpret_cast<const char*>(given) + sizeof(T), bytes - sizeof(T))) {
    return CallError(WEFT_UNSUPPORTED, call,
                     "the config sets fields that this older library does not know");
  }
  std::memcpy(full, given, bytes < sizeof(T) ? bytes : sizeof(T));
  full->struct_size = sizeof(T);
  return absl::OkStatus();
}

}  // namespace weft
