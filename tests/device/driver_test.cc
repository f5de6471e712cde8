// comm/device/driver over the fake driver (fake_driver/README.md). Each case runs in a child of its own: a driver that is open stays so.
#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "comm/device/driver/device.h"
#include "comm/device/driver/stream.h"
#include "tests/device/fake_driver/fake_driver.h"
#include "tests/support/in_child.h"

namespace weft::test::driver_test {
namespace {

using testing::Test;

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

const FakeDriver& Fake() {
  static const FakeDriver* const fake = UseFakeDriver();
  return *fake;
}

bool Has(const absl::Status& status, std::string_view words) {
  return FromAbsl(status.message()).find(words) != std::string_view::npos;
}

TEST(Driver, SaysWhatItLookedForWhere) {
  RunInChild([&] {
    setenv("WEFT_CUDA_LIBRARY", "/proc/none/libcuda.so", 1);
    const absl::Status status = OpenDriver().status();
    EXPECT_EQ(ResultOf(status), WEFT_UNSUPPORTED);
    EXPECT_TRUE(Has(status,
                    "CUDA's driver, /proc/none/libcuda.so, was looked for where "
                    "WEFT_CUDA_LIBRARY says"))
        << status;
    EXPECT_EQ(FindOpenDriver(), nullptr);
    EXPECT_EQ(ResultOf(CountDevices().status()), WEFT_UNSUPPORTED);
    EXPECT_EQ(ResultOf(OpenDevice(0).status()), WEFT_UNSUPPORTED);
    EXPECT_EQ(FindOpenDevice(0), nullptr);
  });
  RunInChild([&] {
    setenv("WEFT_CUDA_LIBRARY", "", 1);
    const absl::StatusOr<const Driver*> driver = OpenDriver();
    if (driver.ok()) return;  // this machine has one
    EXPECT_EQ(ResultOf(driver.status()), WEFT_UNSUPPORTED);
    EXPECT_TRUE(Has(driver.status(), "libcuda.so.1")) << driver.status();
  });
}

TEST(Driver, RefusesALibraryThatIsNoDriver) {
  RunInChild([&] {
    setenv("WEFT_CUDA_LIBRARY", "libm.so.6", 1);
    const absl::Status status = OpenDriver().status();
    EXPECT_EQ(ResultOf(status), WEFT_UNSUPPORTED);
    EXPECT_TRUE(Has(status,
                    "libm.so.6 has no function cuGetProcAddress_v2; weft needs the driver "
                    "of CUDA 12.0 or later"))
        << status;
  });
}

TEST(Driver, RefusesADriverThatLacksAFunctionAndTriesAgain) {
  RunInChild([&] {
    Fake().hide_function("cuStreamBatchMemOp");
    const absl::Status status = OpenDriver().status();
    EXPECT_EQ(ResultOf(status), WEFT_UNSUPPORTED);
    EXPECT_TRUE(Has(status,
                    "has no function cuStreamBatchMemOp of CUDA 11.7; weft needs the driver "
                    "of CUDA 12.0 or later"))
        << status;
    Fake().hide_function(nullptr);
    const absl::StatusOr<const Driver*> driver = OpenDriver();
    ASSERT_TRUE(driver.ok()) << driver.status();
    EXPECT_EQ((*driver)->version, 13000);
    EXPECT_EQ(FindOpenDriver(), *driver);
  });
}

TEST(Driver, IsUnsupportedWithoutDevices) {
  RunInChild([&] {
    Fake().set_device_count(0);
    const absl::Status status = CountDevices().status();
    EXPECT_EQ(ResultOf(status), WEFT_UNSUPPORTED);
    EXPECT_EQ(FieldsOf(status).device_code, cuda::kNoDevice);
    EXPECT_TRUE(Has(status,
                    "did not start: cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable "
                    "device is detected"))
        << status;
  });
}

TEST(Driver, IsRefusedInAForkedChild) {
  RunInChild([&] {
    Fake();
    ASSERT_TRUE(OpenDevice(0).ok());
    const absl::StatusOr<DeviceStream> stream = DeviceStream::Create(**OpenDevice(0));
    ASSERT_TRUE(stream.ok());
    RunInChild([&] {
      EXPECT_EQ(FindOpenDriver(), nullptr);
      EXPECT_EQ(FindOpenDevice(0), nullptr);
      for (const absl::Status& status :
           {OpenDriver().status(), CountDevices().status(), ReadDeviceFacts(0).status(),
            OpenDevice(0).status(), OpenDevice(kCurrentDevice).status()}) {
        EXPECT_EQ(ResultOf(status), WEFT_FORKED) << status;
        EXPECT_TRUE(Has(status, StrCat("CUDA was opened by process ", getppid()))) << status;
      }
      EXPECT_EQ(ResultOf(stream->Finish()), WEFT_DEVICE_ERROR);
    });
    EXPECT_TRUE(stream->Finish().ok());
  });
}

TEST(Device, IsNamedByOrdinal) {
  RunInChild([&] {
    Fake().set_device_count(2);
    EXPECT_EQ(*CountDevices(), 2);
    for (const int32_t ordinal : {2, 7, -2}) {
      for (const absl::Status& status :
           {OpenDevice(ordinal).status(), ReadDeviceFacts(ordinal).status()}) {
        EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT);
        EXPECT_TRUE(Has(status, StrCat("device is ", ordinal, ", and CUDA has 2 devices here")))
            << status;
      }
    }
    const absl::StatusOr<DeviceFacts> facts = ReadDeviceFacts(1);
    ASSERT_TRUE(facts.ok()) << facts.status();
    EXPECT_EQ(facts->ordinal, 1);
    EXPECT_EQ(facts->name, "weft fake device");
    EXPECT_EQ(facts->bus_id, "0000:1A:00.0");
    EXPECT_EQ(facts->total_bytes, uint64_t{1} << 30);
    EXPECT_EQ(facts->compute_major, 9);
    EXPECT_TRUE(facts->virtual_memory && facts->posix_descriptors);
    // Facts make no context.
    EXPECT_EQ(Fake().holdings().contexts, 0U);
    EXPECT_EQ(FindOpenDevice(1), nullptr);
    const absl::StatusOr<const Device*> device = OpenDevice(1);
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ(FindOpenDevice(1), *device);
    EXPECT_EQ(FindOpenDevice(0), nullptr);
    EXPECT_EQ(Fake().holdings().contexts, 1U);
  });
}

TEST(Device, OfTheCurrentContext) {
  RunInChild([&] {
    Fake().set_device_count(3);
    const absl::Status status = OpenDevice(kCurrentDevice).status();
    EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT);
    EXPECT_TRUE(Has(status, "the thread has none")) << status;
    const absl::StatusOr<const Device*> device = OpenDevice(2);
    ASSERT_TRUE(device.ok());
    const absl::StatusOr<ContextScope> scope = ContextScope::Enter(**device);
    ASSERT_TRUE(scope.ok());
    EXPECT_EQ(*OpenDevice(kCurrentDevice), *device);
    EXPECT_EQ(ReadDeviceFacts(kCurrentDevice)->ordinal, 2);
    // A context is current to a thread.
    std::thread([] {
      EXPECT_EQ(ResultOf(OpenDevice(kCurrentDevice).status()), WEFT_INVALID_ARGUMENT);
    }).join();
  });
}

TEST(Device, IsOpenedOnce) {
  RunInChild([&] {
    Fake();
    std::vector<const Device*> opened(8);
    std::vector<std::thread> threads;
    threads.reserve(opened.size());
    for (const Device*& one : opened)
      threads.emplace_back([&] { one = OpenDevice(0).value_or(nullptr); });
    for (std::thread& thread : threads)
      thread.join();
    ASSERT_NE(opened[0], nullptr);
    for (const Device* one : opened)
      EXPECT_EQ(one, opened[0]);
    EXPECT_EQ(Fake().count_calls("cuDevicePrimaryCtxRetain"), 1U);
    EXPECT_EQ(Fake().count_calls("cuInit"), 1U);
  });
}

TEST(ContextScope, RestoresWhatWasCurrent) {
  RunInChild([&] {
    Fake().set_device_count(2);
    const Device* const first = *OpenDevice(0);
    const Device* const second = *OpenDevice(1);
    const auto current = [&] {
      cuda::Context context = nullptr;
      EXPECT_EQ(first->driver->CtxGetCurrent(&context), cuda::kSuccess);
      return context;
    };
    {
      absl::StatusOr<ContextScope> outer = ContextScope::Enter(*first);
      ASSERT_TRUE(outer.ok());
      EXPECT_EQ(current(), first->context);
      {
        const absl::StatusOr<ContextScope> inner = ContextScope::Enter(*second);
        ASSERT_TRUE(inner.ok());
        EXPECT_EQ(current(), second->context);
      }
      EXPECT_EQ(current(), first->context);
      Fake().fail_call("cuCtxPushCurrent", 1, cuda::kInvalidContext);
      EXPECT_EQ(ResultOf(ContextScope::Enter(*second).status()), WEFT_DEVICE_ERROR);
      EXPECT_EQ(current(), first->context);
      const ContextScope moved(*std::move(outer));
      EXPECT_EQ(current(), first->context);
    }
    EXPECT_EQ(current(), nullptr);
  });
}

// A pattern of bytes from one stream to another and to the host, ordered by an event.
std::string CopyThroughTwoStreams(const Device& device, cuda::DevicePointer memory, char* pinned,
                                  size_t bytes) {
  const Driver& driver = *device.driver;
  absl::StatusOr<DeviceStream> first = DeviceStream::Create(device);
  absl::StatusOr<DeviceStream> second = DeviceStream::Create(device);
  absl::StatusOr<DeviceEvent> event = DeviceEvent::Create(device);
  if (!first.ok() || !second.ok() || !event.ok()) return "no streams";
  const absl::StatusOr<ContextScope> scope = ContextScope::Enter(device);
  const auto host = reinterpret_cast<cuda::DevicePointer>(pinned);
  std::fill_n(pinned, 4 * bytes, '\0');
  for (int round = 1; round <= 4; ++round) {
    // The second stream's copy ends before the first one writes again.
    if (round > 1 && !event->OrderBehind(first->get()).ok()) return "not ordered";
    if (driver.MemsetD8Async(memory, static_cast<unsigned char>(round), bytes, first->get()) !=
        cuda::kSuccess)
      return "no memset";
    if (!event->Record(first->get()).ok() || !event->OrderBehind(second->get()).ok())
      return "not ordered";
    if (driver.MemcpyAsync(host + static_cast<size_t>(round - 1) * bytes, memory, bytes,
                           second->get()) != cuda::kSuccess)
      return "no copy";
    if (!event->Record(second->get()).ok()) return "not recorded";
  }
  while (true) {
    const absl::StatusOr<bool> passed = event->Passed();
    if (!passed.ok()) return passed.status().ToString();
    if (*passed) break;
  }
  for (size_t i = 0; i < 4 * bytes; ++i) {
    if (pinned[i] != static_cast<char>(i / bytes + 1)) return StrCat("byte ", i, " is wrong");
  }
  return "";
}

TEST(DeviceStream, EventsOrderStreamsWhateverTheSeed) {
  RunInChild([&] {
    Fake();
    const Device& device = **OpenDevice(0);
    const Driver& driver = *device.driver;
    constexpr size_t kBytes = 1000;
    cuda::DevicePointer memory = 0;
    void* pinned = nullptr;
    {
      const absl::StatusOr<ContextScope> scope = ContextScope::Enter(device);
      ASSERT_EQ(driver.MemAlloc(&memory, kBytes), cuda::kSuccess);
      ASSERT_EQ(driver.MemHostAlloc(&pinned, 4 * kBytes, cuda::kHostAllocPortable), cuda::kSuccess);
    }
    for (uint64_t seed = 0; seed < 300; ++seed) {
      Fake().set_seed(seed);
      ASSERT_EQ(CopyThroughTwoStreams(device, memory, static_cast<char*>(pinned), kBytes), "")
          << "seed " << seed;
    }
    // Each of the ordering calls is needed.
    Fake().reset();
    ASSERT_EQ(CopyThroughTwoStreams(device, memory, static_cast<char*>(pinned), kBytes), "");
    const uint64_t calls = Fake().count_ordering_calls();
    ASSERT_EQ(calls, 15U);
    for (uint64_t call = 1; call <= calls; ++call) {
      int noticed = 0;
      for (uint64_t seed = 0; seed < 300 && noticed == 0; ++seed) {
        Fake().set_seed(seed);
        Fake().drop_ordering_call(call);
        if (!CopyThroughTwoStreams(device, memory, static_cast<char*>(pinned), kBytes).empty())
          ++noticed;
        const absl::StatusOr<ContextScope> scope = ContextScope::Enter(device);
        ASSERT_EQ(driver.CtxSynchronize(), cuda::kSuccess);
      }
      EXPECT_EQ(noticed, 1) << "without ordering call " << call;
    }
    const absl::StatusOr<ContextScope> scope = ContextScope::Enter(device);
    EXPECT_EQ(driver.MemFree(memory), cuda::kSuccess);
    EXPECT_EQ(driver.MemFreeHost(pinned), cuda::kSuccess);
    EXPECT_STREQ(Fake().holdings_text(), "");
  });
}

TEST(DeviceEvent, PassesWhenWhatWasInTheStreamHasEnded) {
  RunInChild([&] {
    Fake();
    const Device& device = **OpenDevice(0);
    const absl::StatusOr<DeviceStream> stream = DeviceStream::Create(device);
    const absl::StatusOr<DeviceEvent> start = DeviceEvent::Create(device, true);
    const absl::StatusOr<DeviceEvent> end = DeviceEvent::Create(device, true);
    const absl::StatusOr<DeviceEvent> untimed = DeviceEvent::Create(device);
    ASSERT_TRUE(stream.ok() && start.ok() && end.ok() && untimed.ok());
    EXPECT_TRUE(*start->Passed());  // never recorded
    EXPECT_EQ(FieldsOf(end->SecondsSince(*start).status()).device_code, 400);
    Fake().set_paused(true);
    ASSERT_TRUE(start->Record(stream->get()).ok());
    ASSERT_TRUE(end->Record(stream->get()).ok());
    ASSERT_TRUE(untimed->Record(nullptr).ok());
    EXPECT_FALSE(*start->Passed());
    EXPECT_FALSE(*end->Passed());
    EXPECT_FALSE(*untimed->Passed());
    EXPECT_EQ(FieldsOf(end->SecondsSince(*start).status()).device_code, cuda::kNotReady);
    ASSERT_TRUE(stream->Finish().ok());
    EXPECT_TRUE(*start->Passed());
    EXPECT_TRUE(*end->Passed());
    EXPECT_GE(*end->SecondsSince(*start), 0);
    EXPECT_FALSE(end->SecondsSince(*untimed).ok());
  });
}

TEST(DeviceStream, EveryFailingCallLeavesNothingBehind) {
  RunInChild([&] {
    Fake();
    const Device& device = **OpenDevice(0);
    const auto all = [&]() -> absl::Status {
      WEFT_ASSIGN_OR_RETURN(const DeviceStream stream, DeviceStream::Create(device));
      WEFT_ASSIGN_OR_RETURN(const DeviceEvent event, DeviceEvent::Create(device));
      WEFT_RETURN_IF_ERROR(event.Record(stream.get()));
      WEFT_RETURN_IF_ERROR(event.OrderBehind(nullptr));
      WEFT_RETURN_IF_ERROR(stream.Finish());
      return event.Passed().status();
    };
    ASSERT_EQ(all(), absl::OkStatus());
    Fake().reset();
    ASSERT_EQ(all(), absl::OkStatus());
    const uint64_t calls = Fake().count_calls(nullptr);
    int failed = 0;
    for (uint64_t call = 1; call <= calls; ++call) {
      Fake().fail_call(nullptr, call, cuda::kOutOfMemory);
      const absl::Status status = all();
      const char* const function = Fake().failed_function();
      ASSERT_NE(function, nullptr) << "call " << call << " of " << calls;
      if (!status.ok()) {
        ++failed;
        EXPECT_EQ(ResultOf(status), WEFT_OUT_OF_MEMORY);
        EXPECT_EQ(FieldsOf(status).device, 0);
        EXPECT_EQ(FieldsOf(status).device_code, cuda::kOutOfMemory);
        EXPECT_TRUE(Has(status, function)) << status;
        EXPECT_TRUE(Has(status, "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory")) << status;
      }
      const absl::StatusOr<ContextScope> scope = ContextScope::Enter(device);
      ASSERT_EQ(device.driver->CtxSynchronize(), cuda::kSuccess);
      EXPECT_STREQ(Fake().holdings_text(), "") << "after " << function;
    }
    EXPECT_GT(failed, 10);
  });
}

TEST(Device, ThatHasFailedIsADeviceError) {
  RunInChild([&] {
    Fake();
    const Device& device = **OpenDevice(0);
    const absl::StatusOr<DeviceStream> stream = DeviceStream::Create(device);
    const absl::StatusOr<DeviceEvent> event = DeviceEvent::Create(device);
    ASSERT_TRUE(event->Record(stream->get()).ok());
    Fake().fail_device(0, 214);
    for (const absl::Status& status : {event->Passed().status(), stream->Finish()}) {
      EXPECT_EQ(ResultOf(status), WEFT_DEVICE_ERROR);
      EXPECT_EQ(FieldsOf(status).device, 0);
      EXPECT_EQ(FieldsOf(status).device_code, 214);
      EXPECT_TRUE(Has(status, "CUDA_ERROR_ECC_UNCORRECTABLE")) << status;
    }
  });
}

}  // namespace
}  // namespace weft::test::driver_test
