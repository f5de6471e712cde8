// WEFT_CHECK: weft's own invariants. What a caller, peer, file or the OS can cause is a status
// instead.
#pragma once

namespace weft {
// Prints "<file>:<line>: check failed: <text>" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* text);
}  // namespace weft

#define WEFT_CHECK(condition)                                                                   \
  do {                                                                                          \
    if (__builtin_expect(!(condition), 0)) ::weft::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)
