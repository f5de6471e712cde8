// The fake driver itself (fake_driver/README.md): what it refuses, what it orders, what tests see of it. Each case runs in a child of its own.
#include "tests/device/fake_driver/fake_driver.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/text.h"
#include "comm/device/driver/driver.h"
#include "comm/device/element/copy.h"
#include "comm/device/element/reduce.h"
#include "tests/support/in_child.h"

namespace weft::test::fake_driver_test {
namespace {

using cuda::DevicePointer;
using cuda::kInvalidContext;
using cuda::kInvalidDevice;
using cuda::kInvalidValue;
using cuda::kNotReady;
using cuda::kNotSupported;
using cuda::kOutOfMemory;
using cuda::kSuccess;
using cuda::Result;
using testing::Test;

constexpr size_t kChunk = 2 << 20;
constexpr Result kInvalidHandle = 400;
constexpr Result kIllegalAddress = 700;

const FakeDriver& Fake() {
  static const FakeDriver* const fake = UseFakeDriver();
  return *fake;
}

// The driver, with device 0's context current.
const Driver& OpenFirst(int devices = 1) {
  Fake().set_device_count(devices);
  const Driver* const driver = *OpenDriver();
  for (int device = devices - 1; device >= 0; --device) {
    cuda::Context context = nullptr;
    EXPECT_EQ(driver->DevicePrimaryCtxRetain(&context, device), kSuccess);
    EXPECT_EQ(driver->CtxPushCurrent(context), kSuccess);
  }
  return *driver;
}

// Failures are printed by the child.
std::string FailureInChild(const std::function<void()>& body) {
  return InChild([&] {
    alarm(60);
    body();
    return std::string(Test::HasFailure() ? "it failed, see above" : "");
  });
}

void RunInChild(const std::function<void()>& body) {
  EXPECT_EQ(FailureInChild(body), "");
}

cuda::AllocationProperties PropertiesOf(int device) {
  cuda::AllocationProperties properties = {};
  properties.type = cuda::kAllocationPinned;
  properties.requested_handle_types = cuda::kPosixFileDescriptor;
  properties.location = {cuda::kLocationDevice, device};
  return properties;
}

// A handle mapped at addresses of its own, for device 0.
DevicePointer MapHandle(const Driver& driver, cuda::AllocationHandle handle, size_t bytes) {
  DevicePointer memory = 0;
  EXPECT_EQ(driver.MemAddressReserve(&memory, bytes, 0, 0, 0), kSuccess);
  EXPECT_EQ(driver.MemMap(memory, bytes, 0, handle, 0), kSuccess);
  const cuda::AccessDescription access = {{cuda::kLocationDevice, 0}, cuda::kAccessReadWrite};
  EXPECT_EQ(driver.MemSetAccess(memory, bytes, &access, 1), kSuccess);
  return memory;
}

DevicePointer HostPointer(const void* host) {
  return reinterpret_cast<DevicePointer>(host);
}

void* AsPointer(DevicePointer address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Host memory that is pinned.
template <typename T>
T* Pin(const Driver& driver, size_t count) {
  void* memory = nullptr;
  EXPECT_EQ(driver.MemHostAlloc(&memory, count * sizeof(T), cuda::kHostAllocPortable), kSuccess);
  std::memset(memory, 0, count * sizeof(T));
  return static_cast<T*>(memory);
}

cuda::Stream MakeStream(const Driver& driver, uint32_t flags = cuda::kStreamNonBlocking) {
  cuda::Stream stream = nullptr;
  EXPECT_EQ(driver.StreamCreate(&stream, flags), kSuccess);
  return stream;
}

TEST(FakeMemory, TrapsAccessOfTheHost) {
  const auto touch = [](auto make) {
    return InChild([&] {
      const Driver& driver = OpenFirst();
      const DevicePointer memory = make(driver);
      EXPECT_EQ(driver.MemsetD8Async(memory, 7, 100, nullptr), kSuccess);
      signal(SIGSEGV, SIG_DFL);  // sanitizers have much to say
      const char seen =
          __atomic_load_n(static_cast<const char*>(AsPointer(memory)), __ATOMIC_RELAXED);
      return StrCat("read ", int{seen});
    });
  };
  EXPECT_NE(touch([](const Driver& driver) {
              DevicePointer memory = 0;
              EXPECT_EQ(driver.MemAlloc(&memory, 100), kSuccess);
              return memory;
            }).find("the child ended with status"),
            std::string::npos);
  EXPECT_NE(touch([](const Driver& driver) {
              cuda::AllocationHandle handle = 0;
              const cuda::AllocationProperties properties = PropertiesOf(0);
              EXPECT_EQ(driver.MemCreate(&handle, kChunk, &properties, 0), kSuccess);
              return MapHandle(driver, handle, kChunk);
            }).find("the child ended with status"),
            std::string::npos);
}

TEST(FakeMemory, RefusesWhatADriverRefuses) {
  RunInChild([&] {
    const Driver& driver = OpenFirst(2);
    const cuda::AllocationProperties properties = PropertiesOf(0);
    cuda::AllocationHandle handle = 0;
    EXPECT_EQ(driver.MemCreate(&handle, kChunk / 2, &properties, 0), kInvalidValue);
    EXPECT_EQ(driver.MemCreate(&handle, 0, &properties, 0), kInvalidValue);
    const cuda::AllocationProperties elsewhere = PropertiesOf(2);
    EXPECT_EQ(driver.MemCreate(&handle, kChunk, &elsewhere, 0), kInvalidDevice);
    ASSERT_EQ(driver.MemCreate(&handle, 2 * kChunk, &properties, 0), kSuccess);
    DevicePointer memory = 0;
    EXPECT_EQ(driver.MemAddressReserve(&memory, 4 * kChunk + 1, 0, 0, 0), kInvalidValue);
    EXPECT_EQ(driver.MemAddressReserve(&memory, 4 * kChunk, 3 * kChunk, 0, 0), kInvalidValue);
    ASSERT_EQ(driver.MemAddressReserve(&memory, 4 * kChunk, 0, 0, 0), kSuccess);
    const cuda::AccessDescription access = {{cuda::kLocationDevice, 0}, cuda::kAccessReadWrite};
    EXPECT_EQ(driver.MemMap(memory + 4096, kChunk, 0, handle, 0), kInvalidValue);
    EXPECT_EQ(driver.MemMap(memory, kChunk + 4096, 0, handle, 0), kInvalidValue);
    EXPECT_EQ(driver.MemMap(memory, 4 * kChunk, 0, handle, 0), kInvalidValue);
    EXPECT_EQ(driver.MemMap(memory + 3 * kChunk, 2 * kChunk, 0, handle, 0), kInvalidValue);
    EXPECT_EQ(driver.MemMap(memory, kChunk, kChunk, handle, 0), kInvalidValue);
    EXPECT_EQ(driver.MemMap(memory, kChunk, 0, handle + 1, 0), kInvalidValue);
    EXPECT_EQ(driver.MemSetAccess(memory, 2 * kChunk, &access, 1), kInvalidValue);
    EXPECT_EQ(driver.MemsetD8Async(memory, 1, 1, nullptr), kInvalidValue);
    ASSERT_EQ(driver.MemMap(memory, 2 * kChunk, 0, handle, 0), kSuccess);
    EXPECT_EQ(driver.MemMap(memory + kChunk, kChunk, 0, handle, 0), kInvalidValue);
    // Mapped, and still nobody's.
    EXPECT_EQ(driver.MemsetD8Async(memory, 1, 1, nullptr), kInvalidValue);
    EXPECT_EQ(driver.MemSetAccess(memory, kChunk, &access, 1), kInvalidValue);
    ASSERT_EQ(driver.MemSetAccess(memory, 2 * kChunk, &access, 1), kSuccess);
    EXPECT_EQ(driver.MemsetD8Async(memory, 1, 2 * kChunk, nullptr), kSuccess);
    EXPECT_EQ(driver.MemsetD8Async(memory, 1, 2 * kChunk + 1, nullptr), kInvalidValue);
    EXPECT_EQ(driver.CtxSynchronize(), kSuccess);
    EXPECT_EQ(driver.MemAddressFree(memory, 4 * kChunk), kInvalidValue);
    EXPECT_EQ(driver.MemFree(memory), kInvalidValue);
    EXPECT_EQ(driver.MemRelease(handle), kSuccess);
    EXPECT_EQ(driver.MemRelease(handle), kInvalidValue);
    // The mapping keeps it.
    EXPECT_STREQ(Fake().holdings_text(), "1 reservation, 1 mapping");
    cuda::AllocationHandle again = 0;
    EXPECT_EQ(driver.MemRetainAllocationHandle(&again, AsPointer(memory + kChunk)), kSuccess);
    EXPECT_EQ(again, handle);
    EXPECT_EQ(driver.MemRelease(again), kSuccess);
    EXPECT_EQ(driver.MemUnmap(memory, kChunk), kInvalidValue);
    EXPECT_EQ(driver.MemUnmap(memory, 2 * kChunk), kSuccess);
    EXPECT_EQ(driver.MemUnmap(memory, 2 * kChunk), kInvalidValue);
    EXPECT_EQ(driver.MemAddressFree(memory, 2 * kChunk), kInvalidValue);
    EXPECT_EQ(driver.MemAddressFree(memory, 4 * kChunk), kSuccess);
    EXPECT_EQ(driver.MemAddressFree(memory, 4 * kChunk), kInvalidValue);

    EXPECT_EQ(driver.MemAlloc(&memory, 0), kInvalidValue);
    ASSERT_EQ(driver.MemAlloc(&memory, 100), kSuccess);
    EXPECT_EQ(driver.MemsetD8Async(memory, 1, 101, nullptr), kInvalidValue);
    EXPECT_EQ(driver.MemFree(memory + 1), kInvalidValue);
    EXPECT_EQ(driver.MemFree(memory), kSuccess);
    EXPECT_EQ(driver.MemFree(memory), kInvalidValue);
    EXPECT_STREQ(Fake().holdings_text(), "");
    EXPECT_EQ(Fake().holdings().device_bytes, 0U);
    EXPECT_EQ(driver.CtxPopCurrent(nullptr), kSuccess);
    EXPECT_EQ(driver.CtxPopCurrent(nullptr), kSuccess);
    EXPECT_EQ(driver.CtxPopCurrent(nullptr), kInvalidContext);
    EXPECT_EQ(driver.MemAlloc(&memory, 100), kInvalidContext);
    EXPECT_EQ(driver.MemcpyAsync(1, 2, 3, nullptr), kInvalidContext);
  });
}

TEST(FakeMemory, HasALimitAndMayLackThings) {
  RunInChild([&] {
    const Driver& driver = OpenFirst();
    const cuda::AllocationProperties properties = PropertiesOf(0);
    Fake().set_total_bytes(0, 3 * kChunk);
    std::array<cuda::AllocationHandle, 2> handles = {};
    DevicePointer memory = 0;
    ASSERT_EQ(driver.MemCreate(handles.data(), 2 * kChunk, &properties, 0), kSuccess);
    EXPECT_EQ(driver.MemCreate(&handles[1], 2 * kChunk, &properties, 0), kOutOfMemory);
    EXPECT_EQ(driver.MemAlloc(&memory, kChunk + 1), kOutOfMemory);
    ASSERT_EQ(driver.MemAlloc(&memory, kChunk), kSuccess);
    size_t free_bytes = 1;
    size_t total_bytes = 0;
    EXPECT_EQ(driver.MemGetInfo(&free_bytes, &total_bytes), kSuccess);
    EXPECT_EQ(free_bytes, 0U);
    EXPECT_EQ(total_bytes, 3 * kChunk);
    EXPECT_EQ(driver.MemRelease(handles[0]), kSuccess);
    EXPECT_EQ(driver.MemCreate(&handles[1], 2 * kChunk, &properties, 0), kSuccess);
    EXPECT_EQ(driver.MemRelease(handles[1]), kSuccess);
    EXPECT_EQ(driver.MemFree(memory), kSuccess);

    Fake().set_capability(FakeCapability::kPosixDescriptors, false);
    EXPECT_EQ(driver.MemCreate(handles.data(), kChunk, &properties, 0), kNotSupported);
    Fake().set_capability(FakeCapability::kVirtualMemory, false);
    EXPECT_EQ(driver.MemAddressReserve(&memory, kChunk, 0, 0, 0), kNotSupported);
    Fake().set_capability(FakeCapability::kMemoryWords, false);
    uint32_t* const word = Pin<uint32_t>(driver, 1);
    EXPECT_EQ(driver.StreamWriteValue32(nullptr, HostPointer(word), 1, 0), kNotSupported);
    Fake().reset();
    EXPECT_EQ(driver.StreamWriteValue32(nullptr, HostPointer(word), 1, 0), kSuccess);
    EXPECT_EQ(driver.MemFreeHost(word), kSuccess);
  });
}

TEST(FakeMemory, OfTheHostIsRegisteredOnce) {
  RunInChild([&] {
    const Driver& driver = OpenFirst();
    constexpr size_t kBytes = size_t{3} * 4096;
    const int fd = memfd_create("shared", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(fd, kBytes), 0);
    auto* const shared =
        static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    Fake().set_capability(FakeCapability::kRegisterShared, false);
    EXPECT_EQ(driver.MemHostRegister(shared, kBytes, 0), kNotSupported);
    Fake().set_capability(FakeCapability::kRegisterShared, true);
    DevicePointer memory = 0;
    EXPECT_EQ(driver.MemHostGetDevicePointer(&memory, shared, 0), kInvalidValue);
    uint32_t type = 0;
    const auto pointer = HostPointer(shared + 5);
    EXPECT_EQ(driver.PointerGetAttribute(&type, cuda::PointerAttribute::kMemoryType, pointer),
              kInvalidValue);
    EXPECT_EQ(driver.MemHostRegister(nullptr, 1, 0), kInvalidValue);
    ASSERT_EQ(driver.MemHostRegister(shared, kBytes, cuda::kHostRegisterPortable), kSuccess);
    EXPECT_EQ(driver.MemHostRegister(shared + 4096, 10, 0), cuda::kHostMemoryAlreadyRegistered);
    EXPECT_EQ(driver.MemHostGetDevicePointer(&memory, shared + 5, 0), kSuccess);
    EXPECT_EQ(memory, pointer);
    EXPECT_EQ(driver.PointerGetAttribute(&type, cuda::PointerAttribute::kMemoryType, pointer),
              kSuccess);
    EXPECT_EQ(type, cuda::kMemoryTypeHost);
    EXPECT_EQ(driver.MemFreeHost(shared), kInvalidValue);
    EXPECT_EQ(driver.MemHostUnregister(shared + 4096), 713);
    EXPECT_EQ(driver.MemHostUnregister(shared), kSuccess);
    EXPECT_EQ(driver.MemHostUnregister(shared), 713);
    ASSERT_EQ(munmap(shared, kBytes), 0);
    EXPECT_EQ(driver.MemHostRegister(shared, kBytes, 0), kInvalidValue);
  });
}

TEST(FakeMemory, KnowsItsPointers) {
  RunInChild([&] {
    using Attribute = cuda::PointerAttribute;
    const Driver& driver = OpenFirst(2);
    DevicePointer memory = 0;
    ASSERT_EQ(driver.MemAlloc(&memory, 1000), kSuccess);
    const auto ask = [&](Attribute attribute, DevicePointer pointer) {
      uint64_t value = 0;
      const Result result = driver.PointerGetAttribute(&value, attribute, pointer);
      return result == kSuccess ? value : ~uint64_t{0};
    };
    EXPECT_EQ(ask(Attribute::kMemoryType, memory + 999), cuda::kMemoryTypeDevice);
    EXPECT_EQ(ask(Attribute::kMemoryType, memory + 1000), ~uint64_t{0});
    EXPECT_EQ(ask(Attribute::kRangeStart, memory + 10), memory);
    EXPECT_EQ(ask(Attribute::kRangeBytes, memory + 10), 1000U);
    EXPECT_EQ(ask(Attribute::kDeviceOrdinal, memory), 0U);
    EXPECT_EQ(ask(Attribute::kIsIpcCapable, memory), 1U);
    EXPECT_EQ(ask(Attribute::kHostPointer, memory), ~uint64_t{0});
    cuda::AllocationHandle handle = 0;
    const cuda::AllocationProperties properties = PropertiesOf(1);
    ASSERT_EQ(driver.MemCreate(&handle, kChunk, &properties, 0), kSuccess);
    DevicePointer reserved = 0;
    ASSERT_EQ(driver.MemAddressReserve(&reserved, 2 * kChunk, 0, 0, 0), kSuccess);
    EXPECT_EQ(ask(Attribute::kMapped, reserved), 0U);
    ASSERT_EQ(driver.MemMap(reserved, kChunk, 0, handle, 0), kSuccess);
    EXPECT_EQ(ask(Attribute::kMapped, reserved), 1U);
    EXPECT_EQ(ask(Attribute::kMapped, reserved + kChunk), 0U);
    EXPECT_EQ(ask(Attribute::kRangeBytes, reserved), 2 * kChunk);
    EXPECT_EQ(ask(Attribute::kDeviceOrdinal, reserved), 1U);
    EXPECT_EQ(ask(Attribute::kContext, reserved), 0U);
    EXPECT_EQ(ask(Attribute::kAllowedHandleTypes, reserved), 1U);
    EXPECT_EQ(ask(Attribute::kIsIpcCapable, reserved), 0U);
  });
}

// What a host function appends to which list.
struct Note {
  std::vector<int>* list;
  int number;
};

TEST(FakeStream, ReordersWhatIsUnorderedAndNothingElse) {
  RunInChild([&] {
    const Driver& driver = OpenFirst();
    std::set<std::vector<int>> orders;
    std::set<std::vector<int>> blocking_orders;
    for (uint64_t seed = 0; seed < 300; ++seed) {
      Fake().set_seed(seed);
      std::vector<int> list;
      std::array<Note, 6> notes;
      for (int i = 0; i < 6; ++i)
        notes[static_cast<size_t>(i)] = {&list, i};
      const auto write = [](void* user) {
        const Note& note = *static_cast<const Note*>(user);
        note.list->push_back(note.number);
      };
      // Two streams of two operations each.
      const std::array streams = {MakeStream(driver), MakeStream(driver)};
      for (size_t i = 0; i < 4; ++i)
        ASSERT_EQ(driver.LaunchHostFunc(streams[i % 2], write, &notes[i]), kSuccess);
      ASSERT_EQ(driver.CtxSynchronize(), kSuccess);
      ASSERT_EQ(list.size(), 4U);
      EXPECT_LT(std::find(list.begin(), list.end(), 0), std::find(list.begin(), list.end(), 2));
      EXPECT_LT(std::find(list.begin(), list.end(), 1), std::find(list.begin(), list.end(), 3));
      orders.insert(list);

      // The legacy stream between two blocking ones, whose neighbours are unordered.
      list.clear();
      const std::array blocking = {MakeStream(driver, 0), MakeStream(driver, 0)};
      const std::array<cuda::Stream, 6> order = {blocking[0], blocking[1], nullptr,
                                                 nullptr,     blocking[0], blocking[1]};
      for (size_t i = 0; i < 6; ++i)
        ASSERT_EQ(driver.LaunchHostFunc(order[i], write, &notes[i]), kSuccess);
      ASSERT_EQ(driver.CtxSynchronize(), kSuccess);
      ASSERT_EQ(list.size(), 6U);
      EXPECT_LT(std::max(list[0], list[1]), 2) << "seed " << seed;
      EXPECT_EQ(list[2], 2) << "seed " << seed;
      EXPECT_EQ(list[3], 3) << "seed " << seed;
      blocking_orders.insert(list);
      for (const cuda::Stream stream : {streams[0], streams[1], blocking[0], blocking[1]})
        ASSERT_EQ(driver.StreamDestroy(stream), kSuccess);
    }
    EXPECT_EQ(orders.size(), 6U);  // all of them
    EXPECT_EQ(blocking_orders.size(), 4U);
    EXPECT_STREQ(Fake().holdings_text(), "");
  });
}

TEST(FakeStream, RunsByItselfAndEndsWhatIsQueuedWhenItIsDestroyed) {
  RunInChild([&] {
    const Driver& driver = OpenFirst();
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Fake().set_seed(seed);
      auto* const word = Pin<std::atomic<uint32_t>>(driver, 2);
      const cuda::Stream stream = MakeStream(driver);
      const DevicePointer at = HostPointer(word);
      ASSERT_EQ(driver.StreamWaitValue32(stream, at, 1, cuda::kWaitGreaterOrEqual), kSuccess);
      ASSERT_EQ(driver.StreamWriteValue32(stream, at + 4, 7, 0), kSuccess);
      EXPECT_EQ(driver.StreamQuery(stream), kNotReady);
      ASSERT_EQ(driver.StreamDestroy(stream), kSuccess);
      EXPECT_EQ(driver.StreamQuery(stream), kInvalidHandle);
      EXPECT_EQ(word[1], 0U);
      EXPECT_STREQ(Fake().holdings_text(), "1 host allocation, 2 operations");
      word[0] = 2;
      word[0].notify_all();
      // No call of the driver's: its worker goes on.
      while (word[1] != 7U) {
      }
      ASSERT_EQ(driver.CtxSynchronize(), kSuccess);
      ASSERT_EQ(driver.MemFreeHost(word), kSuccess);
      EXPECT_STREQ(Fake().holdings_text(), "");
    }
  });
}

TEST(FakeStream, RefusesWhatADriverRefuses) {
  RunInChild([&] {
    const Driver& driver = OpenFirst(2);
    cuda::Event event = nullptr;
    cuda::Context context = nullptr;
    ASSERT_EQ(driver.EventCreate(&event, 0), kSuccess);
    ASSERT_EQ(driver.CtxPopCurrent(&context), kSuccess);  // device 1 is current now
    const cuda::Stream other = MakeStream(driver);
    EXPECT_EQ(driver.EventRecord(event, other), kInvalidHandle);
    EXPECT_EQ(driver.EventRecord(event, nullptr), kInvalidHandle);
    EXPECT_EQ(driver.StreamWaitEvent(other, event, 0), kSuccess);
    EXPECT_EQ(driver.StreamWaitEvent(other, nullptr, 0), kInvalidHandle);
    cuda::Context found = nullptr;
    EXPECT_EQ(driver.StreamGetCtx(nullptr, &found), kSuccess);
    EXPECT_NE(found, context);
    uint32_t* const word = Pin<uint32_t>(driver, 2);
    EXPECT_EQ(driver.StreamWriteValue32(other, HostPointer(word) + 1, 1, 0), kInvalidValue);
    uint32_t pageable = 0;
    EXPECT_EQ(driver.StreamWriteValue32(other, HostPointer(&pageable), 1, 0), kInvalidValue);
    EXPECT_EQ(driver.EventDestroy(event), kSuccess);
    EXPECT_EQ(driver.EventDestroy(event), kInvalidHandle);
    EXPECT_EQ(driver.StreamDestroy(other), kSuccess);
    EXPECT_EQ(driver.StreamDestroy(other), kInvalidHandle);
    EXPECT_EQ(driver.StreamSynchronize(other), kInvalidHandle);
    EXPECT_EQ(driver.StreamDestroy(nullptr), kInvalidHandle);
  });
}

TEST(FakeStream, HostFunctionsMustNotCallTheDriver) {
  RunInChild([&] {
    const Driver& driver = OpenFirst();
    struct Asked {
      const Driver* driver;
      Result result;
    } asked = {&driver, kSuccess};
    ASSERT_EQ(driver.LaunchHostFunc(
                  nullptr,
                  [](void* user) {
                    auto& of = *static_cast<Asked*>(user);
                    of.result = of.driver->StreamQuery(nullptr);
                  },
                  &asked),
              kSuccess);
    ASSERT_EQ(driver.StreamSynchronize(nullptr), kSuccess);
    EXPECT_EQ(asked.result, cuda::kNotPermitted);
  });
}

TEST(FakeCopy, ReadsPageableSourcesAtOnceAndWaitsForPageableDestinations) {
  RunInChild([&] {
    const Driver& driver = OpenFirst();
    for (uint64_t seed = 0; seed < 30; ++seed) {
      Fake().set_seed(seed);
      const cuda::Stream stream = MakeStream(driver);
      DevicePointer memory = 0;
      ASSERT_EQ(driver.MemAlloc(&memory, 1000), kSuccess);
      std::vector<char> source(1000, 'a');
      std::vector<char> result(1000);
      ASSERT_EQ(driver.MemcpyAsync(memory, HostPointer(source.data()), 1000, stream), kSuccess);
      std::fill(source.begin(), source.end(), 'b');
      ASSERT_EQ(driver.MemcpyAsync(HostPointer(result.data()), memory, 1000, stream), kSuccess);
      EXPECT_EQ(result, std::vector<char>(1000, 'a'));
      EXPECT_EQ(driver.MemcpyAsync(memory, HostPointer(source.data()), 1001, stream),
                kInvalidValue);
      ASSERT_EQ(driver.StreamDestroy(stream), kSuccess);
      ASSERT_EQ(driver.MemFree(memory), kSuccess);
    }
  });
}

TEST(FakeCopy, FailsTheDeviceIfItsMemoryIsGone) {
  RunInChild([&] {
    const Driver& driver = OpenFirst();
    Fake().set_paused(true);
    char* const pinned = Pin<char>(driver, 100);
    std::vector<char> registered(100);
    ASSERT_EQ(driver.MemHostRegister(registered.data(), 100, 0), kSuccess);
    const cuda::Stream stream = MakeStream(driver);
    ASSERT_EQ(driver.MemcpyAsync(HostPointer(pinned), HostPointer(registered.data()), 100, stream),
              kSuccess);
    ASSERT_EQ(driver.MemHostUnregister(registered.data()), kSuccess);
    EXPECT_EQ(driver.StreamSynchronize(stream), kIllegalAddress);
    EXPECT_EQ(driver.StreamSynchronize(stream), kIllegalAddress);  // it stays so
    DevicePointer memory = 0;
    EXPECT_EQ(driver.MemAlloc(&memory, 1), kIllegalAddress);
  });
}

TEST(FakeCalls, FailOnceAndAreCounted) {
  RunInChild([&] {
    const Driver& driver = OpenFirst();
    Fake().reset();
    DevicePointer memory = 0;
    Fake().fail_call("cuMemAlloc", 2, kOutOfMemory);
    EXPECT_EQ(driver.MemAlloc(&memory, 1), kSuccess);
    EXPECT_EQ(Fake().failed_function(), nullptr);
    EXPECT_STREQ(Fake().holdings_text(), "1 allocation");
    DevicePointer second = 0;
    EXPECT_EQ(driver.MemAlloc(&second, 1), kOutOfMemory);
    EXPECT_STREQ(Fake().failed_function(), "cuMemAlloc");
    EXPECT_EQ(driver.MemAlloc(&second, 1), kSuccess);
    EXPECT_EQ(Fake().count_calls("cuMemAlloc"), 3U);
    EXPECT_EQ(Fake().count_calls(nullptr), 3U);
    // What gives back does so.
    Fake().fail_call(nullptr, 1, 719);
    EXPECT_EQ(driver.MemFree(second), 719);
    EXPECT_STREQ(Fake().holdings_text(), "1 allocation");
    EXPECT_EQ(driver.MemFree(memory), kSuccess);
    EXPECT_STREQ(Fake().holdings_text(), "");
  });
}

TEST(FakeCalls, OfAForkedChildAreRefused) {
  RunInChild([&] {
    const Driver& driver = OpenFirst();
    RunInChild([&] {
      DevicePointer memory = 0;
      EXPECT_EQ(driver.MemAlloc(&memory, 1), cuda::kNotInitialized);
      EXPECT_EQ(driver.Init(0), cuda::kNotInitialized);
    });
  });
}

// Ends within 20 seconds, by exit() and not by _exit().
TEST(FakeCalls, AProgramMayEndWhileThingsAreQueued) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const Driver& driver = OpenFirst();
    uint32_t* const word = Pin<uint32_t>(driver, 1);
    const cuda::Stream stream = MakeStream(driver);
    driver.StreamWaitValue32(stream, HostPointer(word), 1, 0);
    driver.StreamWriteValue32(stream, HostPointer(word), 2, 0);
    driver.MemsetD8Async(HostPointer(word), 1, 4, MakeStream(driver));
    exit(Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

void SendBytes(int to, const void* bytes, size_t count, int fd = -1) {
  iovec part = {const_cast<void*>(bytes), count};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  ASSERT_EQ(sendmsg(to, &message, 0), static_cast<ssize_t>(count));
}

int ReceiveBytes(int from, void* bytes, size_t count) {
  iovec part = {bytes, count};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  EXPECT_EQ(recvmsg(from, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC), static_cast<ssize_t>(count));
  int fd = -1;
  if (cmsghdr* const header = CMSG_FIRSTHDR(&message); header != nullptr)
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return fd;
}

// Two processes with a pair of sockets and a shared page; what went wrong in either.
template <typename First, typename Second>
std::string InTwoProcesses(First first, Second second) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return "no sockets";
  void* const shared =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    close(ends[0]);
    second(ends[1], shared);
    _exit(Test::HasFailure() ? 1 : 0);
  }
  close(ends[1]);
  const std::string said = FailureInChild([&] { first(ends[0], shared); });
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  munmap(shared, 4096);
  return status == 0 ? said : StrCat("the second process ended with status ", status, "; ", said);
}

TEST(FakeMemory, IsSharedByDescriptor) {
  const auto maker = [](int peer, void*) {
    const Driver& driver = OpenFirst();
    const cuda::AllocationProperties properties = PropertiesOf(0);
    cuda::AllocationHandle handle = 0;
    ASSERT_EQ(driver.MemCreate(&handle, kChunk, &properties, 0), kSuccess);
    const DevicePointer memory = MapHandle(driver, handle, kChunk);
    ASSERT_EQ(driver.MemsetD8Async(memory, 5, kChunk, nullptr), kSuccess);
    ASSERT_EQ(driver.CtxSynchronize(), kSuccess);
    int fd = -1;
    EXPECT_EQ(driver.MemExportToShareableHandle(&fd, handle + 1, cuda::kPosixFileDescriptor, 0),
              kInvalidValue);
    ASSERT_EQ(driver.MemExportToShareableHandle(&fd, handle, cuda::kPosixFileDescriptor, 0),
              kSuccess);
    SendBytes(peer, "x", 1, fd);
    close(fd);
    char done = 0;
    ReceiveBytes(peer, &done, 1);
    char bytes[2] = {};
    ASSERT_TRUE(Fake().peek(bytes, memory + 99, 2));
    EXPECT_EQ(bytes[0], 5);
    EXPECT_EQ(bytes[1], 9);
  };
  const auto taker = [](int peer, void*) {
    const Driver& driver = OpenFirst();
    char begin = 0;
    const int fd = ReceiveBytes(peer, &begin, 1);
    ASSERT_GE(fd, 0);
    cuda::AllocationHandle handle = 0;
    const int other = memfd_create("other", MFD_CLOEXEC);
    EXPECT_EQ(
        driver.MemImportFromShareableHandle(&handle, AsPointer(static_cast<DevicePointer>(other)),
                                            cuda::kPosixFileDescriptor),
        kInvalidValue);
    close(other);
    ASSERT_EQ(driver.MemImportFromShareableHandle(
                  &handle, AsPointer(static_cast<DevicePointer>(fd)), cuda::kPosixFileDescriptor),
              kSuccess);
    close(fd);
    const DevicePointer memory = MapHandle(driver, handle, kChunk);
    ASSERT_EQ(driver.MemRelease(handle), kSuccess);
    char byte = 0;
    ASSERT_TRUE(Fake().peek(&byte, memory + kChunk - 1, 1));
    EXPECT_EQ(byte, 5);
    ASSERT_EQ(driver.MemsetD8Async(memory + 100, 9, 1, nullptr), kSuccess);
    ASSERT_EQ(driver.CtxSynchronize(), kSuccess);
    // The maker's bytes, not this process's.
    EXPECT_EQ(Fake().holdings().device_bytes, 0U);
    SendBytes(peer, "y", 1);
  };
  EXPECT_EQ(InTwoProcesses(maker, taker), "");
}

TEST(FakeMemory, IsSharedByInterprocessHandle) {
  const auto maker = [](int peer, void*) {
    const Driver& driver = OpenFirst();
    DevicePointer memory = 0;
    DevicePointer again = 0;
    ASSERT_EQ(driver.MemAlloc(&memory, 1000), kSuccess);
    ASSERT_EQ(driver.MemsetD8Async(memory, 5, 1000, nullptr), kSuccess);
    ASSERT_EQ(driver.CtxSynchronize(), kSuccess);
    cuda::IpcMemoryHandle handle = {};
    EXPECT_EQ(driver.IpcGetMemHandle(&handle, memory + 1), kInvalidValue);
    ASSERT_EQ(driver.IpcGetMemHandle(&handle, memory), kSuccess);
    EXPECT_EQ(driver.IpcOpenMemHandle(&again, handle, cuda::kIpcLazyEnablePeerAccess),
              kInvalidContext);
    SendBytes(peer, &handle, sizeof(handle));
    char done = 0;
    ReceiveBytes(peer, &done, 1);
    char byte = 0;
    ASSERT_TRUE(Fake().peek(&byte, memory + 999, 1));
    EXPECT_EQ(byte, 9);
  };
  const auto taker = [](int peer, void*) {
    const Driver& driver = OpenFirst();
    cuda::IpcMemoryHandle handle = {};
    ReceiveBytes(peer, &handle, sizeof(handle));
    DevicePointer memory = 0;
    DevicePointer again = 0;
    EXPECT_EQ(driver.IpcOpenMemHandle(&memory, {}, cuda::kIpcLazyEnablePeerAccess), kInvalidValue);
    ASSERT_EQ(driver.IpcOpenMemHandle(&memory, handle, cuda::kIpcLazyEnablePeerAccess), kSuccess);
    ASSERT_EQ(driver.IpcOpenMemHandle(&again, handle, cuda::kIpcLazyEnablePeerAccess), kSuccess);
    EXPECT_EQ(again, memory);
    ASSERT_EQ(driver.MemsetD8Async(memory + 999, 9, 1, nullptr), kSuccess);
    EXPECT_EQ(driver.MemsetD8Async(memory + 999, 9, 2, nullptr), kInvalidValue);
    ASSERT_EQ(driver.CtxSynchronize(), kSuccess);
    EXPECT_EQ(driver.MemFree(memory), kInvalidValue);
    EXPECT_EQ(driver.IpcCloseMemHandle(memory), kSuccess);
    EXPECT_STREQ(Fake().holdings_text(), "1 import");
    EXPECT_EQ(driver.IpcCloseMemHandle(memory), kSuccess);
    EXPECT_EQ(driver.IpcCloseMemHandle(memory), kInvalidValue);
    EXPECT_STREQ(Fake().holdings_text(), "");
    SendBytes(peer, "y", 1);
  };
  EXPECT_EQ(InTwoProcesses(maker, taker), "");
}

// Word `own` is written by this process, the other one by its peer.
void PingPong(void* shared, int own, int rounds) {
  const Driver& driver = OpenFirst();
  ASSERT_EQ(driver.MemHostRegister(shared, 4096, cuda::kHostRegisterPortable), kSuccess);
  const cuda::Stream stream = MakeStream(driver);
  const DevicePointer words = HostPointer(shared);
  const DevicePointer mine = words + static_cast<DevicePointer>(own) * 64;
  const DevicePointer theirs = words + static_cast<DevicePointer>(1 - own) * 64;
  for (int round = 1; round <= rounds; ++round) {
    const auto value = static_cast<uint32_t>(round);
    if (own == 1) {
      ASSERT_EQ(driver.StreamWaitValue32(stream, theirs, value, cuda::kWaitGreaterOrEqual),
                kSuccess);
    }
    ASSERT_EQ(driver.StreamWriteValue32(stream, mine, value, 0), kSuccess);
    if (own == 0) {
      ASSERT_EQ(driver.StreamWaitValue32(stream, theirs, value, cuda::kWaitEqual), kSuccess);
    }
  }
  ASSERT_EQ(driver.StreamSynchronize(stream), kSuccess);
  EXPECT_EQ(static_cast<uint32_t*>(shared)[own == 0 ? 0 : 16], static_cast<uint32_t>(rounds));
}

TEST(FakeStream, WaitsForWordsOfOtherProcesses) {
  EXPECT_EQ(InTwoProcesses([](int, void* shared) { PingPong(shared, 0, 20); },
                           [](int, void* shared) { PingPong(shared, 1, 20); }),
            "");
}

cuda::Function FindKernel(const Driver& driver, const char* name) {
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  EXPECT_EQ(driver.ModuleLoadData(&module, "any"), kSuccess);
  EXPECT_EQ(driver.ModuleGetFunction(&function, module, name), kSuccess);
  return function;
}

template <typename Parameters>
Result LaunchOn(const Driver& driver, cuda::Stream stream, cuda::Function function,
                Parameters parameters, uint32_t shared_bytes = 0) {
  void* pointers[] = {&parameters};
  return driver.LaunchKernel(function, 3, 1, 1, 64, 1, 1, shared_bytes, stream, pointers, nullptr);
}

TEST(FakeKernel, IsTheTwinAndWritesDeviceMemory) {
  RunInChild([&] {
    const Driver& driver = OpenFirst();
    const cuda::Function sum = FindKernel(driver, "weft_reduce_float32_sum_any");
    constexpr size_t kCount = 1000;
    float* const host = Pin<float>(driver, kCount);
    DevicePointer memory = 0;
    ASSERT_EQ(driver.MemAlloc(&memory, 3 * kCount * sizeof(float)), kSuccess);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      Fake().set_seed(seed);
      std::iota(host, host + kCount, 1.0F);
      device::ReduceParameters parameters = {};
      parameters.range = {kCount, 0, 0};
      parameters.source_count = 3;
      parameters.destination_count = 1;
      for (size_t i = 0; i < 3; ++i) {
        const DevicePointer source = memory + i * kCount * sizeof(float);
        parameters.sources[i] = AsPointer(source);
        ASSERT_EQ(driver.MemcpyAsync(source, HostPointer(host), kCount * sizeof(float), nullptr),
                  kSuccess);
      }
      parameters.destinations[0] = host;  // pinned
      ASSERT_EQ(LaunchOn(driver, nullptr, sum, parameters), kSuccess);
      ASSERT_EQ(driver.StreamSynchronize(nullptr), kSuccess);
      for (size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(host[i], 3 * static_cast<float>(i + 1)) << "seed " << seed;
    }
    EXPECT_EQ(driver.MemFree(memory), kSuccess);
  });
}

TEST(FakeKernel, RefusesWhatADriverRefuses) {
  RunInChild([&] {
    const Driver& driver = OpenFirst();
    const cuda::Function fill = FindKernel(driver, "weft_fill");
    cuda::Module module = nullptr;
    cuda::Function none = nullptr;
    EXPECT_EQ(driver.ModuleLoadData(&module, nullptr), kInvalidValue);
    ASSERT_EQ(driver.ModuleLoadData(&module, "any"), kSuccess);
    EXPECT_EQ(driver.ModuleGetFunction(&none, module, "weft_none"), cuda::kNotFound);
    EXPECT_EQ(driver.ModuleUnload(module), kSuccess);
    EXPECT_EQ(driver.ModuleUnload(module), kInvalidValue);
    EXPECT_EQ(driver.ModuleGetFunction(&none, module, "weft_fill"), kInvalidValue);
    device::FillParameters parameters = {};
    EXPECT_EQ(LaunchOn(driver, nullptr, fill, parameters, 64 << 10), kInvalidValue);
    using Attribute = cuda::FunctionAttribute;
    EXPECT_EQ(driver.FuncSetAttribute(fill, Attribute::kMaxDynamicSharedBytes, 1 << 20),
              kInvalidValue);
    EXPECT_EQ(driver.FuncSetAttribute(fill, Attribute::kMaxDynamicSharedBytes, 64 << 10), kSuccess);
    EXPECT_EQ(LaunchOn(driver, nullptr, fill, parameters, 64 << 10), kSuccess);
    void* pointers[] = {&parameters};
    EXPECT_EQ(driver.LaunchKernel(fill, 1, 1, 1, 512, 1, 1, 0, nullptr, pointers, nullptr), 701);
    EXPECT_EQ(driver.LaunchKernel(fill, 0, 1, 1, 64, 1, 1, 0, nullptr, pointers, nullptr),
              kInvalidValue);
    int32_t blocks = 0;
    EXPECT_EQ(driver.OccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 256, 0), kSuccess);
    EXPECT_GE(blocks, 2);
    EXPECT_EQ(driver.StreamSynchronize(nullptr), kSuccess);
  });
}

TEST(FakeKernel, FailsTheDeviceForPointersThatItCannotUse) {
  const auto fill_at = [](auto address_of) {
    return FailureInChild([&] {
      const Driver& driver = OpenFirst(2);
      device::FillParameters parameters = {};
      parameters.range = {100, 0, 0};
      parameters.destination = address_of(driver);
      ASSERT_EQ(LaunchOn(driver, nullptr, FindKernel(driver, "weft_fill"), parameters), kSuccess);
      EXPECT_EQ(driver.StreamSynchronize(nullptr), kIllegalAddress);
    });
  };
  EXPECT_EQ(fill_at([](const Driver&) -> void* {
              static std::vector<char> pageable(100);
              return pageable.data();
            }),
            "")
      << "memory that is not pinned";
  EXPECT_EQ(fill_at([](const Driver& driver) {
              DevicePointer memory = 0;
              EXPECT_EQ(driver.MemAlloc(&memory, 100), kSuccess);
              EXPECT_EQ(driver.MemFree(memory), kSuccess);
              return AsPointer(memory);
            }),
            "")
      << "memory that was given back";
  EXPECT_EQ(fill_at([](const Driver& driver) {
              cuda::Context first = nullptr;
              DevicePointer memory = 0;
              EXPECT_EQ(driver.CtxPopCurrent(&first), kSuccess);
              EXPECT_EQ(driver.MemAlloc(&memory, 100), kSuccess);
              EXPECT_EQ(driver.CtxPushCurrent(first), kSuccess);
              return AsPointer(memory);
            }),
            "")
      << "another device's memory";
}

TEST(FakeKernel, NeedsSharedMemoryForResultsThatWait) {
  RunInChild([&] {
    const Driver& driver = OpenFirst();
    device::ReduceParameters parameters = {};
    parameters.source_count = 3;
    parameters.merges[2] = 2;
    const cuda::Function merge = FindKernel(driver, "weft_merge_sum_float32");
    EXPECT_EQ(LaunchOn(driver, nullptr, merge, parameters, 2 * 64 * 16), kSuccess);
    EXPECT_EQ(driver.StreamSynchronize(nullptr), kSuccess);
    EXPECT_EQ(LaunchOn(driver, nullptr, merge, parameters, 2 * 64 * 16 - 1), kSuccess);
    EXPECT_EQ(driver.StreamSynchronize(nullptr), kIllegalAddress);
  });
}

TEST(FakeDevices, UseEachOthersMemoryIfAsked) {
  RunInChild([&] {
    const Driver& driver = OpenFirst(2);
    DevicePointer memory = 0;
    ASSERT_EQ(driver.MemAlloc(&memory, 100), kSuccess);
    cuda::Context first = nullptr;
    ASSERT_EQ(driver.CtxPopCurrent(&first), kSuccess);
    EXPECT_EQ(driver.MemsetD8Async(memory, 1, 100, nullptr), kInvalidValue);
    Fake().set_capability(FakeCapability::kPeerAccess, false);
    int32_t can = 1;
    EXPECT_EQ(driver.DeviceCanAccessPeer(&can, 1, 0), kSuccess);
    EXPECT_EQ(can, 0);
    EXPECT_EQ(driver.CtxEnablePeerAccess(first, 0), 217);
    Fake().set_capability(FakeCapability::kPeerAccess, true);
    EXPECT_EQ(driver.CtxEnablePeerAccess(first, 0), kSuccess);
    EXPECT_EQ(driver.CtxEnablePeerAccess(first, 0), 704);
    EXPECT_EQ(driver.MemsetD8Async(memory, 1, 100, nullptr), kSuccess);
    EXPECT_EQ(driver.CtxSynchronize(), kSuccess);
    EXPECT_EQ(driver.MemFree(memory), kSuccess);
    EXPECT_EQ(driver.DevicePrimaryCtxRelease(1), kSuccess);
    EXPECT_EQ(driver.MemAlloc(&memory, 100), kInvalidContext);
    EXPECT_EQ(driver.DevicePrimaryCtxRelease(1), kInvalidContext);
  });
}

}  // namespace
}  // namespace weft::test::fake_driver_test
