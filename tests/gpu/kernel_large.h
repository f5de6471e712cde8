// Reductions of more than 2^32 elements on a device: uint8 and bfloat16, two sources. Sources repeat a period that is a prime number of
// elements, so that an element at a wrong place is another one; every element of the result is compared on the host.
//
//   absl::Status status = CheckLarge(*device, kLargeCount, lines);
#pragma once

#include "absl/status/status.h"
#include "tests/gpu/gpu_device.h"
#include "tests/gpu/section_lines.h"

namespace weft::test {

// Beyond 2^32, with a tail.
constexpr uint64_t kLargeCount = (uint64_t{1} << 32) + (1 << 20) + 7;

absl::Status CheckLarge(GpuDevice& device, uint64_t count, SectionLines& lines);

}  // namespace weft::test
