#include "comm/device/driver/device.h"

#include <map>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"

namespace weft {
namespace {

// Of those that are open. A device that is gone with a fork is found no more, as the driver is not.
struct OpenDevices {
  Mutex mutex;
  std::map<int32_t, std::unique_ptr<const Device>> by_ordinal WEFT_GUARDED_BY(mutex);
};

OpenDevices& Opened() {
  static auto* const devices = new OpenDevices;
  return *devices;
}

absl::StatusOr<int32_t> CountOf(const Driver& driver) {
  int32_t count = 0;
  WEFT_RETURN_IF_ERROR(driver.Check(driver.DeviceGetCount(&count), -1, "cuDeviceGetCount"));
  return count;
}

absl::StatusOr<cuda::DeviceHandle> CurrentHandle(const Driver& driver) {
  cuda::Context context = nullptr;
  WEFT_RETURN_IF_ERROR(driver.Check(driver.CtxGetCurrent(&context), -1, "cuCtxGetCurrent"));
  if (context == nullptr) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     "the device of the thread's current context is wanted (-1), and the thread "
                     "has none; call cudaSetDevice (torch.cuda.set_device), or pass an ordinal");
  }
  cuda::DeviceHandle handle = 0;
  WEFT_RETURN_IF_ERROR(driver.Check(driver.CtxGetDevice(&handle), -1, "cuCtxGetDevice"));
  return handle;
}

// A handle is an ordinal to the driver of today, but that is nowhere promised.
absl::StatusOr<int32_t> OrdinalOf(const Driver& driver, cuda::DeviceHandle handle) {
  WEFT_ASSIGN_OR_RETURN(const int32_t count, CountOf(driver));
  for (int32_t ordinal = 0; ordinal < count; ++ordinal) {
    cuda::DeviceHandle one = 0;
    WEFT_RETURN_IF_ERROR(driver.Check(driver.DeviceGet(&one, ordinal), ordinal, "cuDeviceGet"));
    if (one == handle) return ordinal;
  }
  return MakeError(WEFT_DEVICE_ERROR,
                   "the thread's current context is of a device that cuDeviceGet does not list");
}

struct Found {
  const Driver* driver;
  int32_t ordinal;
  cuda::DeviceHandle handle;
};

absl::StatusOr<Found> FindDevice(int32_t ordinal) {
  WEFT_ASSIGN_OR_RETURN(const Driver* const driver, OpenDriver());
  if (ordinal == kCurrentDevice) {
    WEFT_ASSIGN_OR_RETURN(const cuda::DeviceHandle handle, CurrentHandle(*driver));
    WEFT_ASSIGN_OR_RETURN(const int32_t current, OrdinalOf(*driver, handle));
    return Found{driver, current, handle};
  }
  WEFT_ASSIGN_OR_RETURN(const int32_t count, CountOf(*driver));
  if (ordinal < 0 || ordinal >= count) {
    return MakeError(
        WEFT_INVALID_ARGUMENT,
        StrCat("device is ", ordinal, ", and CUDA has ", count, count == 1 ? " device" : " devices",
               " here, from 0 on", " (CUDA_VISIBLE_DEVICES hides others)"));
  }
  cuda::DeviceHandle handle = 0;
  WEFT_RETURN_IF_ERROR(driver->Check(driver->DeviceGet(&handle, ordinal), ordinal, "cuDeviceGet"));
  return Found{driver, ordinal, handle};
}

// An attribute that an old driver does not know is 0.
int32_t AttributeOf(const Found& of, cuda::DeviceAttribute attribute) {
  int32_t value = 0;
  const cuda::Result result = of.driver->DeviceGetAttribute(&value, attribute, of.handle);
  return result == cuda::kSuccess ? value : 0;
}

absl::StatusOr<DeviceFacts> FactsOf(const Found& of) {
  const Driver& driver = *of.driver;
  DeviceFacts facts{.ordinal = of.ordinal};
  const auto check = [&](cuda::Result result, const char* call) {
    return driver.Check(result, of.ordinal, call);
  };
  char name[256] = {};
  char bus_id[32] = {};
  size_t bytes = 0;
  WEFT_RETURN_IF_ERROR(
      check(driver.DeviceGetName(name, sizeof(name), of.handle), "cuDeviceGetName"));
  WEFT_RETURN_IF_ERROR(
      check(driver.DeviceGetPCIBusId(bus_id, sizeof(bus_id), of.handle), "cuDeviceGetPCIBusId"));
  WEFT_RETURN_IF_ERROR(check(driver.DeviceGetUuid(&facts.uuid, of.handle), "cuDeviceGetUuid"));
  WEFT_RETURN_IF_ERROR(check(driver.DeviceTotalMem(&bytes, of.handle), "cuDeviceTotalMem"));
  facts.name = name;
  facts.bus_id = bus_id;
  facts.total_bytes = bytes;
  using Attribute = cuda::DeviceAttribute;
  facts.compute_major = AttributeOf(of, Attribute::kComputeCapabilityMajor);
  facts.compute_minor = AttributeOf(of, Attribute::kComputeCapabilityMinor);
  facts.multiprocessors = AttributeOf(of, Attribute::kMultiprocessorCount);
  facts.virtual_memory = AttributeOf(of, Attribute::kVirtualMemory) != 0;
  facts.posix_descriptors = AttributeOf(of, Attribute::kPosixFileDescriptors) != 0;
  return facts;
}

}  // namespace

absl::StatusOr<int32_t> CountDevices() {
  WEFT_ASSIGN_OR_RETURN(const Driver* const driver, OpenDriver());
  return CountOf(*driver);
}

absl::StatusOr<DeviceFacts> ReadDeviceFacts(int32_t ordinal) {
  WEFT_ASSIGN_OR_RETURN(const Found found, FindDevice(ordinal));
  return FactsOf(found);
}

absl::StatusOr<const Device*> OpenDevice(int32_t ordinal) {
  WEFT_ASSIGN_OR_RETURN(const Found found, FindDevice(ordinal));
  OpenDevices& devices = Opened();
  MutexLock lock(devices.mutex);
  if (const auto it = devices.by_ordinal.find(found.ordinal); it != devices.by_ordinal.end()) {
    return it->second.get();
  }
  auto device = std::make_unique<Device>();
  device->driver = found.driver;
  device->handle = found.handle;
  WEFT_ASSIGN_OR_RETURN(device->facts, FactsOf(found));
  // Held until the process ends: when libraries are unloaded nobody may call the driver any more.
  WEFT_RETURN_IF_ERROR(
      device->Check(found.driver->DevicePrimaryCtxRetain(&device->context, found.handle),
                    "cuDevicePrimaryCtxRetain"));
  return devices.by_ordinal.emplace(found.ordinal, std::move(device)).first->second.get();
}

absl::StatusOr<const Device*> OpenDeviceOf(cuda::Stream stream) {
  if (stream == nullptr) return OpenDevice(kCurrentDevice);
  WEFT_ASSIGN_OR_RETURN(const Driver* const driver, OpenDriver());
  cuda::Context context = nullptr;
  WEFT_RETURN_IF_ERROR(driver->Check(driver->StreamGetCtx(stream, &context), -1, "cuStreamGetCtx"));
  WEFT_RETURN_IF_ERROR(driver->Check(driver->CtxPushCurrent(context), -1, "cuCtxPushCurrent"));
  absl::StatusOr<const Device*> device = OpenDevice(kCurrentDevice);
  cuda::Context left = nullptr;
  driver->CtxPopCurrent(&left);
  return device;
}

const Device* FindOpenDevice(int32_t ordinal) {
  if (FindOpenDriver() == nullptr) return nullptr;
  OpenDevices& devices = Opened();
  MutexLock lock(devices.mutex);
  const auto it = devices.by_ordinal.find(ordinal);
  return it == devices.by_ordinal.end() ? nullptr : it->second.get();
}

// The call answers with the mode before, also where it returns a failure of earlier work.
RelaxedCapture::RelaxedCapture(const Driver& driver) : driver_(&driver) {
  (void)driver.ThreadExchangeStreamCaptureMode(&before_);
}

RelaxedCapture::~RelaxedCapture() {
  if (driver_ == nullptr || before_ == cuda::kCaptureRelaxed) return;
  (void)driver_->ThreadExchangeStreamCaptureMode(&before_);
}

absl::StatusOr<ContextScope> ContextScope::Enter(const Device& device) {
  RelaxedCapture relaxed(*device.driver);
  WEFT_RETURN_IF_ERROR(
      device.Check(device.driver->CtxPushCurrent(device.context), "cuCtxPushCurrent"));
  return ContextScope(device.driver, std::move(relaxed));
}

ContextScope::ContextScope(ContextScope&& other) noexcept
    : relaxed_(std::move(other.relaxed_)), driver_(std::exchange(other.driver_, nullptr)) {}

ContextScope::~ContextScope() {
  if (driver_ == nullptr) return;
  cuda::Context left = nullptr;
  driver_->CtxPopCurrent(&left);
}

}  // namespace weft
