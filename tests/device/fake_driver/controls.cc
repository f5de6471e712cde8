// What tests steer the driver by, and the world as it begins and ends.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

#include <unistd.h>

#include "tests/device/fake_driver/calls.h"
#include "tests/device/fake_driver/memory.h"
#include "tests/device/fake_driver/schedule.h"
#include "tests/device/fake_driver/streams.h"

namespace weft::fake_cuda {
namespace {

using test::FakeDriver;
using test::FakeHoldings;

using Locked = std::lock_guard<std::mutex>;

uint64_t FromEnvironment(const char* name, uint64_t standard) {
  const char* const text = std::getenv(name);
  return text == nullptr ? standard : std::strtoull(text, nullptr, 0);
}

// As it is when nobody has steered it.
void SetStandard(World& world) {
  if (world.process == 0) {
    world.device_count =
        static_cast<int>(std::min<uint64_t>(FromEnvironment("FAKE_CUDA_DEVICES", 1), kDevicesMax));
  }
  for (DeviceState& device : world.devices) {
    device.total_bytes = FromEnvironment("FAKE_CUDA_BYTES", uint64_t{1} << 30);
    device.failed = kSuccess;
  }
  world.lacking.clear();
  world.hidden.clear();
  world.plan = {};
  world.paused = false;
  SetSeed(world, FromEnvironment("FAKE_CUDA_SEED", 0));
}

uint64_t CountRanges(const World& world, RangeKind kind) {
  uint64_t count = 0;
  for (const auto& [address, range] : world.ranges)
    count += range.kind == kind ? 1 : 0;
  return count;
}

FakeHoldings HoldingsOf(const World& world) {
  FakeHoldings held = {};
  for (int i = 0; i < world.device_count; ++i) {
    const DeviceState& device = world.devices[i];
    held.contexts += device.retained > 0 ? 1 : 0;
    held.device_bytes += device.used_bytes;
    held.operations += device.legacy.queue.size();
  }
  held.allocations = CountRanges(world, RangeKind::kAllocation);
  held.imports = CountRanges(world, RangeKind::kImport);
  held.reservations = CountRanges(world, RangeKind::kReservation);
  for (const auto& [address, mapping] : world.mappings)
    held.mappings += mapping.is_plain ? 0 : 1;
  held.handles = world.handles.size();
  for (const auto& [address, range] : world.host)
    (range.is_allocation ? held.host_allocations : held.host_registrations) += 1;
  for (const auto& [handle, stream] : world.streams) {
    held.streams += stream->is_destroyed ? 0 : 1;
    held.operations += stream->queue.size();
  }
  held.events = world.events.size();
  held.modules = world.modules.size();
  return held;
}

std::string TextOf(const FakeHoldings& held) {
  std::string text;
  const auto add = [&](uint64_t count, const char* one) {
    if (count == 0) return;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + one + (count > 1 ? "s" : "");
  };
  add(held.allocations, "allocation");
  add(held.imports, "import");
  add(held.reservations, "reservation");
  add(held.mappings, "mapping");
  add(held.handles, "handle");
  add(held.host_allocations, "host allocation");
  add(held.host_registrations, "host registration");
  add(held.streams, "stream");
  add(held.events, "event");
  add(held.modules, "module");
  add(held.operations, "operation");
  return text;
}

bool Copy(void* to, const void* from, uint64_t bytes) {
  if (to == nullptr || from == nullptr) return false;
  std::memcpy(to, from, bytes);
  return true;
}

constexpr FakeDriver kControls = {
    .reset =
        [] {
          const Locked lock(TheWorld().mutex);
          SetStandard(TheWorld());
          ForgetCalls();
          WakeWorker(TheWorld());
        },
    .set_seed =
        [](uint64_t seed) {
          const Locked lock(TheWorld().mutex);
          SetSeed(TheWorld(), seed);
        },
    .set_paused =
        [](bool on) {
          const Locked lock(TheWorld().mutex);
          TheWorld().paused = on;
          WakeWorker(TheWorld());
        },
    .set_device_count =
        [](int32_t count) {
          const Locked lock(TheWorld().mutex);
          if (TheWorld().process == 0) TheWorld().device_count = std::clamp(count, 0, kDevicesMax);
        },
    .set_total_bytes =
        [](int32_t device, uint64_t bytes) {
          const Locked lock(TheWorld().mutex);
          TheWorld().devices[device].total_bytes = bytes;
        },
    .set_capability =
        [](FakeCapability capability, bool on) {
          const Locked lock(TheWorld().mutex);
          if (on) {
            TheWorld().lacking.erase(capability);
          } else {
            TheWorld().lacking.insert(capability);
          }
        },
    .hide_function =
        [](const char* name) {
          const Locked lock(TheWorld().mutex);
          TheWorld().hidden = name == nullptr ? "" : name;
        },
    .set_capturing =
        [](Stream stream, bool on) {
          const Locked lock(TheWorld().mutex);
          StreamState* found = nullptr;
          if (stream == nullptr || FindStream(TheWorld(), stream, &found) != kSuccess) return;
          found->is_capturing = on;
          if (on) TheWorld().capture_is_spoiled = false;
        },
    .capture_is_spoiled =
        [] {
          const Locked lock(TheWorld().mutex);
          return TheWorld().capture_is_spoiled;
        },
    .fail_device =
        [](int32_t device, int32_t code) {
          const Locked lock(TheWorld().mutex);
          TheWorld().devices[device].failed = code;
        },
    .fail_call =
        [](const char* function, uint64_t k, int32_t code) {
          const Locked lock(TheWorld().mutex);
          Plan& plan = TheWorld().plan;
          plan.fail_function = function == nullptr ? -1 : FindFunction(function);
          plan.fail_in = function != nullptr && plan.fail_function < 0 ? 0 : k;
          plan.fail_code = code;
          plan.failed = nullptr;
        },
    .drop_ordering_call =
        [](uint64_t k) {
          const Locked lock(TheWorld().mutex);
          TheWorld().plan.drop_in = k;
        },
    .count_calls =
        [](const char* function) {
          const Locked lock(TheWorld().mutex);
          return CountCalls(function);
        },
    .count_ordering_calls =
        [] {
          const Locked lock(TheWorld().mutex);
          return TheWorld().plan.ordering_calls;
        },
    .failed_function =
        [] {
          const Locked lock(TheWorld().mutex);
          return TheWorld().plan.failed;
        },
    .holdings =
        [] {
          const Locked lock(TheWorld().mutex);
          return HoldingsOf(TheWorld());
        },
    .holdings_text =
        [] {
          static thread_local std::string text;
          const Locked lock(TheWorld().mutex);
          text = TextOf(HoldingsOf(TheWorld()));
          return text.c_str();
        },
    .peek =
        [](void* to, DevicePointer from, uint64_t bytes) {
          const Locked lock(TheWorld().mutex);
          return Copy(to, Find(TheWorld(), kAnyDevice, from, bytes), bytes);
        },
    .poke =
        [](DevicePointer to, const void* from, uint64_t bytes) {
          const Locked lock(TheWorld().mutex);
          return Copy(Find(TheWorld(), kAnyDevice, to, bytes), from, bytes);
        },
};

// At the process's end: what is queued does not run any more, and whoever still calls learns it.
__attribute__((destructor)) void End() {
  World& world = TheWorld();
  if (world.process != 0 && world.process != getpid()) return;
  const Locked lock(world.mutex);
  world.ended = true;
  world.queued.notify_all();
  world.changed.notify_all();
}

}  // namespace

World::World() {
  SetStandard(*this);
}

World& TheWorld() {
  static auto* const world = new World;
  return *world;
}

int64_t NowNs() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

}  // namespace weft::fake_cuda

extern "C" __attribute__((visibility("default"))) const weft::test::FakeDriver* weft_fake_driver() {
  return &weft::fake_cuda::kControls;
}
