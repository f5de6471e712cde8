#include "comm/device/memory/driver_range.h"

#include "base/status.h"

namespace weft {

absl::StatusOr<std::optional<DriverRange>> AskDriver(const Driver& driver, uint64_t address) {
  using Attribute = cuda::PointerAttribute;
  uint32_t type = 0;
  const cuda::Result known = driver.PointerGetAttribute(&type, Attribute::kMemoryType, address);
  if (known == cuda::kInvalidValue) return std::nullopt;
  const auto check = [&](cuda::Result result) {
    return driver.Check(result, -1, "asking what memory is there: cuPointerGetAttribute");
  };
  WEFT_RETURN_IF_ERROR(check(known));
  DriverRange range = {.on_device = type == cuda::kMemoryTypeDevice};
  uint32_t managed = 0;
  WEFT_RETURN_IF_ERROR(check(driver.PointerGetAttribute(&managed, Attribute::kIsManaged, address)));
  range.managed = managed != 0;
  if (!range.on_device) return range;
  size_t bytes = 0;
  WEFT_RETURN_IF_ERROR(
      check(driver.PointerGetAttribute(&range.device, Attribute::kDeviceOrdinal, address)));
  WEFT_RETURN_IF_ERROR(
      check(driver.PointerGetAttribute(&range.begin, Attribute::kRangeStart, address)));
  WEFT_RETURN_IF_ERROR(check(driver.PointerGetAttribute(&bytes, Attribute::kRangeBytes, address)));
  range.bytes = bytes;
  return range;
}

}  // namespace weft
