// The devices of this machine, and those of them that weft uses.
//
//   WEFT_ASSIGN_OR_RETURN(const int32_t count, CountDevices());
//   WEFT_ASSIGN_OR_RETURN(const DeviceFacts facts, ReadDeviceFacts(0));
//   WEFT_ASSIGN_OR_RETURN(const Device* const device, OpenDevice(kCurrentDevice));
//   WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device));
//
// A device is opened when it is used first: weft then holds its primary context, which CUDA's runtime, torch and JAX use too, until
// the process ends. Facts can be read of devices that are not open; that makes no context.
//
// Thread-safety: any thread. A ContextScope belongs to one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "comm/device/driver/driver.h"

namespace weft {

// WEFT_DEVICE_CURRENT: that of the calling thread's current context.
constexpr int32_t kCurrentDevice = -1;

struct DeviceFacts {
  int32_t ordinal = 0;  // CUDA's, after CUDA_VISIBLE_DEVICES
  std::string name;     // "NVIDIA H100 80GB HBM3"
  std::string bus_id;   // "0000:19:00.0"
  cuda::Uuid uuid = {};
  uint64_t total_bytes = 0;
  int32_t compute_major = 0;  // 9 of sm_90
  int32_t compute_minor = 0;
  int32_t multiprocessors = 0;
  bool virtual_memory = false;     // cuMemCreate, cuMemMap
  bool posix_descriptors = false;  // and blocks that other processes map
};

struct Device {
  const Driver* driver = nullptr;
  cuda::DeviceHandle handle = 0;
  cuda::Context context = nullptr;  // primary
  DeviceFacts facts;

  // As Driver::Check, of this device.
  template <typename... Words>
  absl::Status Check(cuda::Result result, const Words&... what) const {
    return driver->Check(result, facts.ordinal, what...);
  }
};

// Errors: those of OpenDriver(), and of the driver.
absl::StatusOr<int32_t> CountDevices();

// INVALID_ARGUMENT if there is no device of this ordinal, or none is current.
absl::StatusOr<DeviceFacts> ReadDeviceFacts(int32_t ordinal);

// The same; it stays open until the process ends.
absl::StatusOr<const Device*> OpenDevice(int32_t ordinal);

// The device of a stream; of nullptr, the legacy stream, that of the calling thread's current context.
absl::StatusOr<const Device*> OpenDeviceOf(cuda::Stream stream);

// A device that is open, else nullptr. `ordinal` is not kCurrentDevice.
const Device* FindOpenDevice(int32_t ordinal);

// Keeps what the calling thread does from spoiling a capture into a graph that the program has under way on any thread, for the
// scope's life. Many calls are forbidden then (cudaStreamCaptureModeGlobal, the default), cuEventQuery and cuMemCreate among them, and end the
// capture, but not on threads that are relaxed.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver);

  RelaxedCapture(RelaxedCapture&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)), before_(other.before_) {}

  RelaxedCapture& operator=(RelaxedCapture&&) = delete;
  ~RelaxedCapture();

 private:
  const Driver* driver_;
  int32_t before_ = cuda::kCaptureRelaxed;  // the thread's mode
};

// Makes a device's context the calling thread's for the scope's life, and the thread relaxed.
class ContextScope {
 public:
  static absl::StatusOr<ContextScope> Enter(const Device& device);

  ContextScope(ContextScope&& other) noexcept;
  ContextScope& operator=(ContextScope&&) = delete;
  ~ContextScope();

 private:
  ContextScope(const Driver* driver, RelaxedCapture relaxed)
      : relaxed_(std::move(relaxed)), driver_(driver) {}

  RelaxedCapture relaxed_;
  const Driver* driver_;
};

}  // namespace weft
