// The section `kernels` of ./dev gpu run: the CPU's bits on real devices, and how quick kernels are.
//
//   gpu_kernels --bits [--seed N]        every kernel, on all devices in turn
//   gpu_kernels --sample                 short arrays, for compute-sanitizer
//   gpu_kernels --large [--count N]      more than 2^32 elements, on the first device
//   gpu_kernels --figures [--count N]    against the rate of copies, on the first device
//
// --plant K makes the result of case K wrong, which must be found.
//
// Prints the lines of section_lines.h. Exit codes: 0 right; 1 wrong, or the driver refused something.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/standard_fds.h"
#include "base/status.h"
#include "tests/gpu/kernel_bits.h"
#include "tests/gpu/kernel_figures.h"
#include "tests/gpu/kernel_large.h"

namespace {

using weft::test::CaseOptions;
using weft::test::GpuDevice;
using weft::test::SectionLines;

struct Options {
  std::string mode;
  uint32_t seed =
      static_cast<uint32_t>(std::chrono::system_clock::now().time_since_epoch().count());
  uint64_t count = 0;  // 0: that of the mode
  int64_t plant = -1;
};

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if ((word == "--seed" || word == "--count" || word == "--plant") && i + 1 < argc) {
      const uint64_t value = std::strtoull(argv[++i], nullptr, 10);
      if (word == "--seed") options.seed = static_cast<uint32_t>(value);
      if (word == "--count") options.count = value;
      if (word == "--plant") options.plant = static_cast<int64_t>(value);
    } else {
      options.mode = word;
    }
  }
  return options.mode == "--bits" || options.mode == "--sample" || options.mode == "--large" ||
         options.mode == "--figures";
}

absl::Status Run(const Options& options, SectionLines& lines) {
  WEFT_ASSIGN_OR_RETURN(const int device_count, GpuDevice::Count());
  std::vector<std::unique_ptr<GpuDevice>> devices;
  const bool all = options.mode == "--bits";
  for (int ordinal = 0; ordinal < (all ? device_count : 1); ++ordinal) {
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<GpuDevice> device, GpuDevice::Open(ordinal));
    devices.push_back(std::move(device));
  }
  CaseOptions cases = {.plant = options.plant};
  if (options.mode == "--sample") {
    cases.rounds = 1;
    cases.small = true;
  }
  if (options.mode == "--bits" || options.mode == "--sample")
    return CheckBits(devices, options.seed, cases, lines);
  if (options.mode == "--large") {
    return CheckLarge(*devices[0], options.count != 0 ? options.count : weft::test::kLargeCount,
                      lines);
  }
  return MeasureKernels(*devices[0], options.count != 0 ? options.count : weft::test::kFigureCount,
                        lines);
}

}  // namespace

int main(int argc, char** argv) {
  weft::HoldStandardFds();
  Options options;
  if (!Parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: %s --bits | --sample | --large | --figures [--seed N] [--count N]\n",
                 argv[0]);
    return 2;
  }
  SectionLines lines(stdout);
  const absl::Status status = Run(options, lines);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() && lines.wrong() == 0 ? 0 : 1;
}
