#include "comm/device/memory/driver_range.h"

#include <cerrno>

#include <sys/uio.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/status.h"
#include "comm/device/memory/address.h"

namespace weft {

std::optional<uint64_t> FindPinned(const Driver& driver, uint64_t begin, uint64_t bytes) {
  const auto is_known = [&](uint64_t address) {
    uint32_t type = 0;
    return driver.PointerGetAttribute(&type, cuda::PointerAttribute::kMemoryType, address) ==
           cuda::kSuccess;
  };
  const uint64_t end = begin + bytes;
  for (uint64_t address = begin; address < end; address += PageBytes()) {
    if (is_known(address)) return address;
  }
  // What begins within the last page.
  return is_known(end - 1) ? std::optional(end - 1) : std::nullopt;
}

bool HostReads(uint64_t address) {
  char byte = 0;
  const iovec to = {.iov_base = &byte, .iov_len = 1};
  const iovec from = {.iov_base = PointerTo(address), .iov_len = 1};
  return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT;
}

absl::StatusOr<std::optional<DriverRange>> AskDriver(const Driver& driver, uint64_t address) {
  using Attribute = cuda::PointerAttribute;
  uint32_t type = 0;
  const cuda::Result known = driver.PointerGetAttribute(&type, Attribute::kMemoryType, address);
  if (known == cuda::kInvalidValue) return std::nullopt;
  // A driver that has failed, or has no context, says nothing of the host's memory, which works all the same.
  if (known != cuda::kSuccess && HostReads(address)) return std::nullopt;
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
