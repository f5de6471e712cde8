#include "comm/device/kernel_library.h"

#include <algorithm>

#include "base/module.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr ModuleName kCuda = {"a kernel for CUDA devices", "libweft_cuda.so", "weft_cuda_module",
                              kCudaModuleVersion, sizeof(CudaModule)};

}  // namespace

LaunchShape ShapeOf(const DeviceKernel& kernel, uint64_t units) {
  const uint64_t blocks = units / kKernelThreads + (units % kKernelThreads != 0 ? 1 : 0);
  return {.blocks = static_cast<uint32_t>(
              std::clamp<uint64_t>(blocks, 1, std::max(kernel.blocks_max, uint32_t{1})))};
}

absl::StatusOr<cuda::Module> KernelLibrary::LoadImage(const std::string& name) {
  if (const auto it = images_.find(name); it != images_.end()) return it->second;
  if (module_ == nullptr) {
    WEFT_ASSIGN_OR_RETURN(const ModuleTable* const table, OpenModule(kCuda));
    module_ = reinterpret_cast<const CudaModule*>(table);
  }
  const CudaImage* const end = module_->images + module_->image_count;
  const CudaImage* const image =
      std::find_if(module_->images, end, [&](const CudaImage& one) { return one.name == name; });
  if (image == end) {
    return MakeError(WEFT_UNSUPPORTED,
                     StrCat("libweft_cuda.so has no image ", name, " among its ",
                            module_->image_count, "; is it of another build of weft?"));
  }
  cuda::Module loaded = nullptr;
  WEFT_RETURN_IF_ERROR(device_->Check(
      device_->driver->ModuleLoadData(&loaded, image->data), "cuModuleLoadData of the image ", name,
      " of libweft_cuda.so for compute capability ", device_->facts.compute_major, ".",
      device_->facts.compute_minor));
  images_.emplace(name, loaded);
  return loaded;
}

absl::StatusOr<DeviceKernel> KernelLibrary::Find(const std::string& image,
                                                 const std::string& name) {
  MutexLock lock(mutex_);
  if (const auto it = kernels_.find(name); it != kernels_.end()) return it->second;
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
  WEFT_ASSIGN_OR_RETURN(const cuda::Module module, LoadImage(image));
  DeviceKernel kernel;
  const cuda::Result result =
      device_->driver->ModuleGetFunction(&kernel.function, module, name.c_str());
  if (result == cuda::kNotFound) {
    return MakeError(WEFT_UNSUPPORTED, {.device = device_->facts.ordinal, .device_code = result},
                     StrCat("the image ", image, " of libweft_cuda.so has no kernel ", name,
                            "; is it of another build of weft?"));
  }
  WEFT_RETURN_IF_ERROR(device_->Check(result, "cuModuleGetFunction of ", name));
  WEFT_RETURN_IF_ERROR(AllowSharedMemory(kernel.function, name));
  int32_t blocks = 0;
  WEFT_RETURN_IF_ERROR(
      device_->Check(device_->driver->OccupancyMaxActiveBlocksPerMultiprocessor(
                         &blocks, kernel.function, static_cast<int32_t>(kKernelThreads), 0),
                     "cuOccupancyMaxActiveBlocksPerMultiprocessor of ", name));
  kernel.blocks_max =
      static_cast<uint32_t>(std::max(blocks, 1) * std::max(device_->facts.multiprocessors, 1));
  const auto it = kernels_.emplace(name, kernel).first;
  it->second.name = it->first.c_str();
  return it->second;
}

// All that the device has: a launch that asked for its own share would meet that of another thread's between the two calls.
absl::Status KernelLibrary::AllowSharedMemory(cuda::Function function,
                                              const std::string& name) const {
  const Driver& driver = *device_->driver;
  int32_t of_device = 0;
  int32_t of_kernel = 0;
  WEFT_RETURN_IF_ERROR(device_->Check(
      driver.DeviceGetAttribute(&of_device, cuda::DeviceAttribute::kSharedBytesPerBlockMax,
                                device_->handle),
      "cuDeviceGetAttribute of shared memory per block"));
  WEFT_RETURN_IF_ERROR(device_->Check(
      driver.FuncGetAttribute(&of_kernel, cuda::FunctionAttribute::kSharedBytes, function),
      "cuFuncGetAttribute of ", name));
  return device_->Check(
      driver.FuncSetAttribute(function, cuda::FunctionAttribute::kMaxDynamicSharedBytes,
                              of_device - of_kernel),
      name, ": cuFuncSetAttribute of ", of_device - of_kernel, " bytes of shared memory");
}

absl::Status KernelLibrary::Launch(const DeviceKernel& kernel, const void* parameters,
                                   const LaunchShape& shape, cuda::Stream stream) const {
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
  const Driver& driver = *device_->driver;
  void* arguments[] = {const_cast<void*>(parameters)};
  return device_->Check(driver.LaunchKernel(kernel.function, shape.blocks, 1, 1, shape.threads, 1,
                                            1, shape.shared_bytes, stream, arguments, nullptr),
                        kernel.name, ": cuLaunchKernel of ", shape.blocks, " x ", shape.threads,
                        " threads");
}

}  // namespace weft
