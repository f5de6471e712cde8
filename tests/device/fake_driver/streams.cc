#include "tests/device/fake_driver/streams.h"

#include <algorithm>
#include <utility>

#include "tests/device/fake_driver/calls.h"
#include "tests/device/fake_driver/memory.h"
#include "tests/device/fake_driver/schedule.h"

namespace weft::fake_cuda {
namespace {

thread_local int32_t capture_mode = 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL

constexpr uint64_t kLegacyHandle = 1;  // CU_STREAM_LEGACY
constexpr uint32_t kEventFlags = kEventBlockingSync | kEventDisableTiming;

// Whether this ordering call is the one that does nothing.
bool IsDropped(World& world) {
  ++world.plan.ordering_calls;
  return world.plan.drop_in != 0 && --world.plan.drop_in == 0;
}

Result FindEvent(World& world, Event handle, std::shared_ptr<EventState>* found) {
  const auto it = world.events.find(NumberOf(handle));
  if (it == world.events.end()) return kInvalidHandle;
  *found = it->second;
  return world.devices[it->second->device].failed;
}

bool HasPassed(const EventState& event, uint64_t recorded) {
  return event.passed >= recorded;
}

// What a memory word must be for the wait to end.
bool IsMet(uint32_t word, uint32_t value, uint32_t flags) {
  switch (flags & 3U) {
    case kWaitGreaterOrEqual:
      return static_cast<int32_t>(word - value) >= 0;
    case kWaitEqual:
      return word == value;
    case 2:
      return (word & value) != 0;
    default:
      return ~(word | value) != 0;
  }
}

uint32_t* FindWord(World& world, const StreamState& stream, DevicePointer address) {
  return reinterpret_cast<uint32_t*>(Find(world, stream.device, address, sizeof(uint32_t)));
}

Result EnqueueWord(World& world, StreamState& stream, const MemOpValue& asked) {
  const int device = stream.device;
  const DevicePointer address = asked.address;
  const auto value = static_cast<uint32_t>(asked.value);
  const uint32_t flags = asked.flags;
  if (IsDropped(world)) return kSuccess;
  const auto word = [&world, device, address] {
    char* const found = Find(world, device, address, sizeof(uint32_t));
    if (found == nullptr)
      FailDevice(world, device, kIllegalAddress, "a memory word is not mapped any more");
    return reinterpret_cast<uint32_t*>(found);
  };
  if (asked.operation == kMemOpWait32) {
    Enqueue(world, stream,
            {.ready =
                 [word, value, flags] {
                   const uint32_t* const at = word();
                   return at == nullptr ||
                          IsMet(__atomic_load_n(at, __ATOMIC_ACQUIRE), value, flags);
                 },
             .step =
                 [] {
                   return true;
                 }});
  } else {
    Enqueue(world, stream, {.step = [word, value] {
              uint32_t* const at = word();
              if (at != nullptr) __atomic_store_n(at, value, __ATOMIC_RELEASE);
              return true;
            }});
  }
  return kSuccess;
}

Result CheckWord(World& world, const StreamState& stream, const MemOpValue& asked) {
  const bool waits = asked.operation == kMemOpWait32;
  constexpr uint32_t kFlush = 1U << 30;  // CU_STREAM_WAIT_VALUE_FLUSH
  if (!waits && asked.operation != kMemOpWrite32) return kInvalidValue;
  if ((asked.flags & ~(waits ? 3U | kFlush : 1U)) != 0 || asked.address % 4 != 0)
    return kInvalidValue;
  return FindWord(world, stream, asked.address) == nullptr ? kInvalidValue : kSuccess;
}

Result OneWord(Stream handle, int32_t operation, DevicePointer address, uint32_t value,
               uint32_t flags) {
  MemOp asked = {};
  asked.value = {operation, address, value, flags, 0};
  return StreamBatchMemOp(handle, 1, &asked, 0);
}

}  // namespace

Result FindStream(World& world, Stream handle, StreamState** found) {
  if (handle == nullptr || NumberOf(handle) == kLegacyHandle) {
    DeviceState* device = nullptr;
    const Result result = NeedContext(world, &device);
    if (device == nullptr) return kInvalidContext;
    *found = &device->legacy;
    return result;
  }
  const auto it = world.streams.find(NumberOf(handle));
  if (it == world.streams.end() || it->second->is_destroyed) return kInvalidHandle;
  *found = it->second.get();
  return world.devices[it->second->device].failed;
}

Result StreamCreate(Stream* stream, uint32_t flags) {
  World& world = TheWorld();
  DeviceState* device = nullptr;
  if (const Result result = NeedContext(world, &device); result != kSuccess) return result;
  if (stream == nullptr || (flags & ~kStreamNonBlocking) != 0) return kInvalidValue;
  auto made = std::make_unique<StreamState>();
  made->device = OrdinalOf(world, *device);
  made->is_blocking = flags == 0;
  made->weight = DrawWeight(world);
  *stream = world.NewHandle<Stream>();
  world.streams.emplace(NumberOf(*stream), std::move(made));
  return kSuccess;
}

// What is queued still runs.
Result StreamDestroy(Stream stream) {
  World& world = TheWorld();
  const auto it = world.streams.find(NumberOf(stream));
  if (it == world.streams.end() || it->second->is_destroyed) return kInvalidHandle;
  it->second->is_destroyed = true;
  const Result failed = world.devices[it->second->device].failed;
  if (it->second->queue.empty()) world.streams.erase(it);
  return failed;
}

Result StreamSynchronize(Stream handle) {
  World& world = TheWorld();
  StreamState* stream = nullptr;
  if (const Result result = FindStream(world, handle, &stream); result != kSuccess) return result;
  const uint64_t number = world.next_number;
  const int device = stream->device;
  WaitFor(world, [&] {
    // Somebody may destroy it meanwhile.
    return FindStream(world, handle, &stream) == kInvalidHandle || HasEnded(world, *stream, number);
  });
  return world.devices[device].failed;
}

Result StreamQuery(Stream handle) {
  World& world = TheWorld();
  StreamState* stream = nullptr;
  if (const Result result = FindStream(world, handle, &stream); result != kSuccess) return result;
  Stir(world, 0.5);
  if (const Result result = FindStream(world, handle, &stream); result != kSuccess) return result;
  return HasEnded(world, *stream, world.next_number) ? kSuccess : kNotReady;
}

Result StreamWaitEvent(Stream handle, Event event_handle, uint32_t flags) {
  World& world = TheWorld();
  StreamState* stream = nullptr;
  std::shared_ptr<EventState> event;
  if (const Result result = FindStream(world, handle, &stream); result != kSuccess) return result;
  if (const Result result = FindEvent(world, event_handle, &event); result != kSuccess)
    return result;
  if (flags != 0) return kInvalidValue;
  if (IsDropped(world)) return kSuccess;
  const uint64_t recorded = event->recorded;
  Enqueue(world, *stream,
          {.ready = [event, recorded] { return HasPassed(*event, recorded); },
           .step =
               [] {
                 return true;
               }});
  return kSuccess;
}

Result StreamGetCtx(Stream handle, Context* context) {
  World& world = TheWorld();
  StreamState* stream = nullptr;
  if (const Result result = FindStream(world, handle, &stream); result != kSuccess) return result;
  if (context == nullptr) return kInvalidValue;
  *context = ContextOf(stream->device);
  return kSuccess;
}

Result StreamIsCapturing(Stream handle, int32_t* status) {
  World& world = TheWorld();
  StreamState* stream = nullptr;
  if (const Result result = FindStream(world, handle, &stream); result != kSuccess) return result;
  if (status == nullptr) return kInvalidValue;
  const auto waits_for_legacy = [&](const auto& other) {
    return other.second->is_capturing && other.second->is_blocking &&
           other.second->device == stream->device;
  };
  if (stream->is_legacy &&
      std::any_of(world.streams.begin(), world.streams.end(), waits_for_legacy))
    return kCaptureImplicit;
  *status = stream->is_capturing ? 1 : kCaptureNone;
  return kSuccess;
}

Result ThreadExchangeStreamCaptureMode(int32_t* mode) {
  if (mode == nullptr || *mode < 0 || *mode > kCaptureRelaxed) return kInvalidValue;
  std::swap(*mode, capture_mode);
  return kSuccess;
}

bool IsRelaxed() {
  return capture_mode == kCaptureRelaxed;
}

Result StreamWaitValue32(Stream stream, DevicePointer word, uint32_t value, uint32_t flags) {
  return OneWord(stream, kMemOpWait32, word, value, flags);
}

Result StreamWriteValue32(Stream stream, DevicePointer word, uint32_t value, uint32_t flags) {
  return OneWord(stream, kMemOpWrite32, word, value, flags);
}

Result StreamBatchMemOp(Stream handle, uint32_t count, MemOp* operations, uint32_t flags) {
  World& world = TheWorld();
  StreamState* stream = nullptr;
  if (const Result result = FindStream(world, handle, &stream); result != kSuccess) return result;
  if (!world.Has(FakeCapability::kMemoryWords)) return kNotSupported;
  if (operations == nullptr || count == 0 || count >= 256 || flags != 0) return kInvalidValue;
  for (uint32_t i = 0; i < count; ++i) {
    if (const Result result = CheckWord(world, *stream, operations[i].value); result != kSuccess)
      return result;
  }
  for (uint32_t i = 0; i < count; ++i)
    EnqueueWord(world, *stream, operations[i].value);
  return kSuccess;
}

Result LaunchHostFunc(Stream handle, HostFunction function, void* user) {
  World& world = TheWorld();
  StreamState* stream = nullptr;
  if (const Result result = FindStream(world, handle, &stream); result != kSuccess) return result;
  if (function == nullptr) return kInvalidValue;
  Enqueue(world, *stream, {.host = function, .user = user});
  return kSuccess;
}

Result EventCreate(Event* event, uint32_t flags) {
  World& world = TheWorld();
  DeviceState* device = nullptr;
  if (const Result result = NeedContext(world, &device); result != kSuccess) return result;
  if (event == nullptr || (flags & ~kEventFlags) != 0) return kInvalidValue;
  auto made = std::make_shared<EventState>();
  made->device = OrdinalOf(world, *device);
  made->timed = (flags & kEventDisableTiming) == 0;
  *event = world.NewHandle<Event>();
  world.events.emplace(NumberOf(*event), std::move(made));
  return kSuccess;
}

Result EventDestroy(Event event) {
  World& world = TheWorld();
  std::shared_ptr<EventState> state;
  const Result result = FindEvent(world, event, &state);
  world.events.erase(NumberOf(event));
  return result;
}

Result EventRecord(Event handle, Stream stream_handle) {
  World& world = TheWorld();
  StreamState* stream = nullptr;
  std::shared_ptr<EventState> event;
  if (const Result result = FindEvent(world, handle, &event); result != kSuccess) return result;
  if (const Result result = FindStream(world, stream_handle, &stream); result != kSuccess)
    return result;
  if (stream->device != event->device) return kInvalidHandle;
  if (IsDropped(world)) return kSuccess;
  const uint64_t recorded = ++event->recorded;
  Enqueue(world, *stream,
          {.step =
               [event, recorded] {
                 event->passed = std::max(event->passed, recorded);
                 event->time_ns = NowNs();
                 return true;
               },
           .ends_always = true});
  return kSuccess;
}

Result EventQuery(Event handle) {
  World& world = TheWorld();
  std::shared_ptr<EventState> event;
  if (const Result result = FindEvent(world, handle, &event); result != kSuccess) return result;
  if (!HasPassed(*event, event->recorded)) Stir(world, 0.5);
  if (world.devices[event->device].failed != kSuccess) return world.devices[event->device].failed;
  return HasPassed(*event, event->recorded) ? kSuccess : kNotReady;
}

Result EventSynchronize(Event handle) {
  World& world = TheWorld();
  std::shared_ptr<EventState> event;
  if (const Result result = FindEvent(world, handle, &event); result != kSuccess) return result;
  const uint64_t recorded = event->recorded;
  WaitFor(world, [&] { return HasPassed(*event, recorded); });
  return world.devices[event->device].failed;
}

Result EventElapsedTime(float* milliseconds, Event start_handle, Event end_handle) {
  World& world = TheWorld();
  std::shared_ptr<EventState> start;
  std::shared_ptr<EventState> end;
  if (const Result result = FindEvent(world, start_handle, &start); result != kSuccess)
    return result;
  if (const Result result = FindEvent(world, end_handle, &end); result != kSuccess) return result;
  if (milliseconds == nullptr) return kInvalidValue;
  if (!start->timed || !end->timed || start->device != end->device || start->recorded == 0 ||
      end->recorded == 0)
    return kInvalidHandle;
  if (!HasPassed(*start, start->recorded) || !HasPassed(*end, end->recorded)) return kNotReady;
  *milliseconds = static_cast<float>(end->time_ns - start->time_ns) / 1e6F;
  return kSuccess;
}

}  // namespace weft::fake_cuda
