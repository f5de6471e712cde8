// What CUDA's driver knows of an address.
//
//   WEFT_ASSIGN_OR_RETURN(const std::optional<DriverRange> range, AskDriver(*driver, pointer));
//   if (range.has_value() && range->on_device) ...
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "comm/device/driver/driver.h"

namespace weft {

struct DriverRange {
  bool on_device = false;  // else host memory that CUDA has pinned or allocated
  bool managed = false;    // moves between host and devices
  int32_t device = 0;      // ordinal
  uint64_t begin = 0;      // of the allocation or mapping that holds the address
  uint64_t bytes = 0;
};

// Nothing of memory that is none of CUDA's, also where the driver fails and the host reads the address.
absl::StatusOr<std::optional<DriverRange>> AskDriver(const Driver& driver, uint64_t address);

// The first address in [begin, begin + bytes) of whose page CUDA knows, which has pinned it then. Asks for each page.
std::optional<uint64_t> FindPinned(const Driver& driver, uint64_t begin, uint64_t bytes);

// Whether this process reads a byte there without a signal: memory of a device is not read so.
bool HostReads(uint64_t address);

}  // namespace weft
