// How a part of weft_perf ends: an exit code with the meaning it has in nccl-tests, and for a
// failure the one line that goes to stderr.
#ifndef WEFT_BENCH_WEFT_PERF_OUTCOME_H_
#define WEFT_BENCH_WEFT_PERF_OUTCOME_H_

#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>

namespace weft::perf {

enum class ExitCode {
  kOk = 0,
  kInternal = 1,        // this program or the operating system
  kDevice = 2,          // nccl-tests: CUDA; not used on CPU memory
  kLibrary = 3,         // a weft call failed
  kTimeout = 4,         // -T
  kNotImplemented = 5,  // nccl-tests: a program without some kernel; not used
  kUsage = 6,
  kWrong = 7,      // wrong or irreproducible results, or bandwidth below NCCL_TESTS_MIN_BW
  kBadSize = 255,  // -b and -e that cannot be read; nccl-tests returns -1
};

struct [[nodiscard]] Outcome {
  ExitCode code = ExitCode::kOk;
  std::string message;

  bool ok() const { return code == ExitCode::kOk; }
};

inline Outcome Fail(ExitCode code, std::string message) {
  return {code, std::move(message)};
}

// printf into a string.
[[gnu::format(printf, 1, 2)]] inline std::string Printf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_OUTCOME_H_
