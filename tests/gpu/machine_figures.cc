#include "tests/gpu/machine_figures.h"

#include <algorithm>
#include <chrono>

#include "base/status.h"
#include "base/text.h"
#include "comm/device/element/copy.h"
#include "tests/gpu/pinned_block.h"

namespace weft::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCalls = 200;  // of one measurement
constexpr int kMeasured = 10;
constexpr uint64_t kPinnedBytesMax = 256 << 20;

absl::Status MeasureCopy(GpuDevice& device, const std::string& name, void* to, const void* from,
                         uint64_t bytes, uint64_t moved, SectionLines& lines) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<double> us,
                        device.Time({}, [&] { return device.Copy(to, from, bytes); }));
  lines.Figure({.name = name, .bytes = moved, .us = us});
  return absl::OkStatus();
}

absl::Status MeasureCopies(GpuDevice& device, uint64_t bytes_max, SectionLines& lines) {
  WEFT_ASSIGN_OR_RETURN(const size_t free_bytes, device.FreeBytes());
  const uint64_t bytes = std::min<uint64_t>(bytes_max, free_bytes / 4);
  WEFT_ASSIGN_OR_RETURN(char* const one, device.Allocate(bytes));
  WEFT_ASSIGN_OR_RETURN(char* const other, device.Allocate(bytes));
  WEFT_RETURN_IF_ERROR(MeasureCopy(device, "copy D2D", other, one, bytes, 2 * bytes, lines));
  const uint64_t pinned_bytes = std::min(bytes, kPinnedBytesMax);
  const PinnedBlock block(device.device(), pinned_bytes);
  WEFT_ASSIGN_OR_RETURN(char* const pinned, block.at());
  WEFT_RETURN_IF_ERROR(
      MeasureCopy(device, "copy H2D, pinned", one, pinned, pinned_bytes, pinned_bytes, lines));
  WEFT_RETURN_IF_ERROR(
      MeasureCopy(device, "copy D2H, pinned", pinned, one, pinned_bytes, pinned_bytes, lines));
  WEFT_RETURN_IF_ERROR(device.Free(one));
  return device.Free(other);
}

// Host time of a call, and of all of its work with the call.
absl::Status MeasureCalls(GpuDevice& device, const std::string& name,
                          const std::function<absl::Status()>& call, SectionLines& lines) {
  Figure issue = {.name = name + ", host time"};
  Figure whole = {.name = name + ", until done"};
  for (int i = -1; i < kMeasured; ++i) {
    const Clock::time_point begin = Clock::now();
    for (int count = 0; count < kCalls; ++count)
      WEFT_RETURN_IF_ERROR(call());
    const std::chrono::duration<double, std::micro> issued = Clock::now() - begin;
    WEFT_RETURN_IF_ERROR(device.Synchronize());
    const std::chrono::duration<double, std::micro> done = Clock::now() - begin;
    if (i < 0) continue;
    issue.us.push_back(issued.count() / kCalls);
    whole.us.push_back(done.count() / kCalls);
  }
  lines.Figure(issue);
  lines.Figure(whole);
  return absl::OkStatus();
}

absl::Status MeasureLaunch(GpuDevice& device, SectionLines& lines) {
  WEFT_ASSIGN_OR_RETURN(const DeviceKernel kernel, device.kernels().Find("copy", "weft_fill"));
  const device::FillParameters nothing = {};
  return MeasureCalls(
      device, "launch of an empty kernel",
      [&] { return device.kernels().Launch(kernel, &nothing, {}, device.stream()); }, lines);
}

absl::Status MeasureEvents(GpuDevice& device, SectionLines& lines) {
  WEFT_ASSIGN_OR_RETURN(const DeviceStream other, DeviceStream::Create(device.device()));
  WEFT_ASSIGN_OR_RETURN(const DeviceEvent event, DeviceEvent::Create(device.device()));
  WEFT_RETURN_IF_ERROR(MeasureCalls(
      device, "event record and wait",
      [&]() -> absl::Status {
        WEFT_RETURN_IF_ERROR(event.Record(device.stream()));
        return event.OrderBehind(other.get());
      },
      lines));
  return other.Finish();
}

absl::Status MeasureWords(GpuDevice& device, SectionLines& lines) {
  const Device& of = device.device();
  const PinnedBlock block(of, 4096);
  WEFT_ASSIGN_OR_RETURN(const cuda::DevicePointer on_device, block.on_device());
  WEFT_ASSIGN_OR_RETURN(const ContextScope scope, ContextScope::Enter(of));
  uint32_t value = 0;
  return MeasureCalls(
      device, "word of host memory, written",
      [&] {
        return of.Check(of.driver->StreamWriteValue32(device.stream(), on_device, ++value, 0),
                        "cuStreamWriteValue32");
      },
      lines);
}

}  // namespace

absl::Status MeasureMachine(GpuDevice& device, uint64_t bytes_max, SectionLines& lines) {
  const auto skip_refused = [&](const char* what, const absl::Status& status) {
    if (!status.ok()) lines.Skip(what, std::string(status.message()));
  };
  skip_refused("copies", MeasureCopies(device, bytes_max, lines));
  skip_refused("launches", MeasureLaunch(device, lines));
  skip_refused("events", MeasureEvents(device, lines));
  skip_refused("words", MeasureWords(device, lines));
  return device.Synchronize();
}

}  // namespace weft::test
