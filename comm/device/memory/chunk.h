// A piece of a device's memory as CUDA's driver gives it out.
//
//   WEFT_ASSIGN_OR_RETURN(DeviceChunk chunk, DeviceChunk::Map(device, bytes));
//   ... chunk.begin(), chunk.bytes() ...
//   WEFT_RETURN_IF_ERROR(chunk.GiveBack());
//
// A mapped chunk is memory with a POSIX descriptor, which other processes can map (cuMemCreate, cuMemMap); it goes back without
// waiting for the device, and all devices reach it that can. A plain one comes from cuMemAlloc; cuMemFree waits for all that the device does.
//
// Thread-safety: of one object, one thread at a time. Owns the memory; the device stays open for the process's life.
#pragma once

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/device/driver/device.h"

namespace weft {

// Whether the driver refuses memory of a kind, rather than lack it: containers and virtual machines filter what it takes.
bool IsRefusal(const absl::Status& failed);

class DeviceChunk {
 public:
  // `bytes` or more, in whole units of the device's, of 2 MiB. An error leaves nothing.
  static absl::StatusOr<DeviceChunk> Map(const Device& device, size_t bytes);
  static absl::StatusOr<DeviceChunk> Allocate(const Device& device, size_t bytes);

  DeviceChunk(DeviceChunk&& other) noexcept
      : device_(other.device_),
        begin_(other.begin_),
        bytes_(other.bytes_),
        handle_(other.handle_),
        has_(std::exchange(other.has_, {})) {}

  DeviceChunk& operator=(DeviceChunk&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(begin_, other.begin_);
    std::swap(bytes_, other.bytes_);
    std::swap(handle_, other.handle_);
    std::swap(has_, other.has_);
    return *this;
  }

  ~DeviceChunk() { (void)GiveBack(); }

  cuda::DevicePointer begin() const { return begin_; }

  size_t bytes() const { return bytes_; }

  bool plain() const { return has_.allocation; }

  bool empty() const {
    return !has_.allocation && !has_.handle && !has_.addresses && !has_.mapping;
  }

  // All of it, whatever fails; the first failure. Nothing of it, so that it can be tried again, if the context cannot be entered.
  absl::Status GiveBack();

 private:
  explicit DeviceChunk(const Device* device) : device_(device) {}

  // What there is to be given back.
  struct Parts {
    bool allocation = false;  // of cuMemAlloc
    bool handle = false;
    bool addresses = false;
    bool mapping = false;
  };

  const Device* device_;
  cuda::DevicePointer begin_ = 0;
  size_t bytes_ = 0;
  cuda::AllocationHandle handle_ = 0;
  Parts has_;
};

}  // namespace weft
