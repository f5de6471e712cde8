// Ranges of the program's own device memory that it has registered.
//
//   WEFT_RETURN_IF_ERROR(ranges.Register(*driver, *range, memory, bytes));
//   ...
//   ranges.Deregister(memory)        // false if it begins none
//
// Nothing is moved or mapped: what is known is where a range is, and on which device.
//
// Thread-safety: all members, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "comm/device/driver/driver.h"
#include "comm/device/memory/driver_range.h"

namespace weft {

class RegisteredRanges {
 public:
  struct Range {
    uint64_t begin = 0;
    size_t bytes = 0;
    int32_t device = 0;
  };

  // `first` is what the driver says of the range's first byte. INVALID_ARGUMENT if the range is not wholly memory of one
  // device, or overlaps another one.
  absl::Status Register(const Driver& driver, const DriverRange& first, uint64_t begin,
                        size_t bytes);

  bool Deregister(uint64_t begin);

  // The range that holds an address.
  std::optional<Range> RangeOf(uint64_t address) const;

 private:
  mutable Mutex mutex_;
  std::map<uint64_t, Range> ranges_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
