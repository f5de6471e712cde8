// What a device's driver costs: copies, launches, events and words of memory.
//
//   absl::Status status = MeasureMachine(*device, uint64_t{1} << 30, lines);     // of copies up to 2^30 bytes
#pragma once

#include "absl/status/status.h"
#include "tests/gpu/gpu_device.h"
#include "tests/gpu/section_lines.h"

namespace weft::test {

absl::Status MeasureMachine(GpuDevice& device, uint64_t bytes_max, SectionLines& lines);

}  // namespace weft::test
