// Copies and patterns. A pageable source is read before the call returns, and of a pageable destination the call returns when the bytes are
// there, as CUDA says of both.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/device/fake_driver/calls.h"
#include "tests/device/fake_driver/memory.h"
#include "tests/device/fake_driver/schedule.h"
#include "tests/device/fake_driver/streams.h"

namespace weft::fake_cuda {
namespace {

// Neither a device's nor known to the driver, not even in part.
bool IsPageable(World& world, uint64_t address, uint64_t bytes) {
  if (IsInWindow(world, address)) return false;
  const auto next = world.host.lower_bound(address);
  return (next == world.host.end() || next->first >= address + bytes) &&
         FindHost(world, address, 1) == world.host.end();
}

}  // namespace

std::function<bool()> InParts(World& world, uint64_t bytes,
                              const std::function<bool(uint64_t begin, uint64_t end)>& part) {
  const auto parts = static_cast<uint64_t>(DrawParts(world));
  const bool backwards = world.random() % 2 == 0;
  return [=, done = uint64_t{0}]() mutable {
    const uint64_t at = backwards ? parts - 1 - done : done;
    const bool goes_on = part(bytes * at / parts, bytes * (at + 1) / parts);
    return ++done == parts || !goes_on;
  };
}

Result MemcpyAsync(DevicePointer to, DevicePointer from, size_t bytes, Stream handle) {
  World& world = TheWorld();
  DeviceState* current = nullptr;
  StreamState* stream = nullptr;
  if (const Result result = NeedContext(world, &current); result != kSuccess) return result;
  if (const Result result = FindStream(world, handle, &stream); result != kSuccess) return result;
  if (bytes == 0) return kSuccess;
  const bool to_pageable = IsPageable(world, to, bytes);
  const bool from_pageable = IsPageable(world, from, bytes);
  if ((!to_pageable && Find(world, kAnyDevice, to, bytes) == nullptr) ||
      (!from_pageable && Find(world, kAnyDevice, from, bytes) == nullptr))
    return kInvalidValue;
  std::shared_ptr<std::vector<char>> staged;
  if (from_pageable) {
    const char* const source = PointerOf(from);
    staged = std::make_shared<std::vector<char>>(source, source + bytes);
  }
  const int device = stream->device;
  const auto move = [=, &world](uint64_t begin, uint64_t end) {
    if (begin == end) return true;
    char* const into =
        to_pageable ? PointerOf(to + begin) : Find(world, kAnyDevice, to + begin, end - begin);
    const char* const of =
        staged ? staged->data() + begin : Find(world, kAnyDevice, from + begin, end - begin);
    if (into == nullptr || of == nullptr) {
      FailDevice(world, device, kIllegalAddress, "memory that a queued copy uses is gone");
      return false;
    }
    std::memmove(into, of, end - begin);
    return true;
  };
  const uint64_t number = Enqueue(world, *stream, {.step = InParts(world, bytes, move)});
  if (to_pageable) {
    WaitFor(world, [&] {
      return FindStream(world, handle, &stream) == kInvalidHandle ||
             HasEnded(world, *stream, number + 1);
    });
  }
  return world.devices[device].failed;
}

Result MemsetD8Async(DevicePointer memory, unsigned char value, size_t bytes, Stream handle) {
  World& world = TheWorld();
  DeviceState* current = nullptr;
  StreamState* stream = nullptr;
  if (const Result result = NeedContext(world, &current); result != kSuccess) return result;
  if (const Result result = FindStream(world, handle, &stream); result != kSuccess) return result;
  if (bytes == 0) return kSuccess;
  const int device = stream->device;
  if (Find(world, device, memory, bytes) == nullptr) return kInvalidValue;
  Enqueue(world, *stream, {.step = InParts(world, bytes, [=, &world](uint64_t begin, uint64_t end) {
                             if (begin == end) return true;
                             char* const into = Find(world, device, memory + begin, end - begin);
                             if (into == nullptr) {
                               FailDevice(world, device, kIllegalAddress,
                                          "memory that a queued memset uses is gone");
                               return false;
                             }
                             std::memset(into, value, end - begin);
                             return true;
                           })});
  return kSuccess;
}

}  // namespace weft::fake_cuda
