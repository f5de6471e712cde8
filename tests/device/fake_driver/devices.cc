// Devices, and their primary contexts: a context's handle is its device's ordinal, so to say.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <sys/mman.h>
#include <unistd.h>

#include "tests/device/fake_driver/calls.h"
#include "tests/device/fake_driver/memory.h"
#include "tests/device/fake_driver/schedule.h"

namespace weft::fake_cuda {
namespace {

constexpr uint64_t kFirstContext = 0x5eedc000;
constexpr int kContextsMax = 64;

// Of the calling thread. Plain data: they last longer than what the thread destroys at its end.
thread_local int context_count = 0;
thread_local int contexts[kContextsMax];

bool IsDevice(const World& world, DeviceHandle device) {
  return device >= 0 && device < world.device_count;
}

// The device that has this context, retained or not; -1: none.
int DeviceOf(const World& world, Context context) {
  const uint64_t ordinal = (NumberOf(context) - kFirstContext) / 16;
  return context != nullptr && ordinal < static_cast<uint64_t>(world.device_count)
             ? static_cast<int>(ordinal)
             : -1;
}

Result AttributeOf(const World& world, DeviceAttribute attribute, int32_t* value) {
  const auto has = [&](FakeCapability capability) {
    return world.Has(capability) ? 1 : 0;
  };
  switch (attribute) {
    case DeviceAttribute::kMultiprocessorCount:
      *value = 4;
      return kSuccess;
    case DeviceAttribute::kIntegrated:
    case DeviceAttribute::kComputeMode:
      *value = 0;
      return kSuccess;
    case DeviceAttribute::kEccEnabled:
    case DeviceAttribute::kUnifiedAddressing:
    case DeviceAttribute::kComputePreemption:
      *value = 1;
      return kSuccess;
    case DeviceAttribute::kMemoryClockRate:
      *value = 2'619'000;
      return kSuccess;
    case DeviceAttribute::kMemoryBusWidth:
      *value = 5120;
      return kSuccess;
    case DeviceAttribute::kL2CacheBytes:
      *value = 50 << 20;
      return kSuccess;
    case DeviceAttribute::kComputeCapabilityMajor:
      *value = 9;
      return kSuccess;
    case DeviceAttribute::kComputeCapabilityMinor:
      *value = 0;
      return kSuccess;
    case DeviceAttribute::kSharedBytesPerBlockMax:
      *value = 227 << 10;
      return kSuccess;
    case DeviceAttribute::kHostPointerForRegisteredMemory:
    case DeviceAttribute::kHostRegister:
      *value = has(FakeCapability::kHostRegister);
      return kSuccess;
    case DeviceAttribute::kVirtualMemory:
      *value = has(FakeCapability::kVirtualMemory);
      return kSuccess;
    case DeviceAttribute::kPosixFileDescriptors:
      *value = has(FakeCapability::kVirtualMemory) * has(FakeCapability::kPosixDescriptors);
      return kSuccess;
    case DeviceAttribute::kStreamMemOps64Bit:
    case DeviceAttribute::kStreamWaitValueNor:
      *value = has(FakeCapability::kMemoryWords);
      return kSuccess;
  }
  return kInvalidValue;
}

}  // namespace

DeviceState* CurrentDevice(World& world) {
  return context_count == 0 ? nullptr : &world.devices[contexts[context_count - 1]];
}

int OrdinalOf(const World& world, const DeviceState& device) {
  return static_cast<int>(&device - world.devices);
}

Result NeedContext(World& world, DeviceState** device) {
  *device = CurrentDevice(world);
  if (*device == nullptr || (*device)->retained == 0) return kInvalidContext;
  return (*device)->failed;
}

Context ContextOf(int ordinal) {
  return reinterpret_cast<Context>(PointerOf(kFirstContext + 16 * static_cast<uint64_t>(ordinal)));
}

void FailDevice(World& world, int device, Result code, const std::string& why) {
  if (world.devices[device].failed != kSuccess) return;
  std::fprintf(stderr, "fake CUDA driver: device %d fails with %d: %s\n", device, code,
               why.c_str());
  world.devices[device].failed = code;
}

Result Init(uint32_t flags) {
  World& world = TheWorld();
  if (flags != 0) return kInvalidValue;
  if (world.device_count == 0) return kNoDevice;
  if (world.process != 0) return kSuccess;
  if (!OpenWindow(world)) return kOutOfMemory;
  world.process = getpid();
  StartWorker();
  return kSuccess;
}

Result DeviceGetCount(int32_t* count) {
  if (count == nullptr) return kInvalidValue;
  *count = TheWorld().device_count;
  return kSuccess;
}

Result DeviceGet(DeviceHandle* device, int32_t ordinal) {
  if (device == nullptr) return kInvalidValue;
  if (!IsDevice(TheWorld(), ordinal)) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

Result DeviceGetName(char* name, int32_t bytes, DeviceHandle device) {
  if (name == nullptr || bytes <= 0) return kInvalidValue;
  if (!IsDevice(TheWorld(), device)) return kInvalidDevice;
  std::snprintf(name, static_cast<size_t>(bytes), "weft fake device");
  return kSuccess;
}

Result DeviceGetUuid(Uuid* uuid, DeviceHandle device) {
  if (uuid == nullptr) return kInvalidValue;
  if (!IsDevice(TheWorld(), device)) return kInvalidDevice;
  *uuid = {"weft fake UUID "};
  uuid->bytes[15] = static_cast<char>('0' + device);
  return kSuccess;
}

Result DeviceGetPCIBusId(char* text, int32_t bytes, DeviceHandle device) {
  if (text == nullptr || bytes < 13) return kInvalidValue;
  if (!IsDevice(TheWorld(), device)) return kInvalidDevice;
  std::snprintf(text, static_cast<size_t>(bytes), "0000:%02X:00.0",
                static_cast<unsigned>(0x19 + device));
  return kSuccess;
}

Result DeviceTotalMem(size_t* bytes, DeviceHandle device) {
  if (bytes == nullptr) return kInvalidValue;
  if (!IsDevice(TheWorld(), device)) return kInvalidDevice;
  *bytes = TheWorld().devices[device].total_bytes;
  return kSuccess;
}

Result DeviceGetAttribute(int32_t* value, DeviceAttribute attribute, DeviceHandle device) {
  if (value == nullptr) return kInvalidValue;
  if (!IsDevice(TheWorld(), device)) return kInvalidDevice;
  return AttributeOf(TheWorld(), attribute, value);
}

Result DeviceCanAccessPeer(int32_t* can, DeviceHandle device, DeviceHandle peer) {
  const World& world = TheWorld();
  if (can == nullptr) return kInvalidValue;
  if (!IsDevice(world, device) || !IsDevice(world, peer)) return kInvalidDevice;
  *can = device != peer && world.Has(FakeCapability::kPeerAccess) ? 1 : 0;
  return kSuccess;
}

Result DevicePrimaryCtxRetain(Context* context, DeviceHandle device) {
  World& world = TheWorld();
  if (context == nullptr) return kInvalidValue;
  if (!IsDevice(world, device)) return kInvalidDevice;
  DeviceState& state = world.devices[device];
  if (state.retained++ == 0) {
    state.legacy.device = device;
    state.legacy.is_legacy = true;
    state.legacy.weight = DrawWeight(world);
  }
  *context = ContextOf(device);
  return kSuccess;
}

Result DevicePrimaryCtxRelease(DeviceHandle device) {
  World& world = TheWorld();
  if (!IsDevice(world, device)) return kInvalidDevice;
  if (world.devices[device].retained == 0) return kInvalidContext;
  if (--world.devices[device].retained == 0) DropContext(world, device);
  return kSuccess;
}

Result CtxGetCurrent(Context* context) {
  World& world = TheWorld();
  if (context == nullptr) return kInvalidValue;
  const DeviceState* const current = CurrentDevice(world);
  *context = current == nullptr ? nullptr : ContextOf(OrdinalOf(world, *current));
  return kSuccess;
}

Result CtxPushCurrent(Context context) {
  World& world = TheWorld();
  const int device = DeviceOf(world, context);
  if (device < 0 || world.devices[device].retained == 0) return kInvalidContext;
  if (context_count == kContextsMax) return kOutOfMemory;
  contexts[context_count++] = device;
  return kSuccess;
}

Result CtxPopCurrent(Context* context) {
  if (context_count == 0) return kInvalidContext;
  --context_count;
  if (context != nullptr) *context = ContextOf(contexts[context_count]);
  return kSuccess;
}

Result CtxGetDevice(DeviceHandle* device) {
  World& world = TheWorld();
  const DeviceState* const current = CurrentDevice(world);
  if (current == nullptr) return kInvalidContext;
  if (device == nullptr) return kInvalidValue;
  *device = OrdinalOf(world, *current);
  return kSuccess;
}

Result CtxSynchronize() {
  World& world = TheWorld();
  DeviceState* device = nullptr;
  if (const Result result = NeedContext(world, &device); result != kSuccess) return result;
  const uint64_t number = world.next_number;
  WaitFor(world, [&] { return DeviceHasEnded(world, OrdinalOf(world, *device), number); });
  return device->failed;
}

Result CtxEnablePeerAccess(Context peer, uint32_t flags) {
  World& world = TheWorld();
  DeviceState* device = nullptr;
  if (const Result result = NeedContext(world, &device); result != kSuccess) return result;
  const int other = DeviceOf(world, peer);
  if (flags != 0) return kInvalidValue;
  if (other < 0 || world.devices[other].retained == 0 || &world.devices[other] == device)
    return kInvalidContext;
  if (!world.Has(FakeCapability::kPeerAccess)) return kPeerAccessUnsupported;
  return device->peers.insert(other).second ? kSuccess : kPeerAccessAlreadyEnabled;
}

void DropContext(World& world, int ordinal) {
  const uint64_t number = world.next_number;
  WaitFor(world, [&] { return DeviceHasEnded(world, ordinal, number); });
  std::erase_if(world.streams, [&](const auto& one) { return one.second->device == ordinal; });
  std::erase_if(world.events, [&](const auto& one) { return one.second->device == ordinal; });
  std::erase_if(world.functions, [&](const auto& one) {
    return world.modules.at(NumberOf(one.second.module)) == ordinal;
  });
  std::erase_if(world.modules, [&](const auto& one) { return one.second == ordinal; });
  DropMemory(world, ordinal);
  world.devices[ordinal].peers.clear();
  world.devices[ordinal].failed = kSuccess;
}

}  // namespace weft::fake_cuda
