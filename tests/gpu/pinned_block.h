// Host memory that the driver has pinned and a device may use.
//
//   const PinnedBlock block(device, bytes);
//   WEFT_ASSIGN_OR_RETURN(char* const at, block.at());       // or why there is none
#pragma once

#include "base/status.h"
#include "comm/device/driver/device.h"

namespace weft::test {

class PinnedBlock {
 public:
  PinnedBlock(const Device& device, size_t bytes) : device_(&device) {
    const absl::StatusOr<ContextScope> scope = ContextScope::Enter(device);
    if (!scope.ok()) return;
    result_ = device.driver->MemHostAlloc(&at_, bytes,
                                          cuda::kHostAllocPortable | cuda::kHostAllocDeviceMap);
  }

  ~PinnedBlock() {
    const absl::StatusOr<ContextScope> scope = ContextScope::Enter(*device_);
    if (scope.ok() && at_ != nullptr) device_->driver->MemFreeHost(at_);
  }

  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;

  absl::StatusOr<char*> at() const {
    WEFT_RETURN_IF_ERROR(device_->Check(result_, "cuMemHostAlloc"));
    return static_cast<char*>(at_);
  }

  absl::StatusOr<cuda::DevicePointer> on_device() const {
    WEFT_ASSIGN_OR_RETURN(char* const host, at());
    WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
    cuda::DevicePointer found = 0;
    WEFT_RETURN_IF_ERROR(device_->Check(device_->driver->MemHostGetDevicePointer(&found, host, 0),
                                        "cuMemHostGetDevicePointer"));
    return found;
  }

 private:
  const Device* device_;
  cuda::Result result_ = cuda::kNotInitialized;
  void* at_ = nullptr;
};

}  // namespace weft::test
