// How failing_calls.h comes between a program and its system: the linker sends calls of f to __wrap_f, and __real_f to the
// library's f.
//
//   WEFT_WRAP(int, listen, EADDRINUSE, -1, (int a, int b), (a, b))   // in one source; and link with --wrap=listen
#pragma once

namespace weft::test {

// True if this call of `name` is the one that fails; errno is then set, to `error_number` unless another one is wanted.
bool Strikes(const char* name, int error_number);

}  // namespace weft::test

#define WEFT_WRAP(result, name, error, failure, parameters, arguments) \
  extern "C" result __real_##name parameters;                          \
  extern "C" result __wrap_##name parameters;                          \
  result __wrap_##name parameters {                                    \
    if (weft::test::Strikes(#name, error)) return failure;             \
    return __real_##name arguments;                                    \
  }
