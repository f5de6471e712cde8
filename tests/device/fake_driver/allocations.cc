// cuMemAlloc, and its memory in other processes: a handle says which bytes of which process's memfd they are.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/device/fake_driver/calls.h"
#include "tests/device/fake_driver/memory.h"
#include "tests/device/fake_driver/schedule.h"

namespace weft::fake_cuda {
namespace {

constexpr char kMagic[8] = "weftipc";

struct Exported {
  char magic[8];
  int32_t process;
  int32_t fd;
  uint64_t offset;
  uint64_t bytes;
  uint64_t asked_bytes;
  int32_t device;
};

static_assert(sizeof(Exported) <= sizeof(IpcMemoryHandle));

// Addresses with this memory; 0: there are none.
uint64_t Place(World& world, std::shared_ptr<Physical> physical, Range range) {
  const uint64_t bytes = range.bytes;
  const uint64_t address = FindAddresses(world, bytes, kPageBytes);
  if (address == 0) return 0;
  const unsigned access = 1U << range.device;
  if (!physical->owns_fd) physical->offset = address - world.window;
  world.ranges.emplace(address, std::move(range));
  AddMapping(world, address, {bytes, std::move(physical), access, true});
  if (ShowMapping(world, address)) return address;
  RemoveMapping(world, address);
  world.ranges.erase(address);
  return 0;
}

}  // namespace

Result MemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  DeviceState* device = nullptr;
  if (const Result result = NeedContext(TheWorld(), &device); result != kSuccess) return result;
  if (free_bytes == nullptr || total_bytes == nullptr) return kInvalidValue;
  *total_bytes = device->total_bytes;
  *free_bytes = device->total_bytes - std::min(device->used_bytes, device->total_bytes);
  return kSuccess;
}

Result MemAlloc(DevicePointer* memory, size_t bytes) {
  World& world = TheWorld();
  DeviceState* device = nullptr;
  if (const Result result = NeedContext(world, &device); result != kSuccess) return result;
  if (memory == nullptr || bytes == 0) return kInvalidValue;
  if (bytes > device->total_bytes - std::min(device->used_bytes, device->total_bytes))
    return kOutOfMemory;
  auto physical = std::make_shared<Physical>();
  physical->fd = world.heap;
  physical->owns_fd = false;
  physical->bytes = RoundUp(bytes, kPageBytes);
  physical->device = OrdinalOf(world, *device);
  device->used_bytes += physical->bytes;
  const uint64_t address =
      Place(world, std::move(physical),
            {.kind = RangeKind::kAllocation, .bytes = bytes, .device = OrdinalOf(world, *device)});
  if (address == 0) return kOutOfMemory;
  *memory = address;
  return kSuccess;
}

// "May perform implicit synchronization": waits for all that its device does.
Result MemFree(DevicePointer memory) {
  World& world = TheWorld();
  DeviceState* current = nullptr;
  if (const Result result = NeedContext(world, &current); result == kInvalidContext) return result;
  const auto is_there = [&] {
    const auto it = world.ranges.find(memory);
    return it != world.ranges.end() && it->second.kind == RangeKind::kAllocation;
  };
  if (!is_there()) return kInvalidValue;
  const int device = world.ranges.at(memory).device;
  const uint64_t number = world.next_number;
  WaitFor(world, [&] { return DeviceHasEnded(world, device, number); });
  if (!is_there()) return kInvalidValue;
  RemoveMapping(world, memory);
  world.ranges.erase(memory);
  return world.devices[device].failed;
}

Result IpcGetMemHandle(IpcMemoryHandle* handle, DevicePointer memory) {
  World& world = TheWorld();
  DeviceState* current = nullptr;
  if (const Result result = NeedContext(world, &current); result != kSuccess) return result;
  if (!world.Has(FakeCapability::kInterprocess)) return kNotSupported;
  const auto it = world.ranges.find(memory);
  if (handle == nullptr || it == world.ranges.end() || it->second.kind != RangeKind::kAllocation)
    return kInvalidValue;
  const Physical& physical = *world.mappings.at(memory).physical;
  Exported exported = {};
  std::memcpy(exported.magic, kMagic, sizeof(kMagic));
  exported.process = getpid();
  exported.fd = physical.fd;
  exported.offset = physical.offset;
  exported.bytes = physical.bytes;
  exported.asked_bytes = it->second.bytes;
  exported.device = physical.device;
  *handle = {};
  std::memcpy(handle, &exported, sizeof(exported));
  return kSuccess;
}

Result IpcOpenMemHandle(DevicePointer* memory, IpcMemoryHandle handle, uint32_t flags) {
  World& world = TheWorld();
  DeviceState* current = nullptr;
  if (const Result result = NeedContext(world, &current); result != kSuccess) return result;
  if (!world.Has(FakeCapability::kInterprocess)) return kNotSupported;
  if (memory == nullptr || flags != kIpcLazyEnablePeerAccess) return kInvalidValue;
  Exported exported;
  std::memcpy(&exported, &handle, sizeof(exported));
  if (std::memcmp(exported.magic, kMagic, sizeof(kMagic)) != 0) return kInvalidValue;
  if (exported.process == getpid()) return kInvalidContext;
  const int device = OrdinalOf(world, *current);
  std::string import(handle.bytes, sizeof(handle));
  for (auto& [address, range] : world.ranges) {
    if (range.import != import || range.device != device) continue;
    ++range.opened;
    *memory = address;
    return kSuccess;
  }
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/fd/%d", exported.process, exported.fd);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return kMapFailed;
  auto physical = std::make_shared<Physical>();
  physical->fd = fd;
  physical->offset = exported.offset;
  physical->bytes = exported.bytes;
  physical->device = exported.device;
  physical->is_charged = false;
  const uint64_t address = Place(world, std::move(physical),
                                 {.kind = RangeKind::kImport,
                                  .bytes = exported.asked_bytes,
                                  .device = device,
                                  .opened = 1,
                                  .import = std::move(import)});
  if (address == 0) return kMapFailed;
  *memory = address;
  return kSuccess;
}

Result IpcCloseMemHandle(DevicePointer memory) {
  World& world = TheWorld();
  DeviceState* current = nullptr;
  if (const Result result = NeedContext(world, &current); result == kInvalidContext) return result;
  const auto it = world.ranges.find(memory);
  if (it == world.ranges.end() || it->second.kind != RangeKind::kImport) return kInvalidValue;
  if (--it->second.opened > 0) return kSuccess;
  RemoveMapping(world, memory);
  world.ranges.erase(it);
  return kSuccess;
}

}  // namespace weft::fake_cuda
