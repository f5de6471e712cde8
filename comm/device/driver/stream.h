// Streams and events of a device that weft makes for itself.
//
//   WEFT_ASSIGN_OR_RETURN(DeviceStream stream, DeviceStream::Create(device));
//   WEFT_ASSIGN_OR_RETURN(DeviceEvent event, DeviceEvent::Create(device));
//   WEFT_RETURN_IF_ERROR(event.Record(theirs));
//   WEFT_RETURN_IF_ERROR(event.OrderBehind(stream.get()));       // what is enqueued in stream from now on waits for the event
//   WEFT_ASSIGN_OR_RETURN(const bool passed, event.Passed());
//
// Thread-safety: of one object, one thread at a time. `device` is open for the process's life. The current context does not matter.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/device/driver/device.h"

namespace weft {

// Not ordered with the legacy stream.
class DeviceStream {
 public:
  static absl::StatusOr<DeviceStream> Create(const Device& device);

  DeviceStream(DeviceStream&& other) noexcept
      : device_(other.device_), stream_(std::exchange(other.stream_, nullptr)) {}

  DeviceStream& operator=(DeviceStream&&) = delete;
  // Does not wait: what is enqueued still runs.
  ~DeviceStream();

  cuda::Stream get() const { return stream_; }

  const Device& device() const { return *device_; }

  // Waits, without a limit, for all that is enqueued: for work that no other process or stream may hold up.
  absl::Status Finish() const;

 private:
  DeviceStream(const Device* device, cuda::Stream stream) : device_(device), stream_(stream) {}

  const Device* device_;
  cuda::Stream stream_;
};

// INVALID_ARGUMENT if the stream is another device's. UNSUPPORTED if what is enqueued in it now would become part of a graph, and be
// done when the graph is launched, if ever; of the legacy stream, while one that waits for it is captured.
absl::Status CheckStream(const Device& device, cuda::Stream stream);

class DeviceEvent {
 public:
  // With `timed`, TimeSince() works.
  static absl::StatusOr<DeviceEvent> Create(const Device& device, bool timed = false);

  DeviceEvent(DeviceEvent&& other) noexcept
      : device_(other.device_), event_(std::exchange(other.event_, nullptr)) {}

  DeviceEvent& operator=(DeviceEvent&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(event_, other.event_);
    return *this;
  }

  ~DeviceEvent();

  // Passes when what is in the stream now has ended. nullptr: the legacy stream of the event's device.
  absl::Status Record(cuda::Stream stream) const;
  absl::Status OrderBehind(cuda::Stream stream) const;

  // An event that was never recorded has passed. DEVICE_ERROR if the device has failed.
  absl::StatusOr<bool> Passed() const;

  // Both have passed.
  absl::StatusOr<double> SecondsSince(const DeviceEvent& start) const;

 private:
  DeviceEvent(const Device* device, cuda::Event event) : device_(device), event_(event) {}

  const Device* device_;
  cuda::Event event_;
};

}  // namespace weft
