// A device as the sections use it: its primary context, memory, kernels and times, by comm/device/driver alone.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<GpuDevice> device, GpuDevice::Open(0));
//   WEFT_ASSIGN_OR_RETURN(char* const memory, device->Allocate(bytes));
//   WEFT_RETURN_IF_ERROR(device->Launch(kernel, launch));
//   WEFT_RETURN_IF_ERROR(device->Synchronize());
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/device/driver/stream.h"
#include "comm/device/kernel_library.h"

namespace weft::test {

// What a figure is measured over.
struct Repeats {
  int warm = 2;
  int measured = 10;
};

class GpuDevice {
 public:
  static absl::StatusOr<int> Count();
  static absl::StatusOr<std::unique_ptr<GpuDevice>> Open(int ordinal);
  ~GpuDevice();

  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  // Freed with the device, or before.
  absl::StatusOr<char*> Allocate(size_t bytes);
  absl::Status Free(char* memory);
  // Bytes that are free, of all that there are.
  absl::StatusOr<size_t> FreeBytes();

  // Between any two places, host or device. Copy: on the stream, does not wait.
  absl::Status Copy(void* to, const void* from, size_t bytes);
  absl::Status CopyAndWait(void* to, const void* from, size_t bytes);
  absl::Status Launch(const std::string& image, const std::string& name,
                      const std::vector<char>& parameters, const LaunchShape& shape);
  absl::Status Synchronize();

  // As product code launches so many units of work.
  absl::StatusOr<LaunchShape> Shape(const std::string& image, const std::string& name,
                                    uint64_t units);

  const Device& device() const { return *device_; }

  cuda::Stream stream() const { return stream_.get(); }

  KernelLibrary& kernels() { return kernels_; }

  // Microseconds of what `enqueue` puts on the stream, each time, by events.
  absl::StatusOr<std::vector<double>> Time(const Repeats& repeats,
                                           const std::function<absl::Status()>& enqueue);

 private:
  GpuDevice(const Device* device, DeviceStream stream);

  const Device* device_;
  DeviceStream stream_;
  KernelLibrary kernels_;
  std::set<char*> memories_;  // not freed yet
};

}  // namespace weft::test
