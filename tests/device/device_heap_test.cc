// comm/device/memory over the fake driver: what weft's own uses keep. Each case runs in a child of its own: a driver that is open stays so.
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "base/status.h"
#include "comm/device/memory/address.h"
#include "comm/device/memory/device_memory.h"
#include "tests/device/fake_driver/fake_driver.h"
#include "tests/support/in_child.h"

namespace weft::test::device_heap_test {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

const FakeDriver& Fake() {
  static const FakeDriver* const fake = UseFakeDriver();
  return *fake;
}

// Failures are printed by the child.
void RunInChild(const std::function<void()>& body) {
  EXPECT_EQ(InChild([&] {
              alarm(60);
              Fake();
              body();
              return std::string(::testing::Test::HasFailure() ? "it failed, see above" : "");
            }),
            "");
}

// An event behind work that runs when somebody waits for it.
DeviceEvent EventInFront(const Device& device, const DeviceStream& stream,
                         cuda::DevicePointer memory) {
  const absl::StatusOr<ContextScope> scope = ContextScope::Enter(device);
  absl::StatusOr<DeviceEvent> event = DeviceEvent::Create(device);
  EXPECT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(device.driver->MemsetD8Async(memory, 1, 4096, stream.get()), cuda::kSuccess);
  EXPECT_TRUE(event->Record(stream.get()).ok());
  return *std::move(event);
}

TEST(DeviceHeap, ABlockStaysUntilItsUsesHavePassed) {
  RunInChild([] {
    const Device& device = **OpenDevice(0);
    const absl::StatusOr<DeviceStream> stream = DeviceStream::Create(device);
    DeviceHeap heap(device);
    const absl::StatusOr<void*> block = heap.Allocate(3 * kMiB, stream->get());
    ASSERT_TRUE(block.ok()) << block.status();
    ASSERT_TRUE(stream->Finish().ok());
    Fake().set_paused(true);
    const auto address = DeviceAddress(*block);
    EXPECT_TRUE(
        heap.AddUse(static_cast<char*>(*block) + 7, EventInFront(device, *stream, address)).ok());
    EXPECT_TRUE(heap.AddUse(*block, EventInFront(device, *stream, address)).ok());
    EXPECT_TRUE(heap.Free(*block, std::nullopt).ok());
    EXPECT_EQ(Fake().holdings().mappings, 1U) << "weft uses it";
    EXPECT_FALSE(heap.PlaceOf(*block).has_value());
    EXPECT_EQ(ResultOf(heap.AddUse(*block, *DeviceEvent::Create(device))), WEFT_INVALID_ARGUMENT);
    Fake().set_paused(false);
    ASSERT_TRUE(stream->Finish().ok());
    const absl::StatusOr<void*> other = heap.Allocate(64, stream->get());
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(Fake().holdings().mappings, 1U) << "the other's chunk alone";
    ASSERT_TRUE(stream->Finish().ok());
    EXPECT_TRUE(heap.Free(*other, std::nullopt).ok());
    EXPECT_EQ(Fake().holdings().events, 0U);
  });
}

TEST(DeviceHeap, AUseThatCannotBeAskedHasNotPassed) {
  RunInChild([] {
    const Device& device = **OpenDevice(0);
    const absl::StatusOr<DeviceStream> stream = DeviceStream::Create(device);
    DeviceHeap heap(device);
    const absl::StatusOr<void*> block = heap.Allocate(3 * kMiB, stream->get());
    ASSERT_TRUE(block.ok() && stream->Finish().ok());
    Fake().fail_call("cuEventQuery", 1, 999);
    EXPECT_TRUE(heap.Free(*block, std::nullopt).ok());
    // The next look, in the same call, was answered.
    EXPECT_EQ(Fake().count_calls("cuEventQuery"), 2U);
    EXPECT_EQ(Fake().holdings().mappings, 0U);
  });
}

// The memory of a block that is no more may still be on its way back, by the thread that freed the block.
TEST(DeviceHeap, WhatAnotherThreadGivesBackIsNotLacking) {
  RunInChild([] {
    Fake().set_total_bytes(0, 3 * kMiB);
    const Device& device = **OpenDevice(0);
    const absl::StatusOr<DeviceStream> stream = DeviceStream::Create(device);
    DeviceHeap heap(device);
    for (int round = 0; round < 100; ++round) {
      const absl::StatusOr<void*> block = heap.Allocate(2 * kMiB, stream->get());
      ASSERT_TRUE(block.ok()) << "round " << round << ": " << block.status();
      ASSERT_TRUE(stream->Finish().ok());
      std::thread freeing([&] { EXPECT_TRUE(heap.Free(*block, std::nullopt).ok()); });
      while (heap.PlaceOf(*block).has_value())
        std::this_thread::yield();
      const absl::StatusOr<void*> next = heap.Allocate(2 * kMiB, stream->get());
      EXPECT_TRUE(next.ok()) << "round " << round << ": " << next.status();
      freeing.join();
      ASSERT_TRUE(stream->Finish().ok());
      ASSERT_TRUE(next.ok() && heap.Free(*next, std::nullopt).ok());
    }
  });
}

TEST(DeviceMemory, PinnedPagesStayWhileADeviceHasThem) {
  RunInChild([] {
    DeviceMemory& memory = **OpenDeviceMemory();
    const Device& device = **OpenDevice(0);
    const absl::StatusOr<DeviceStream> stream = DeviceStream::Create(device);
    const absl::StatusOr<void*> block = memory.AllocatePinned(8192);
    ASSERT_TRUE(block.ok()) << block.status();
    Fake().set_paused(true);
    const absl::StatusOr<bool> used =
        memory.AddUse(*block, EventInFront(device, *stream, DeviceAddress(*block)));
    EXPECT_TRUE(used.ok() && *used);
    const absl::StatusOr<bool> freed = memory.Free(*block);
    EXPECT_TRUE(freed.ok() && *freed) << freed.status();
    EXPECT_FALSE(memory.PlaceOf(*block).has_value());
    EXPECT_EQ(Fake().holdings().host_registrations, 1U);
    Fake().set_paused(false);
    ASSERT_TRUE(stream->Finish().ok());
    // The device has written, so the pages were there.
    EXPECT_EQ(static_cast<char*>(*block)[4095], 1);
    ASSERT_TRUE(memory.Free(*memory.AllocatePinned(64)).ok());
    EXPECT_EQ(Fake().holdings().host_registrations, 0U);
    int local = 0;
    const absl::StatusOr<bool> foreign = memory.Free(&local);
    EXPECT_TRUE(foreign.ok() && !*foreign);
  });
}

}  // namespace
}  // namespace weft::test::device_heap_test
