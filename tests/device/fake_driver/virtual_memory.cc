// Handles of memory, reservations of addresses, and mappings of the ones at the others; handles as descriptors: of a memfd.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/device/fake_driver/calls.h"
#include "tests/device/fake_driver/memory.h"

namespace weft::fake_cuda {
namespace {

bool IsAligned(uint64_t number) {
  return number % kGranularityBytes == 0;
}

Result CheckProperties(const World& world, const AllocationProperties* properties) {
  if (!world.Has(FakeCapability::kVirtualMemory)) return kNotSupported;
  if (properties == nullptr || properties->type != kAllocationPinned ||
      properties->location.type != kLocationDevice)
    return kInvalidValue;
  if (properties->location.id < 0 || properties->location.id >= world.device_count)
    return kInvalidDevice;
  if ((properties->requested_handle_types & ~kPosixFileDescriptor) != 0) return kNotSupported;
  if (properties->requested_handle_types != 0 && !world.Has(FakeCapability::kPosixDescriptors))
    return kNotSupported;
  return kSuccess;
}

// Whether [begin, begin + bytes) is full of whole mappings of handles.
bool IsOfWholeMappings(World& world, uint64_t begin, uint64_t bytes) {
  uint64_t at = begin;
  while (at < begin + bytes) {
    const auto it = world.mappings.find(at);
    if (it == world.mappings.end() || it->second.is_plain) return false;
    at += it->second.bytes;
  }
  return bytes > 0 && at == begin + bytes;
}

// The device of a descriptor of such memory; -1: it is of something else.
int DeviceOfDescriptor(int fd) {
  char path[64];
  char name[64] = {};
  std::snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  int device = -1;
  if (readlink(path, name, sizeof(name) - 1) < 0 ||
      std::sscanf(name, "/memfd:weft_fake_device_%d", &device) != 1)
    return -1;
  return device;
}

AllocationHandle AddHandle(World& world, const std::shared_ptr<Physical>& physical) {
  world.next_handle += 16;
  physical->handle = world.next_handle;
  world.handles[physical->handle] = {physical, 1};
  return physical->handle;
}

}  // namespace

Result MemGetAllocationGranularity(size_t* bytes, const AllocationProperties* properties,
                                   int32_t option) {
  if (const Result result = CheckProperties(TheWorld(), properties); result != kSuccess)
    return result;
  if (bytes == nullptr || option < 0 || option > 1) return kInvalidValue;
  *bytes = kGranularityBytes;
  return kSuccess;
}

Result MemCreate(AllocationHandle* handle, size_t bytes, const AllocationProperties* properties,
                 unsigned long long flags) {
  World& world = TheWorld();
  if (const Result result = CheckProperties(world, properties); result != kSuccess) return result;
  if (handle == nullptr || bytes == 0 || !IsAligned(bytes) || flags != 0) return kInvalidValue;
  auto physical = MakePhysical(world, properties->location.id, bytes);
  if (physical == nullptr) return kOutOfMemory;
  physical->handle_types = properties->requested_handle_types;
  *handle = AddHandle(world, physical);
  return kSuccess;
}

Result MemRelease(AllocationHandle handle) {
  World& world = TheWorld();
  const auto it = world.handles.find(handle);
  if (it == world.handles.end()) return kInvalidValue;
  if (--it->second.references == 0) world.handles.erase(it);
  return kSuccess;
}

Result MemAddressReserve(DevicePointer* memory, size_t bytes, size_t alignment,
                         DevicePointer /*wanted: a hint*/, unsigned long long flags) {
  World& world = TheWorld();
  if (!world.Has(FakeCapability::kVirtualMemory)) return kNotSupported;
  if (memory == nullptr || bytes == 0 || bytes % kPageBytes != 0 || flags != 0 ||
      (alignment != 0 && !std::has_single_bit(alignment)))
    return kInvalidValue;
  const uint64_t address =
      FindAddresses(world, bytes, std::max<uint64_t>(alignment, kGranularityBytes));
  if (address == 0) return kOutOfMemory;
  world.ranges.emplace(address, Range{.kind = RangeKind::kReservation, .bytes = bytes});
  *memory = address;
  return kSuccess;
}

Result MemAddressFree(DevicePointer memory, size_t bytes) {
  World& world = TheWorld();
  const auto it = world.ranges.find(memory);
  if (it == world.ranges.end() || it->second.kind != RangeKind::kReservation ||
      it->second.bytes != bytes)
    return kInvalidValue;
  const auto mapped = world.mappings.lower_bound(memory);
  if (mapped != world.mappings.end() && mapped->first < memory + bytes) return kInvalidValue;
  world.ranges.erase(it);
  return kSuccess;
}

Result MemMap(DevicePointer memory, size_t bytes, size_t offset, AllocationHandle handle,
              unsigned long long flags) {
  World& world = TheWorld();
  const auto it = world.handles.find(handle);
  // "Currently must be zero", of the offset.
  if (it == world.handles.end() || flags != 0 || offset != 0 || bytes == 0 || !IsAligned(bytes) ||
      !IsAligned(memory) || bytes > it->second.physical->bytes)
    return kInvalidValue;
  const auto range = FindRange(world, memory);
  if (range == world.ranges.end() || range->second.kind != RangeKind::kReservation ||
      memory + bytes > range->first + range->second.bytes)
    return kInvalidValue;
  const auto next = world.mappings.lower_bound(memory);
  if (FindMapping(world, memory) != world.mappings.end() ||
      (next != world.mappings.end() && next->first < memory + bytes))
    return kInvalidValue;
  AddMapping(world, memory, {bytes, it->second.physical, 0, false});
  return kSuccess;
}

Result MemUnmap(DevicePointer memory, size_t bytes) {
  World& world = TheWorld();
  if (!IsOfWholeMappings(world, memory, bytes)) return kInvalidValue;
  for (uint64_t at = memory; at < memory + bytes;) {
    const uint64_t step = world.mappings.at(at).bytes;
    RemoveMapping(world, at);
    at += step;
  }
  return kSuccess;
}

Result MemSetAccess(DevicePointer memory, size_t bytes, const AccessDescription* access,
                    size_t count) {
  World& world = TheWorld();
  if (access == nullptr || count == 0 || !IsOfWholeMappings(world, memory, bytes))
    return kInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    const int device = access[i].location.id;
    if (access[i].location.type != kLocationDevice) return kInvalidValue;
    if (access[i].flags != 0 && access[i].flags != 1 && access[i].flags != kAccessReadWrite)
      return kInvalidValue;
    if (device < 0 || device >= world.device_count) return kInvalidDevice;
    if (!world.Has(FakeCapability::kPeerAccess) &&
        device != world.mappings.at(memory).physical->device)
      return kInvalidDevice;
  }
  for (uint64_t at = memory; at < memory + bytes;) {
    Mapping& mapping = world.mappings.at(at);
    for (size_t i = 0; i < count; ++i) {
      const unsigned bit = 1U << access[i].location.id;
      mapping.access = access[i].flags == 0 ? mapping.access & ~bit : mapping.access | bit;
    }
    if (!ShowMapping(world, at)) return kOutOfMemory;
    at += mapping.bytes;
  }
  return kSuccess;
}

Result MemExportToShareableHandle(void* shareable, AllocationHandle handle, int32_t type,
                                  unsigned long long flags) {
  World& world = TheWorld();
  const auto it = world.handles.find(handle);
  if (shareable == nullptr || it == world.handles.end() || flags != 0) return kInvalidValue;
  if (type != kPosixFileDescriptor || !world.Has(FakeCapability::kPosixDescriptors))
    return kNotSupported;
  if ((it->second.physical->handle_types & type) == 0) return kInvalidValue;
  const int fd = fcntl(it->second.physical->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return kOutOfMemory;
  std::memcpy(shareable, &fd, sizeof(fd));
  return kSuccess;
}

Result MemImportFromShareableHandle(AllocationHandle* handle, void* shareable, int32_t type) {
  World& world = TheWorld();
  if (type != kPosixFileDescriptor || !world.Has(FakeCapability::kVirtualMemory) ||
      !world.Has(FakeCapability::kPosixDescriptors))
    return kNotSupported;
  const int given = static_cast<int>(reinterpret_cast<intptr_t>(shareable));
  const int device = DeviceOfDescriptor(given);
  struct stat facts = {};
  if (handle == nullptr || device < 0 || fstat(given, &facts) != 0) return kInvalidValue;
  // Not one of those that this process sees.
  if (device >= world.device_count) return kNotSupported;
  const int fd = fcntl(given, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return kOutOfMemory;
  auto physical = std::make_shared<Physical>();
  physical->fd = fd;
  physical->bytes = static_cast<uint64_t>(facts.st_size);
  physical->device = device;
  physical->is_charged = false;
  physical->handle_types = kPosixFileDescriptor;
  *handle = AddHandle(world, physical);
  return kSuccess;
}

Result MemRetainAllocationHandle(AllocationHandle* handle, void* memory) {
  World& world = TheWorld();
  const auto it = FindMapping(world, reinterpret_cast<uint64_t>(memory));
  if (handle == nullptr || it == world.mappings.end() || it->second.is_plain) return kInvalidValue;
  const std::shared_ptr<Physical>& physical = it->second.physical;
  const auto [found, added] = world.handles.try_emplace(physical->handle, HandleState{physical, 0});
  ++found->second.references;
  *handle = physical->handle;
  return kSuccess;
}

}  // namespace weft::fake_cuda
