#include "comm/device/driver/stream.h"

#include "base/status.h"
#include "base/text.h"

namespace weft {

namespace {

// A stream has a context of its own, which is not the primary one where the program has made others.
absl::Status CheckDevice(const Device& device, cuda::Stream stream) {
  if (stream == nullptr) return absl::OkStatus();
  const Driver& driver = *device.driver;
  cuda::Context context = nullptr;
  WEFT_RETURN_IF_ERROR(device.Check(driver.StreamGetCtx(stream, &context), "cuStreamGetCtx"));
  if (context == device.context) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(device.Check(driver.CtxPushCurrent(context), "cuCtxPushCurrent"));
  cuda::DeviceHandle handle = device.handle;
  const cuda::Result known = driver.CtxGetDevice(&handle);
  cuda::Context left = nullptr;
  driver.CtxPopCurrent(&left);
  WEFT_RETURN_IF_ERROR(device.Check(known, "cuCtxGetDevice"));
  if (handle == device.handle) return absl::OkStatus();
  return MakeError(WEFT_INVALID_ARGUMENT, {.device = device.facts.ordinal},
                   StrCat("the stream is of another device than the memory, which is of device ",
                          device.facts.ordinal));
}

}  // namespace

absl::StatusOr<DeviceStream> DeviceStream::Create(const Device& device) {
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(device));
  cuda::Stream stream = nullptr;
  WEFT_RETURN_IF_ERROR(device.Check(device.driver->StreamCreate(&stream, cuda::kStreamNonBlocking),
                                    "cuStreamCreate"));
  return DeviceStream(&device, stream);
}

DeviceStream::~DeviceStream() {
  if (stream_ == nullptr) return;
  // Tried even if the context cannot be entered.
  const absl::StatusOr<ContextScope> scope = ContextScope::Enter(*device_);
  device_->driver->StreamDestroy(stream_);
}

absl::Status DeviceStream::Finish() const {
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
  return device_->Check(device_->driver->StreamSynchronize(stream_), "cuStreamSynchronize");
}

absl::Status CheckStream(const Device& device, cuda::Stream stream) {
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(device));
  const Driver& driver = *device.driver;
  int32_t capture = cuda::kCaptureNone;
  const cuda::Result asked = driver.StreamIsCapturing(stream, &capture);
  const bool is_captured = asked == cuda::kCaptureUnsupported || asked == cuda::kCaptureImplicit;
  if (!is_captured) WEFT_RETURN_IF_ERROR(device.Check(asked, "cuStreamIsCapturing"));
  if (!is_captured && capture == cuda::kCaptureNone) return CheckDevice(device, stream);
  return MakeError(WEFT_UNSUPPORTED, {.device = device.facts.ordinal},
                   StrCat("the stream on device ", device.facts.ordinal,
                          " is being captured into a graph; allocate and free memory outside of "
                          "captures"));
}

absl::StatusOr<DeviceEvent> DeviceEvent::Create(const Device& device, bool timed) {
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(device));
  cuda::Event event = nullptr;
  WEFT_RETURN_IF_ERROR(device.Check(
      device.driver->EventCreate(&event, timed ? 0 : cuda::kEventDisableTiming), "cuEventCreate"));
  return DeviceEvent(&device, event);
}

DeviceEvent::~DeviceEvent() {
  if (event_ == nullptr) return;
  const absl::StatusOr<ContextScope> scope = ContextScope::Enter(*device_);
  device_->driver->EventDestroy(event_);
}

absl::Status DeviceEvent::Record(cuda::Stream stream) const {
  // The legacy stream is that of the current context.
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
  return device_->Check(device_->driver->EventRecord(event_, stream), "cuEventRecord");
}

absl::Status DeviceEvent::OrderBehind(cuda::Stream stream) const {
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(*device_));
  return device_->Check(device_->driver->StreamWaitEvent(stream, event_, 0), "cuStreamWaitEvent");
}

absl::StatusOr<bool> DeviceEvent::Passed() const {
  const RelaxedCapture relaxed(*device_->driver);
  const cuda::Result result = device_->driver->EventQuery(event_);
  if (result == cuda::kNotReady) return false;
  WEFT_RETURN_IF_ERROR(device_->Check(result, "cuEventQuery"));
  return true;
}

absl::StatusOr<double> DeviceEvent::SecondsSince(const DeviceEvent& start) const {
  float milliseconds = 0;
  WEFT_RETURN_IF_ERROR(
      device_->Check(device_->driver->EventElapsedTime(&milliseconds, start.event_, event_),
                     "cuEventElapsedTime"));
  return static_cast<double>(milliseconds) / 1000;
}

}  // namespace weft
