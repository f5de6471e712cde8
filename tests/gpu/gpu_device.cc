#include "tests/gpu/gpu_device.h"

#include <optional>
#include <set>
#include <utility>

#include "base/status.h"
#include "comm/device/driver/stream.h"

namespace weft::test {
namespace {

cuda::DevicePointer PointerOf(const void* memory) {
  return reinterpret_cast<cuda::DevicePointer>(memory);
}

}  // namespace

absl::StatusOr<int> GpuDevice::Count() {
  return CountDevices();
}

absl::StatusOr<std::unique_ptr<GpuDevice>> GpuDevice::Open(int ordinal) {
  WEFT_ASSIGN_OR_RETURN(const Device* const device, OpenDevice(ordinal));
  WEFT_ASSIGN_OR_RETURN(DeviceStream stream, DeviceStream::Create(*device));
  return std::unique_ptr<GpuDevice>(new GpuDevice(device, std::move(stream)));
}

GpuDevice::GpuDevice(const Device* device, DeviceStream stream)
    : device_(device), stream_(std::move(stream)), kernels_(*device) {}

GpuDevice::~GpuDevice() {
  const absl::StatusOr<ContextScope> scope = ContextScope::Enter(*device_);
  if (!scope.ok()) return;
  for (char* const memory : memories_)
    device_->driver->MemFree(PointerOf(memory));
}

absl::StatusOr<char*> GpuDevice::Allocate(size_t bytes) {
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
  cuda::DevicePointer memory = 0;
  WEFT_RETURN_IF_ERROR(
      device_->Check(device_->driver->MemAlloc(&memory, bytes), "cuMemAlloc of ", bytes, " bytes"));
  char* const at = reinterpret_cast<char*>(memory);
  memories_.insert(at);
  return at;
}

absl::Status GpuDevice::Free(char* memory) {
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
  memories_.erase(memory);
  return device_->Check(device_->driver->MemFree(PointerOf(memory)), "cuMemFree");
}

absl::StatusOr<size_t> GpuDevice::FreeBytes() {
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  WEFT_RETURN_IF_ERROR(
      device_->Check(device_->driver->MemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo"));
  return free_bytes;
}

absl::Status GpuDevice::Copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
  return device_->Check(
      device_->driver->MemcpyAsync(PointerOf(to), PointerOf(from), bytes, stream_.get()),
      "cuMemcpyAsync of ", bytes, " bytes");
}

absl::Status GpuDevice::CopyAndWait(void* to, const void* from, size_t bytes) {
  WEFT_RETURN_IF_ERROR(Copy(to, from, bytes));
  return Synchronize();
}

absl::Status GpuDevice::Launch(const std::string& image, const std::string& name,
                               const std::vector<char>& parameters, const LaunchShape& shape) {
  WEFT_ASSIGN_OR_RETURN(const DeviceKernel kernel, kernels_.Find(image, name));
  return kernels_.Launch(kernel, parameters.data(), shape, stream_.get());
}

absl::Status GpuDevice::Synchronize() {
  return stream_.Finish();
}

absl::StatusOr<LaunchShape> GpuDevice::Shape(const std::string& image, const std::string& name,
                                             uint64_t units) {
  WEFT_ASSIGN_OR_RETURN(const DeviceKernel kernel, kernels_.Find(image, name));
  return ShapeOf(kernel, units);
}

absl::StatusOr<std::vector<double>> GpuDevice::Time(const Repeats& repeats,
                                                    const std::function<absl::Status()>& enqueue) {
  WEFT_ASSIGN_OR_RETURN(const DeviceEvent begin, DeviceEvent::Create(*device_, /*timed=*/true));
  WEFT_ASSIGN_OR_RETURN(const DeviceEvent end, DeviceEvent::Create(*device_, /*timed=*/true));
  std::vector<double> us;
  for (int i = -repeats.warm; i < repeats.measured; ++i) {
    WEFT_RETURN_IF_ERROR(begin.Record(stream_.get()));
    WEFT_RETURN_IF_ERROR(enqueue());
    WEFT_RETURN_IF_ERROR(end.Record(stream_.get()));
    WEFT_RETURN_IF_ERROR(Synchronize());
    WEFT_ASSIGN_OR_RETURN(const double seconds, end.SecondsSince(begin));
    if (i >= 0) us.push_back(seconds * 1e6);
  }
  return us;
}

}  // namespace weft::test
