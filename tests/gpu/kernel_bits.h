// Every kernel of a device against its twin, byte by byte: kernel_cases.h has the launches.
//
//   absl::Status status = CheckBits(devices, seed, {.rounds = 6}, lines);
//
// A difference is a wrong case; an error of the driver ends it, as nothing can be launched any more after most of them.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "tests/gpu/gpu_device.h"
#include "tests/gpu/kernel_cases.h"
#include "tests/gpu/section_lines.h"

namespace weft::test {

absl::Status CheckBits(const std::vector<std::unique_ptr<GpuDevice>>& devices, uint32_t seed,
                       const CaseOptions& options, SectionLines& lines);

}  // namespace weft::test
