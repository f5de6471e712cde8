// How a part of weft_perf ends: an exit code with the meaning it has in nccl-tests, and for a
// failure the one line that goes to stderr.
#ifndef WEFT_BENCH_WEFT_PERF_OUTCOME_H_
#define WEFT_BENCH_WEFT_PERF_OUTCOME_H_

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
[[gnu::format(printf, 1, 2)]] std::string Printf(const char* format, ...);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_OUTCOME_H_
