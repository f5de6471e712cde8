// Host memory that the driver knows: pinned and registered; a device's pointer to it is the host's. What the driver knows of a pointer.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <sys/mman.h>

#include "tests/device/fake_driver/calls.h"
#include "tests/device/fake_driver/memory.h"
#include "tests/device/fake_driver/schedule.h"

namespace weft::fake_cuda {
namespace {

bool IsMapped(uint64_t address, uint64_t bytes) {
  const uint64_t begin = address / kPageBytes * kPageBytes;
  const uint64_t end = RoundUp(address + bytes, kPageBytes);
  std::vector<unsigned char> pages((end - begin) / kPageBytes);
  return mincore(PointerOf(begin), end - begin, pages.data()) == 0;
}

// Whether a page of it is shared with other processes.
bool IsShared(uint64_t address, uint64_t bytes) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0;
    uint64_t end = 0;
    char protection[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &begin, &end, protection) == 3 &&
        begin < address + bytes && address < end && protection[3] == 's')
      return true;
  }
  return false;
}

bool Overlaps(World& world, uint64_t address, uint64_t bytes) {
  const auto next = world.host.lower_bound(address);
  return (next != world.host.end() && next->first < address + bytes) ||
         FindHost(world, address, 1) != world.host.end();
}

// Booleans have four bytes.
template <typename Value>
Result Give(void* to, Value value) {
  *static_cast<Value*>(to) = value;
  return kSuccess;
}

Result HostAttribute(void* value, PointerAttribute attribute, DevicePointer pointer, uint64_t begin,
                     const HostRange& range) {
  switch (attribute) {
    case PointerAttribute::kContext:
      return Give(value, ContextOf(range.device));
    case PointerAttribute::kMemoryType:
      return Give(value, kMemoryTypeHost);
    case PointerAttribute::kDevicePointer:
    case PointerAttribute::kHostPointer:
      return Give(value, pointer);
    case PointerAttribute::kIsManaged:
    case PointerAttribute::kIsIpcCapable:
      return Give(value, uint32_t{0});
    case PointerAttribute::kDeviceOrdinal:
      return Give(value, int32_t{range.device});
    case PointerAttribute::kRangeStart:
      return Give(value, begin);
    case PointerAttribute::kRangeBytes:
      return Give(value, size_t{range.bytes});
    case PointerAttribute::kMapped:
      return Give(value, uint32_t{1});
    case PointerAttribute::kAllowedHandleTypes:
      return Give(value, uint64_t{0});
  }
  return kInvalidValue;
}

Result DeviceAttributeOf(World& world, void* value, PointerAttribute attribute,
                         DevicePointer pointer) {
  const auto range = FindRange(world, pointer);
  if (range == world.ranges.end()) return kInvalidValue;
  const auto mapping = FindMapping(world, pointer);
  const bool is_mapped = mapping != world.mappings.end();
  if (attribute == PointerAttribute::kMapped) return Give(value, is_mapped ? 1U : 0U);
  if (attribute == PointerAttribute::kRangeStart) return Give(value, range->first);
  if (attribute == PointerAttribute::kRangeBytes) return Give(value, size_t{range->second.bytes});
  if (!is_mapped) return kInvalidValue;
  const Physical& physical = *mapping->second.physical;
  switch (attribute) {
    case PointerAttribute::kContext:
      // Memory of handles belongs to no context.
      return Give(value, mapping->second.is_plain ? ContextOf(range->second.device) : nullptr);
    case PointerAttribute::kMemoryType:
      return Give(value, kMemoryTypeDevice);
    case PointerAttribute::kDevicePointer:
      return Give(value, pointer);
    case PointerAttribute::kIsManaged:
      return Give(value, uint32_t{0});
    case PointerAttribute::kDeviceOrdinal:
      return Give(value, int32_t{physical.device});
    case PointerAttribute::kIsIpcCapable:
      return Give(value, range->second.kind == RangeKind::kAllocation &&
                                 world.Has(FakeCapability::kInterprocess)
                             ? 1U
                             : 0U);
    case PointerAttribute::kAllowedHandleTypes:
      return Give(value, static_cast<uint64_t>(physical.handle_types));
    default:  // it has no host pointer
      return kInvalidValue;
  }
}

}  // namespace

Result MemHostAlloc(void** memory, size_t bytes, uint32_t flags) {
  World& world = TheWorld();
  DeviceState* device = nullptr;
  if (const Result result = NeedContext(world, &device); result != kSuccess) return result;
  if (memory == nullptr || bytes == 0 || (flags & ~(kHostAllocPortable | kHostAllocDeviceMap)) != 0)
    return kInvalidValue;
  void* const made = mmap(nullptr, RoundUp(bytes, kPageBytes), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return kOutOfMemory;
  std::memset(made, 0xa7, std::min<size_t>(bytes, 64 << 10));
  world.host[reinterpret_cast<uint64_t>(made)] = {bytes, true, OrdinalOf(world, *device)};
  *memory = made;
  return kSuccess;
}

// Waits for all that the devices do, as it is known of drivers.
Result MemFreeHost(void* memory) {
  World& world = TheWorld();
  DeviceState* current = nullptr;
  if (const Result result = NeedContext(world, &current); result == kInvalidContext) return result;
  const auto is_there = [&] {
    const auto it = world.host.find(reinterpret_cast<uint64_t>(memory));
    return it != world.host.end() && it->second.is_allocation;
  };
  if (!is_there()) return kInvalidValue;
  const uint64_t number = world.next_number;
  for (int device = 0; device < world.device_count; ++device)
    WaitFor(world, [&] { return DeviceHasEnded(world, device, number); });
  if (!is_there()) return kInvalidValue;
  const auto it = world.host.find(reinterpret_cast<uint64_t>(memory));
  munmap(memory, RoundUp(it->second.bytes, kPageBytes));
  world.host.erase(it);
  return current->failed;
}

Result MemHostRegister(void* memory, size_t bytes, uint32_t flags) {
  World& world = TheWorld();
  DeviceState* device = nullptr;
  if (const Result result = NeedContext(world, &device); result != kSuccess) return result;
  if (!world.Has(FakeCapability::kHostRegister)) return kNotSupported;
  const auto address = reinterpret_cast<uint64_t>(memory);
  if (memory == nullptr || bytes == 0 || IsInWindow(world, address) ||
      (flags & ~(kHostRegisterPortable | kHostRegisterDeviceMap)) != 0 || !IsMapped(address, bytes))
    return kInvalidValue;
  if (Overlaps(world, address, bytes)) return kHostMemoryAlreadyRegistered;
  if (!world.Has(FakeCapability::kRegisterShared) && IsShared(address, bytes)) return kNotSupported;
  world.host[address] = {bytes, false, OrdinalOf(world, *device)};
  return kSuccess;
}

// Does not wait: whoever still uses the memory in a stream sees an illegal address there.
Result MemHostUnregister(void* memory) {
  World& world = TheWorld();
  DeviceState* current = nullptr;
  if (const Result result = NeedContext(world, &current); result == kInvalidContext) return result;
  const auto it = world.host.find(reinterpret_cast<uint64_t>(memory));
  if (it == world.host.end() || it->second.is_allocation) return kHostMemoryNotRegistered;
  world.host.erase(it);
  return current->failed;
}

Result MemHostGetDevicePointer(DevicePointer* device, void* host, uint32_t flags) {
  World& world = TheWorld();
  DeviceState* current = nullptr;
  if (const Result result = NeedContext(world, &current); result != kSuccess) return result;
  const auto address = reinterpret_cast<uint64_t>(host);
  if (device == nullptr || flags != 0 || FindHost(world, address, 1) == world.host.end())
    return kInvalidValue;
  *device = address;
  return kSuccess;
}

Result PointerGetAttribute(void* value, PointerAttribute attribute, DevicePointer pointer) {
  World& world = TheWorld();
  if (value == nullptr) return kInvalidValue;
  if (attribute == PointerAttribute::kDevicePointer && CurrentDevice(world) == nullptr)
    return kInvalidContext;
  const auto host = FindHost(world, pointer, 1);
  if (host != world.host.end())
    return HostAttribute(value, attribute, pointer, host->first, host->second);
  return DeviceAttributeOf(world, value, attribute, pointer);
}

}  // namespace weft::fake_cuda
