#include "comm/device/memory/registered_ranges.h"

#include <iterator>

#include "base/status.h"
#include "fmt/format.h"

namespace weft {
namespace {

absl::Status RefuseRange(uint64_t begin, size_t bytes, std::string_view why) {
  return MakeError(WEFT_INVALID_ARGUMENT,
                   fmt::format("registering {} bytes at {:#x}: {}", bytes, begin, why));
}

// One allocation may be mapped in pieces, as torch's expandable segments are.
absl::Status CheckDeviceMemory(const Driver& driver, DriverRange range, uint64_t begin,
                               size_t bytes) {
  const uint64_t end = begin + bytes;
  const int32_t device = range.device;
  while (range.begin + range.bytes < end) {
    const uint64_t next = range.begin + range.bytes;
    WEFT_ASSIGN_OR_RETURN(const std::optional<DriverRange> further, AskDriver(driver, next));
    if (!further.has_value() || !further->on_device || further->device != device ||
        further->begin + further->bytes <= next) {
      return RefuseRange(
          begin, bytes,
          fmt::format("the memory of device {} that begins there ends after {} bytes", device,
                      next - begin));
    }
    range = *further;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RegisteredRanges::Register(const Driver& driver, const DriverRange& first,
                                        uint64_t begin, size_t bytes) {
  if (bytes > UINT64_MAX - begin)
    return RefuseRange(begin, bytes, "it is more than an address space has");
  WEFT_RETURN_IF_ERROR(CheckDeviceMemory(driver, first, begin, bytes));
  MutexLock lock(mutex_);
  const auto next = ranges_.lower_bound(begin + bytes);
  if (next != ranges_.begin()) {
    const Range& other = std::prev(next)->second;
    if (other.begin + other.bytes > begin) {
      return RefuseRange(begin, bytes,
                         fmt::format("it overlaps {} bytes at {:#x}, which are registered already",
                                     other.bytes, other.begin));
    }
  }
  ranges_[begin] = {.begin = begin, .bytes = bytes, .device = first.device};
  return absl::OkStatus();
}

bool RegisteredRanges::Deregister(uint64_t begin) {
  MutexLock lock(mutex_);
  return ranges_.erase(begin) != 0;
}

std::optional<RegisteredRanges::Range> RegisteredRanges::RangeOf(uint64_t address) const {
  MutexLock lock(mutex_);
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return std::nullopt;
  --range;
  if (address - range->first >= range->second.bytes) return std::nullopt;
  return range->second;
}

}  // namespace weft
