// The kernels of libweft_cuda.so on one device, by name. An image is loaded when the first of its kernels is wanted, and stays until
// the process ends, as does the device's context.
//
//   KernelLibrary library(*device);
//   const KernelChoice choice = ChooseReduce(WEFT_BFLOAT16, WEFT_SUM, 8);
//   WEFT_ASSIGN_OR_RETURN(const DeviceKernel kernel, library.Find(choice.image, choice.name));
//   parameters.range = PacketsOf(choice, parameters, count);
//   WEFT_RETURN_IF_ERROR(library.Launch(kernel, &parameters, ShapeOf(kernel, parameters.range.packets), stream));
//
// Find() looks a name up under a lock: whoever launches often keeps what it returned.
//
// Thread-safety: any thread. `device` is open for the process's life.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/device/cuda_module.h"
#include "comm/device/driver/device.h"

namespace weft {

struct DeviceKernel {
  cuda::Function function = nullptr;
  const char* name = "";    // for sentences; as long as the library
  uint32_t blocks_max = 1;  // of kKernelThreads threads, that run at once on the device
};

constexpr uint32_t kKernelThreads =
    256;  // of a block; kernels/team.cuh bounds their registers by it

struct LaunchShape {
  uint32_t blocks = 1;
  uint32_t threads = kKernelThreads;
  uint32_t shared_bytes =
      0;  // of a block; merges have their waiting results there (element/merge.h)
};

// A thread for each unit of work, such as a packet, but no more blocks than run at once: threads take several units then.
LaunchShape ShapeOf(const DeviceKernel& kernel, uint64_t units);

class KernelLibrary {
 public:
  explicit KernelLibrary(const Device& device) : device_(&device) {}

  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  // UNSUPPORTED: there is no libweft_cuda.so, or it has no such image or kernel, or none for this device.
  absl::StatusOr<DeviceKernel> Find(const std::string& image, const std::string& name);

  // Enqueues it. `parameters` is copied before Launch returns.
  absl::Status Launch(const DeviceKernel& kernel, const void* parameters, const LaunchShape& shape,
                      cuda::Stream stream) const;

 private:
  absl::Status AllowSharedMemory(cuda::Function function, const std::string& name) const;
  absl::StatusOr<cuda::Module> LoadImage(const std::string& name) WEFT_REQUIRES(mutex_);

  const Device* device_;
  Mutex mutex_;
  const CudaModule* module_ WEFT_GUARDED_BY(mutex_) = nullptr;
  std::map<std::string, cuda::Module> images_ WEFT_GUARDED_BY(mutex_);
  std::map<std::string, DeviceKernel> kernels_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
