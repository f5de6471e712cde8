// How quick kernels are, beside a copy of the same run: the rate at which a device copies its own memory is the bound of each.
//
//   absl::Status status = MeasureKernels(*device, uint64_t{1} << 28, lines);
//
// The 8-way sum of bfloat16, casts and AdamW have a bar of 85 % of that rate, sums of squares of 80 %; the others are reported.
#pragma once

#include "absl/status/status.h"
#include "tests/gpu/gpu_device.h"
#include "tests/gpu/section_lines.h"

namespace weft::test {

// Of arrays of 2^28 elements, or fewer for a test.
constexpr uint64_t kFigureCount = uint64_t{1} << 28;

absl::Status MeasureKernels(GpuDevice& device, uint64_t count, SectionLines& lines);

}  // namespace weft::test
