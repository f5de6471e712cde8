#include "comm/device/memory/chunk.h"

#include "base/pages.h"
#include "base/status.h"

namespace weft {

bool IsRefusal(const absl::Status& failed) {
  switch (FieldsOf(failed).device_code) {
    case cuda::kInvalidValue:
    case cuda::kOperatingSystem:
    case cuda::kNotPermitted:
    case cuda::kNotSupported:
      return true;
    default:
      return false;
  }
}

namespace {

// cudaDeviceEnablePeerAccess does not extend to mapped memory. Where the driver refuses a device the access, that device alone lacks it.
void AllowPeers(const Device& device, cuda::DevicePointer memory, size_t bytes) {
  const Driver& driver = *device.driver;
  int32_t count = 0;
  if (driver.DeviceGetCount(&count) != cuda::kSuccess) return;
  for (int32_t ordinal = 0; ordinal < count; ++ordinal) {
    cuda::DeviceHandle peer = 0;
    int32_t can = 0;
    if (ordinal == device.facts.ordinal || driver.DeviceGet(&peer, ordinal) != cuda::kSuccess ||
        driver.DeviceCanAccessPeer(&can, peer, device.handle) != cuda::kSuccess || can == 0)
      continue;
    const cuda::AccessDescription access = {
        .location = {.type = cuda::kLocationDevice, .id = ordinal},
        .flags = cuda::kAccessReadWrite};
    (void)driver.MemSetAccess(memory, bytes, &access, 1);
  }
}

}  // namespace

absl::StatusOr<DeviceChunk> DeviceChunk::Map(const Device& device, size_t bytes) {
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(device));
  const Driver& driver = *device.driver;
  const cuda::MemoryLocation location = {.type = cuda::kLocationDevice, .id = device.facts.ordinal};
  cuda::AllocationProperties properties = {};
  properties.type = cuda::kAllocationPinned;
  properties.requested_handle_types = cuda::kPosixFileDescriptor;
  properties.location = location;
  size_t unit = 0;
  WEFT_RETURN_IF_ERROR(device.Check(
      driver.MemGetAllocationGranularity(&unit, &properties, cuda::kGranularityMinimum),
      "cuMemGetAllocationGranularity"));
  if (unit == 0) unit = 1;
  DeviceChunk chunk(&device);
  chunk.bytes_ = (bytes + unit - 1) / unit * unit;
  const std::string size = FormatBytes(chunk.bytes_);
  WEFT_RETURN_IF_ERROR(device.Check(driver.MemCreate(&chunk.handle_, chunk.bytes_, &properties, 0),
                                    "cuMemCreate of ", size));
  chunk.has_.handle = true;
  WEFT_RETURN_IF_ERROR(device.Check(driver.MemAddressReserve(&chunk.begin_, chunk.bytes_, 0, 0, 0),
                                    "cuMemAddressReserve of ", size));
  chunk.has_.addresses = true;
  WEFT_RETURN_IF_ERROR(device.Check(driver.MemMap(chunk.begin_, chunk.bytes_, 0, chunk.handle_, 0),
                                    "cuMemMap of ", size));
  chunk.has_.mapping = true;
  const cuda::AccessDescription access = {.location = location, .flags = cuda::kAccessReadWrite};
  WEFT_RETURN_IF_ERROR(device.Check(driver.MemSetAccess(chunk.begin_, chunk.bytes_, &access, 1),
                                    "cuMemSetAccess of ", size));
  AllowPeers(device, chunk.begin_, chunk.bytes_);
  return chunk;
}

absl::StatusOr<DeviceChunk> DeviceChunk::Allocate(const Device& device, size_t bytes) {
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(device));
  DeviceChunk chunk(&device);
  chunk.bytes_ = bytes;
  WEFT_RETURN_IF_ERROR(device.Check(device.driver->MemAlloc(&chunk.begin_, bytes), "cuMemAlloc of ",
                                    FormatBytes(bytes)));
  chunk.has_.allocation = true;
  return chunk;
}

// What fails is not tried again: a driver that returns a failure of earlier work has done it all the same.
absl::Status DeviceChunk::GiveBack() {
  if (empty()) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
  const Parts had = std::exchange(has_, {});
  const Driver& driver = *device_->driver;
  absl::Status first;
  const auto undo = [&](bool has, const char* call, auto function) {
    if (!has) return;
    const absl::Status done = device_->Check(function(), call, " of ", FormatBytes(bytes_));
    if (first.ok()) first = done;
  };
  undo(had.allocation, "cuMemFree", [&] { return driver.MemFree(begin_); });
  undo(had.mapping, "cuMemUnmap", [&] { return driver.MemUnmap(begin_, bytes_); });
  undo(had.handle, "cuMemRelease", [&] { return driver.MemRelease(handle_); });
  undo(had.addresses, "cuMemAddressFree", [&] { return driver.MemAddressFree(begin_, bytes_); });
  return first;
}

}  // namespace weft
