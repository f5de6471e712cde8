// weft's memory on devices when the driver fails, on the fake one: each call of each function in turn, and what machines may lack.
// Each case runs in a child of its own, since a driver that is open stays so.
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/device/failures_fixture.h"

namespace weft::test {
namespace {

constexpr int kCallsMax = 400;  // of one scenario

// The first call that fails ends it; what was made before is freed. The sentence is the failed call's.
struct Scenario {
  const char* name;
  std::function<weft_result_t()> run;
};

weft_result_t AllocAndFree(weft_device_kind_t kind, size_t bytes, bool on_stream) {
  void* block = nullptr;
  const weft_result_t result = Alloc(kind, bytes, &block);
  if (result != WEFT_SUCCESS) return result;
  if (!on_stream || kind == WEFT_DEVICE_HOST) return weft_mem_free(block);
  const weft_result_t freed = weft_mem_free_on(block, nullptr);
  if (freed != WEFT_SUCCESS) {
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << "nothing was freed";
  }
  return freed;
}

weft_result_t Register() {
  const Cuda& cuda = TheCuda();
  cuda::Context context = nullptr;
  EXPECT_EQ(cuda.DevicePrimaryCtxRetain(&context, 0), 0);
  EXPECT_EQ(cuda.CtxPushCurrent(context), 0);
  cuda::DevicePointer own = 0;
  EXPECT_EQ(cuda.MemAlloc(&own, kMiB), 0);
  auto* const memory = reinterpret_cast<void*>(own);
  weft_result_t result = weft_mem_register(memory, kMiB, 0);
  if (result == WEFT_SUCCESS) {
    EXPECT_EQ(weft_mem_deregister(memory), WEFT_SUCCESS);
  }
  void* copy = nullptr;
  if (result == WEFT_SUCCESS) result = weft_mem_alloc_copy(memory, 5'000, &copy);
  if (result == WEFT_SUCCESS) {
    EXPECT_EQ(weft_mem_free(copy), WEFT_SUCCESS);
  }
  return result;
}

std::vector<Scenario> Scenarios() {
  return {
      {"a small block",
       [] {
         return AllocAndFree(WEFT_DEVICE_CUDA, 5'000, false);
       }},
      {"a large block",
       [] {
         return AllocAndFree(WEFT_DEVICE_CUDA, 3 * kMiB, false);
       }},
      {"a block freed on a stream",
       [] {
         return AllocAndFree(WEFT_DEVICE_CUDA, 3 * kMiB, true);
       }},
      {"pinned memory",
       [] {
         return AllocAndFree(WEFT_DEVICE_HOST, 70'000, false);
       }},
      {"facts",
       [] {
         weft_device_info_t info = {.struct_size = sizeof(info)};
         int32_t count = 0;
         const weft_result_t result = weft_device_count(WEFT_DEVICE_CUDA, &count);
         return result == WEFT_SUCCESS ? weft_device_info(WEFT_DEVICE_CUDA, 0, &info) : result;
       }},
  };
}

// After everything was freed: the chunk that is kept, and nothing else.
void ExpectNothingLeft(const std::string& what) {
  for (int i = 0; i < 3; ++i) {
    void* block = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &block), WEFT_SUCCESS) << what << weft_last_error();
    (void)Holdings();
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << what;
  }
  const std::string held = Holdings();
  EXPECT_TRUE(held == "1 reservation, 1 mapping, 1 handle" || held == "1 allocation")
      << what << held;
}

// 1: the k-th call did not come.
int FailKth(const Scenario& scenario, int k, int32_t code) {
  const std::string what = std::string(scenario.name) + ", call " + std::to_string(k) +
                           " fails with " + std::to_string(code) + ": ";
  Fake()->set_seed(static_cast<uint64_t>(k));
  Fake()->fail_call(nullptr, static_cast<uint64_t>(k), code);
  const weft_result_t result = scenario.run();
  const char* const failed = Fake()->failed_function();
  const std::string function = failed == nullptr ? "" : failed;
  Fake()->fail_call(nullptr, 0, 0);
  if (result != WEFT_SUCCESS) {
    EXPECT_NE(function, "") << what << weft_last_error();
    EXPECT_TRUE(Says(function)) << what << "the call was " << function << ", it says "
                                << weft_last_error();
    weft_error_info_t info = {.struct_size = sizeof(info)};
    EXPECT_EQ(weft_last_error_info(&info), WEFT_SUCCESS);
    EXPECT_EQ(info.device_code, code) << what << weft_last_error();
    if (function.rfind("cuMemCreate", 0) == 0) {
      EXPECT_TRUE(Says("MiB on device 0")) << what << weft_last_error();
      EXPECT_EQ(info.device, 0);
    }
    if (result == WEFT_OUT_OF_MEMORY && function.rfind("cuMem", 0) == 0 && !Says("pinn")) {
      EXPECT_TRUE(Says("are free")) << what << weft_last_error();
    }
  }
  // What fills a block was enqueued, and when it ends cannot be told: the block stays.
  if (result != WEFT_SUCCESS && Says("allocating") && function != "cuMemsetD8Async" &&
      Fake()->count_calls("cuMemsetD8Async") > 0)
    return 0;
  ExpectNothingLeft(what);
  return function.empty() ? 1 : 0;
}

TEST_F(Failures, OfAnyCallLeaveNothingAndSayWhatWasTried) {
  for (const int32_t code : {kUnknown, cuda::kOutOfMemory, cuda::kNotSupported}) {
    for (const Scenario& scenario : Scenarios()) {
      int k = 1;
      int ended = 0;
      for (; ended == 0 && k < kCallsMax; ++k)
        ended = InAChild([&] { return FailKth(scenario, k, code); });
      EXPECT_EQ(ended, 1) << scenario.name << ", call " << k - 1 << ", code " << code;
      EXPECT_GT(k, 5) << "the scenario calls the driver";
    }
  }
}

TEST_F(Failures, OfRegisteringAndCopyingLeaveNothing) {
  // Their calls alone: the program's own are among the counted ones.
  for (const char* const function : {"cuPointerGetAttribute", "cuMemcpyAsync", "cuMemCreate",
                                     "cuEventRecord", "cuEventCreate"}) {
    for (uint64_t k = 1; k <= 5; ++k) {
      InAChild([&] {
        Fake()->fail_call(function, k, kUnknown);
        const weft_result_t result = Register();
        const bool failed = Fake()->failed_function() != nullptr;
        Fake()->fail_call(nullptr, 0, 0);
        if (result != WEFT_SUCCESS) {
          EXPECT_TRUE(failed);
          EXPECT_TRUE(Says(function)) << weft_last_error();
        }
        for (int i = 0; i < 3; ++i) {
          void* block = nullptr;
          EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &block), WEFT_SUCCESS) << weft_last_error();
          (void)Holdings();
          EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
        }
        EXPECT_EQ(Holdings(), "1 allocation, 1 reservation, 1 mapping, 1 handle")
            << function << " " << k;
        return 0;
      });
    }
  }
}

// Nothing is queued when the memory goes back.
TEST_F(Failures, OfGivingBackLeaveNothing) {
  for (const bool plain : {false, true}) {
    for (const char* const function :
         {"cuMemUnmap", "cuMemRelease", "cuMemAddressFree", "cuMemFree", "cuMemHostUnregister",
          "cuMemFreeHost", "cuEventQuery", "cuEventDestroy", "cuCtxPushCurrent", "cuCtxPopCurrent",
          "cuPointerGetAttribute"}) {
      for (uint64_t k = 1; k <= 4; ++k) {
        InAChild([&] {
          Fake()->set_capability(FakeCapability::kVirtualMemory, !plain);
          Fake()->set_capability(FakeCapability::kHostRegister, !plain);
          weft_log_set_level(WEFT_LOG_ERROR);
          void* blocks[3] = {};
          EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 3 * kMiB, &blocks[0]), WEFT_SUCCESS);
          EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &blocks[1]), WEFT_SUCCESS);
          EXPECT_EQ(Alloc(WEFT_DEVICE_HOST, 64, &blocks[2]), WEFT_SUCCESS);
          (void)Holdings();
          Fake()->fail_call(function, k, kUnknown);
          for (void* const block : blocks)
            EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << function << weft_last_error();
          for (void* const block : blocks) {
            weft_mem_info_t info = {.struct_size = sizeof(info)};
            EXPECT_EQ(weft_mem_query(block, &info), WEFT_SUCCESS);
            EXPECT_EQ(info.kind, WEFT_MEM_PRIVATE) << "it is freed";
          }
          Fake()->fail_call(nullptr, 0, 0);
          ExpectNothingLeft(std::string(function) + " fails: ");
          return 0;
        });
      }
    }
  }
}

// What weft takes where mapping is refused; and freeing does not wait, as cuMemFree would.
TEST_F(Failures, WithoutMappedMemoryItIsPlain) {
  for (const FakeCapability lacking :
       {FakeCapability::kVirtualMemory, FakeCapability::kPosixDescriptors}) {
    InAChild([&] {
      Fake()->set_capability(lacking, false);
      static std::vector<std::string> said;
      weft_log_set_level(WEFT_LOG_INFO);
      weft_log_set_callback(
          [](weft_log_level_t, const char* message, void*) { said.emplace_back(message); },
          nullptr);
      void* blocks[3] = {};
      for (void*& block : blocks)
        EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 3 * kMiB, &block), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(Fake()->holdings().allocations, 3u);
      EXPECT_EQ(said.size(), 1u) << "once";
      EXPECT_NE(said.at(0).find("comes from cuMemAlloc"), std::string::npos) << said.at(0);
      (void)Holdings();
      for (void* const block : blocks)
        EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
      EXPECT_EQ(Fake()->count_calls("cuMemFree"), 0u) << "it waits for the device";
      ExpectNothingLeft("plain memory: ");
      EXPECT_EQ(Fake()->count_calls("cuMemFree"), 3u);
      return 0;
    });
  }
}

TEST_F(Failures, ARefusalOfTheFirstMappingDecides) {
  for (const char* const function : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    InAChild([&] {
      Fake()->fail_call(function, 1, cuda::kNotPermitted);
      void* first = nullptr;
      void* second = nullptr;
      EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &first), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 3 * kMiB, &second), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(Fake()->holdings().allocations, 2u);
      EXPECT_EQ(Fake()->holdings().handles, 0u);
      EXPECT_EQ(Fake()->holdings().reservations, 0u);
      EXPECT_EQ(weft_mem_free(first), WEFT_SUCCESS);
      EXPECT_EQ(weft_mem_free(second), WEFT_SUCCESS);
      return 0;
    });
  }
  InAChild([&] {
    void* first = nullptr;
    void* second = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &first), WEFT_SUCCESS) << weft_last_error();
    Fake()->fail_call("cuMemCreate", 1, cuda::kNotPermitted);
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 3 * kMiB, &second), WEFT_DEVICE_ERROR) << "it is mapped";
    EXPECT_EQ(weft_mem_free(first), WEFT_SUCCESS);
    return 0;
  });
}

TEST_F(Failures, WithoutRegisteringSharedPagesPinnedMemoryIsTheProcesss) {
  for (const FakeCapability lacking :
       {FakeCapability::kHostRegister, FakeCapability::kRegisterShared}) {
    InAChild([&] {
      Fake()->set_capability(lacking, false);
      void* block = nullptr;
      EXPECT_EQ(Alloc(WEFT_DEVICE_HOST, 10'000, &block), WEFT_SUCCESS) << weft_last_error();
      weft_mem_info_t info = {.struct_size = sizeof(info)};
      EXPECT_EQ(weft_mem_query(static_cast<char*>(block) + 12'000, &info), WEFT_SUCCESS);
      EXPECT_EQ(info.kind, WEFT_MEM_PRIVATE);
      EXPECT_EQ(info.flags, WEFT_MEM_PINNED);
      EXPECT_EQ(info.device_kind, WEFT_DEVICE_HOST);
      EXPECT_EQ(info.base, block);
      EXPECT_EQ(info.bytes, 12'288u);
      EXPECT_EQ(info.references, 1);
      const std::vector<char> zeros(10'000, 0);
      EXPECT_EQ(std::memcmp(block, zeros.data(), zeros.size()), 0);
      EXPECT_EQ(weft_mem_retain(static_cast<char*>(block) + 1, nullptr), WEFT_SUCCESS);
      EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
      EXPECT_EQ(weft_mem_free(static_cast<char*>(block) + 1), WEFT_INVALID_ARGUMENT);
      EXPECT_EQ(Fake()->holdings().host_allocations, 1u);
      EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
      EXPECT_EQ(Fake()->holdings().host_allocations, 0u);
      EXPECT_EQ(weft_mem_free(block), WEFT_INVALID_ARGUMENT);
      return 0;
    });
  }
}

// Work goes on when somebody waits alone: a free that waited would show.
TEST_F(Failures, AFreeWaitsForNoDevice) {
  for (const bool plain : {false, true}) {
    InAChild([&] {
      Fake()->set_capability(FakeCapability::kVirtualMemory, !plain);
      Fake()->set_paused(true);
      void* blocks[2] = {};
      EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &blocks[0]), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 3 * kMiB, &blocks[1]), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(Fake()->holdings().operations, 4u) << "two zeroings, two events";
      EXPECT_EQ(weft_mem_free(blocks[0]), WEFT_SUCCESS);
      EXPECT_EQ(weft_mem_free_on(blocks[1], nullptr), WEFT_SUCCESS) << weft_last_error();
      EXPECT_GE(Fake()->holdings().operations, 4u);
      Fake()->set_paused(false);
      ExpectNothingLeft(plain ? "plain: " : "mapped: ");
      return 0;
    });
  }
}

TEST_F(Failures, AStreamInCaptureIsRefused) {
  InAChild([&] {
    void* block = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &block), WEFT_SUCCESS) << weft_last_error();
    (void)Holdings();
    const Cuda& cuda = TheCuda();
    cuda::Context context = nullptr;
    EXPECT_EQ(cuda.DevicePrimaryCtxRetain(&context, 0), 0);
    EXPECT_EQ(cuda.CtxPushCurrent(context), 0);
    // The legacy stream is not captured itself, but those that wait for it are.
    cuda::Stream stream = nullptr;
    EXPECT_EQ(cuda.StreamCreate(&stream, 0), 0);
    Fake()->set_capturing(stream, true);
    for (const cuda::Stream one : {stream, cuda::Stream{nullptr}}) {
      const weft_mem_config_t config = {.struct_size = sizeof(config),
                                        .bytes = 64,
                                        .device_kind = WEFT_DEVICE_CUDA,
                                        .stream = one};
      void* other = nullptr;
      EXPECT_EQ(weft_mem_alloc_on(&config, &other), WEFT_UNSUPPORTED) << weft_last_error();
      EXPECT_TRUE(Says("captured into a graph")) << weft_last_error();
      EXPECT_EQ(weft_mem_free_on(block, one), WEFT_UNSUPPORTED) << weft_last_error();
    }
    EXPECT_FALSE(Fake()->capture_is_spoiled());
    Fake()->set_capturing(stream, false);
    EXPECT_EQ(cuda.StreamDestroy(stream), 0);
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
    ExpectNothingLeft("capture: ");
    return 0;
  });
}

TEST_F(Failures, TheSpareChunkHelpsWhoLacksMemory) {
  InAChild([&] {
    Fake()->set_total_bytes(0, 8 * kMiB);
    void* block = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &block), WEFT_SUCCESS) << weft_last_error();
    (void)Holdings();
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
    EXPECT_EQ(Fake()->holdings().device_bytes, 2 * kMiB);
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 8 * kMiB, &block), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(Fake()->holdings().device_bytes, 8 * kMiB);
    void* other = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 2 * kMiB, &other), WEFT_OUT_OF_MEMORY);
    EXPECT_TRUE(Says("0 bytes of 8.0 MiB are free, and weft's blocks there have 8.0 MiB"))
        << weft_last_error();
    (void)Holdings();
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
    return 0;
  });
}

// A context takes hundreds of megabytes: pinning makes none where there is one.
TEST_F(Failures, PinningAsksThroughTheDeviceThatIsThere) {
  InAChild([&] {
    Fake()->set_device_count(3);
    const Cuda& cuda = TheCuda();
    cuda::Context context = nullptr;
    EXPECT_EQ(cuda.DevicePrimaryCtxRetain(&context, 2), 0);
    EXPECT_EQ(cuda.CtxPushCurrent(context), 0);
    void* block = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_HOST, 64, &block), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(Fake()->holdings().contexts, 1u);
    cuda::Context left = nullptr;
    EXPECT_EQ(cuda.CtxPopCurrent(&left), 0);
    void* other = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_HOST, 64, &other), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(Fake()->holdings().contexts, 1u);
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
    EXPECT_EQ(weft_mem_free(other), WEFT_SUCCESS);
    EXPECT_EQ(Fake()->holdings().host_registrations, 0u);
    return 0;
  });
}

TEST_F(Failures, NothingOpensTheDriverUnlessADeviceIsWanted) {
  InAChild([&] {
    void* block = nullptr;
    int local = 0;
    weft_mem_info_t info = {.struct_size = sizeof(info)};
    EXPECT_EQ(weft_mem_alloc(64, 0, &block), WEFT_SUCCESS);
    EXPECT_EQ(weft_mem_retain(block, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_mem_query(&local, &info), WEFT_SUCCESS);
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
    EXPECT_EQ(weft_mem_free_on(block, nullptr), WEFT_UNSUPPORTED);
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
    EXPECT_EQ(weft_mem_free(&local), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(Fake()->count_calls("cuInit"), 0u);
    return 0;
  });
}

TEST_F(Failures, WithoutADriverOneSentenceSaysSo) {
  InAChild([&] {
    setenv("WEFT_CUDA_LIBRARY", "/proc/none/libcuda.so", 1);
    void* block = nullptr;
    int32_t count = 7;
    weft_device_info_t info = {.struct_size = sizeof(info)};
    const std::string where =
        "CUDA devices cannot be used: CUDA's driver, /proc/none/libcuda.so, was looked for where "
        "WEFT_CUDA_LIBRARY says";
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &block), WEFT_UNSUPPORTED);
    EXPECT_TRUE(Says("weft_mem_alloc_on: " + where)) << weft_last_error();
    EXPECT_EQ(Alloc(WEFT_DEVICE_HOST, 64, &block), WEFT_UNSUPPORTED);
    EXPECT_TRUE(Says("weft_mem_alloc_on: " + where)) << weft_last_error();
    EXPECT_EQ(weft_device_count(WEFT_DEVICE_CUDA, &count), WEFT_UNSUPPORTED);
    EXPECT_TRUE(Says("weft_device_count: " + where)) << weft_last_error();
    EXPECT_EQ(count, 7);
    EXPECT_EQ(weft_device_info(WEFT_DEVICE_CUDA, 0, &info), WEFT_UNSUPPORTED);
    EXPECT_TRUE(Says("weft_device_info: " + where)) << weft_last_error();
    const std::vector<char> host(100, 1);
    EXPECT_EQ(weft_mem_alloc_copy(host.data(), host.size(), &block), WEFT_SUCCESS);
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
    return 0;
  });
}

}  // namespace
}  // namespace weft::test
