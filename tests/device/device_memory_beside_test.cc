// weft's memory on devices beside what else the program does: it forks, pins pages of its own, drops tensors of other frameworks.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "weft/weft.h"

#include "tests/device/failures_fixture.h"

namespace weft::test {
namespace {

constexpr size_t kOwnBytes = 16384;

class Beside : public Failures {};

// Four pages of the program's own.
char* OwnPages() {
  void* const pages =
      mmap(nullptr, kOwnBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(pages, MAP_FAILED);
  std::memset(pages, 5, kOwnBytes);
  return static_cast<char*>(pages);
}

void ExpectHostMemoryWorks() {
  void* block = nullptr;
  EXPECT_EQ(weft_mem_alloc(64, 0, &block), WEFT_SUCCESS) << weft_last_error();
  weft_mem_info_t info = {.struct_size = sizeof(info)};
  EXPECT_EQ(weft_mem_query(block, &info), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(info.kind, WEFT_MEM_SYMMETRIC);
  EXPECT_EQ(weft_mem_retain(block, nullptr), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_mem_free_on(block, nullptr), WEFT_UNSUPPORTED);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << weft_last_error();
  char* const own = OwnPages();
  EXPECT_EQ(weft_mem_alloc_copy(own, kOwnBytes, &block), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(std::memcmp(block, own, kOwnBytes), 0);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_mem_register(own, kOwnBytes, 0), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_mem_deregister(own), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(munmap(own, kOwnBytes), 0);
}

// Its parent has used devices, and no memory of the host's.
TEST_F(Beside, AForkedChildHasHostMemoryOfItsOwn) {
  InAChild([&] {
    void* block = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &block), WEFT_SUCCESS) << weft_last_error();
    InAChild([&] {
      ExpectHostMemoryWorks();
      weft_mem_info_t info = {.struct_size = sizeof(info)};
      void* copy = nullptr;
      EXPECT_EQ(weft_mem_query(block, &info), WEFT_FORKED);
      EXPECT_EQ(weft_mem_retain(block, nullptr), WEFT_FORKED);
      EXPECT_EQ(weft_mem_free(block), WEFT_FORKED);
      EXPECT_EQ(weft_mem_free_on(block, nullptr), WEFT_FORKED);
      EXPECT_EQ(weft_mem_alloc_copy(block, 64, &copy), WEFT_FORKED) << "the host cannot read it";
      return 0;
    });
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << weft_last_error();
    return 0;
  });
  InAChild([&] {
    int32_t count = 0;
    EXPECT_EQ(weft_device_count(WEFT_DEVICE_CUDA, &count), WEFT_SUCCESS) << weft_last_error();
    InAChild([&] {
      EXPECT_EQ(weft_device_count(WEFT_DEVICE_CUDA, &count), WEFT_FORKED);
      ExpectHostMemoryWorks();
      return 0;
    });
    return 0;
  });
}

// A thread of the parent opens the driver again and again, as it is not there.
TEST_F(Beside, AChildForkedWhileTheDriverIsOpenedDoesNotWaitForIt) {
  InAChild([&] {
    setenv("WEFT_CUDA_LIBRARY", "/proc/none/libcuda.so", 1);
    std::atomic<bool> stop = false;
    std::thread opener([&] {
      int32_t count = 0;
      while (!stop)
        EXPECT_EQ(weft_device_count(WEFT_DEVICE_CUDA, &count), WEFT_UNSUPPORTED);
    });
    for (int i = 0; i < 30; ++i) {
      InAChild([&] {
        int32_t count = 0;
        const weft_result_t result = weft_device_count(WEFT_DEVICE_CUDA, &count);
        EXPECT_TRUE(result == WEFT_UNSUPPORTED || result == WEFT_FORKED) << weft_last_error();
        return 0;
      });
    }
    stop = true;
    opener.join();
    return 0;
  });
}

TEST_F(Beside, PagesThatCudaHasPinnedDoNotMove) {
  InAChild([&] {
    void* block = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &block), WEFT_SUCCESS) << weft_last_error();
    (void)Holdings();  // makes the context current
    cuda::Context context = nullptr;
    EXPECT_EQ(TheCuda().DevicePrimaryCtxRetain(&context, 0), 0);
    EXPECT_EQ(TheCuda().CtxPushCurrent(context), 0);
    char* const own = OwnPages();
    EXPECT_EQ(TheCuda().MemHostRegister(own + 8192, 4096, 0), 0);
    EXPECT_EQ(weft_mem_register(own, kOwnBytes, 0), WEFT_UNSUPPORTED);
    EXPECT_TRUE(Says("byte 8192 of it: CUDA has pinned it")) << weft_last_error();
    EXPECT_EQ(TheCuda().MemHostUnregister(own + 8192), 0);
    EXPECT_EQ(TheCuda().MemHostRegister(own + kOwnBytes - 100, 100, 0), 0);
    EXPECT_EQ(weft_mem_register(own, kOwnBytes, 0), WEFT_UNSUPPORTED);
    EXPECT_EQ(TheCuda().MemHostUnregister(own + kOwnBytes - 100), 0);
    EXPECT_EQ(weft_mem_register(own, kOwnBytes, 0), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_mem_deregister(own), WEFT_SUCCESS);
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
    return 0;
  });
}

TEST_F(Beside, ADriverThatCannotBeAskedLeavesHostMemory) {
  for (const int32_t code : {cuda::kInvalidContext, cuda::kDeinitialized, kUnknown}) {
    InAChild([&] {
      void* block = nullptr;
      EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &block), WEFT_SUCCESS) << weft_last_error();
      char* const own = OwnPages();
      void* copy = nullptr;
      Fake()->fail_call("cuPointerGetAttribute", 1, code);
      EXPECT_EQ(weft_mem_alloc_copy(own, kOwnBytes, &copy), WEFT_SUCCESS) << weft_last_error();
      EXPECT_STREQ(Fake()->failed_function(), "cuPointerGetAttribute");
      EXPECT_EQ(std::memcmp(copy, own, kOwnBytes), 0);
      EXPECT_EQ(weft_mem_free(copy), WEFT_SUCCESS);
      Fake()->fail_call("cuPointerGetAttribute", 1, code);
      EXPECT_EQ(weft_mem_register(own, kOwnBytes, 0), WEFT_SUCCESS) << weft_last_error();
      EXPECT_STREQ(Fake()->failed_function(), "cuPointerGetAttribute");
      EXPECT_EQ(weft_mem_deregister(own), WEFT_SUCCESS);
      Fake()->fail_call("cuPointerGetAttribute", 1, code);
      EXPECT_EQ(weft_mem_alloc_copy(block, 64, &copy), WEFT_DEVICE_ERROR) << "the device's";
      EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
      return 0;
    });
  }
}

// A tensor of 64 bytes, with its deleter by the specification's offsets; the block is the tensor's alone.
struct Dropped {
  DLManagedTensorVersioned* managed = nullptr;

  explicit Dropped(void* block) {
    const int64_t bytes = 64;
    const weft_tensor_t tensor = {.struct_size = sizeof(tensor),
                                  .data = block,
                                  .shape = &bytes,
                                  .ndim = 1,
                                  .dtype = WEFT_UINT8};
    EXPECT_EQ(weft_mem_dlpack(&tensor, &managed), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << weft_last_error();
  }

  void Drop() const {
    void (*deleter)(DLManagedTensorVersioned*) = nullptr;
    std::memcpy(&deleter, reinterpret_cast<const char*>(managed) + 16, sizeof(deleter));
    deleter(managed);
  }
};

TEST_F(Beside, ADroppedTensorsBlockStaysUntilItCanBeFreedBehindWork) {
  for (const weft_device_kind_t kind : {WEFT_DEVICE_CUDA, WEFT_DEVICE_HOST}) {
    InAChild([&] {
      void* block = nullptr;
      void* other = nullptr;
      EXPECT_EQ(Alloc(kind, 64, &block), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(Alloc(kind, 64, &other), WEFT_SUCCESS) << weft_last_error();
      const Dropped tensor(block);
      Fake()->fail_call("cuEventRecord", 1, kUnknown);
      tensor.Drop();
      EXPECT_STREQ(Fake()->failed_function(), "cuEventRecord");
      EXPECT_EQ(KindOf(block), WEFT_MEM_SYMMETRIC) << "work may be queued that uses it";
      const Dropped next(other);
      EXPECT_EQ(KindOf(block), WEFT_MEM_PRIVATE);
      next.Drop();
      EXPECT_EQ(KindOf(other), WEFT_MEM_PRIVATE);
      return 0;
    });
  }
}

// The thread has no current context when the tensor is dropped.
TEST_F(Beside, ADroppedPinnedTensorsPagesStayBehindTheLegacyStream) {
  InAChild([&] {
    void* block = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_HOST, 64, &block), WEFT_SUCCESS) << weft_last_error();
    const Dropped tensor(block);
    const Cuda& cuda = TheCuda();
    cuda::Context context = nullptr;
    EXPECT_EQ(cuda.DevicePrimaryCtxRetain(&context, 0), 0);
    EXPECT_EQ(cuda.CtxPushCurrent(context), 0);
    Fake()->set_paused(true);
    EXPECT_EQ(cuda.MemsetD8Async(AddressOf(block), 1, 64, nullptr), 0);
    cuda::Context left = nullptr;
    EXPECT_EQ(cuda.CtxPopCurrent(&left), 0);
    tensor.Drop();
    EXPECT_EQ(KindOf(block), WEFT_MEM_PRIVATE);
    EXPECT_EQ(Fake()->holdings().host_registrations, 1U);
    EXPECT_EQ(Fake()->holdings().operations, 2U) << "nobody waited";
    Fake()->set_paused(false);
    EXPECT_EQ(cuda.CtxPushCurrent(context), 0);
    EXPECT_EQ(cuda.CtxSynchronize(), 0);
    EXPECT_EQ(Alloc(WEFT_DEVICE_HOST, 64, &block), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(Fake()->holdings().host_registrations, 0U);
    return 0;
  });
}

// In CUDA's default mode calls of other threads spoil a capture, too.
TEST_F(Beside, ACaptureIsNotSpoiled) {
  InAChild([&] {
    void* first = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &first), WEFT_SUCCESS) << weft_last_error();
    const Cuda& cuda = TheCuda();
    cuda::Context context = nullptr;
    EXPECT_EQ(cuda.DevicePrimaryCtxRetain(&context, 0), 0);
    EXPECT_EQ(cuda.CtxPushCurrent(context), 0);
    cuda::Stream captured = nullptr;
    EXPECT_EQ(cuda.StreamCreate(&captured, cuda::kStreamNonBlocking), 0);
    Fake()->set_capturing(captured, true);
    char* const own = OwnPages();
    std::thread([&] {
      void* block = nullptr;
      void* copy = nullptr;
      for (const size_t bytes : {size_t{64}, 3 * kMiB}) {
        EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, bytes, &block), WEFT_SUCCESS) << weft_last_error();
        EXPECT_EQ(weft_mem_free_on(block, nullptr), WEFT_SUCCESS) << weft_last_error();
      }
      EXPECT_EQ(Alloc(WEFT_DEVICE_HOST, 64, &block), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(weft_mem_alloc_copy(first, 64, &copy), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(weft_mem_free(copy), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(weft_mem_register(own, kOwnBytes, 0), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(weft_mem_deregister(own), WEFT_SUCCESS) << weft_last_error();
    }).join();
    EXPECT_EQ(weft_mem_free(first), WEFT_SUCCESS) << weft_last_error();
    EXPECT_FALSE(Fake()->capture_is_spoiled());
    // The thread's own mode is as before.
    EXPECT_EQ(cuda.CtxSynchronize(), cuda::kCaptureUnsupported);
    EXPECT_TRUE(Fake()->capture_is_spoiled());
    Fake()->set_capturing(captured, false);
    EXPECT_EQ(cuda.CtxSynchronize(), 0);
    return 0;
  });
}

TEST_F(Beside, AStreamOfAnotherDeviceIsRefusedBeforeAnythingIsEnqueued) {
  InAChild([&] {
    Fake()->set_device_count(2);
    const Cuda& cuda = TheCuda();
    cuda::Context context = nullptr;
    EXPECT_EQ(cuda.DevicePrimaryCtxRetain(&context, 1), 0);
    EXPECT_EQ(cuda.CtxPushCurrent(context), 0);
    cuda::Stream other = nullptr;
    EXPECT_EQ(cuda.StreamCreate(&other, cuda::kStreamNonBlocking), 0);
    const weft_mem_config_t config = {.struct_size = sizeof(config),
                                      .bytes = 64,
                                      .device_kind = WEFT_DEVICE_CUDA,
                                      .stream = other};
    void* block = nullptr;
    EXPECT_EQ(weft_mem_alloc_on(&config, &block), WEFT_INVALID_ARGUMENT);
    EXPECT_TRUE(Says("the stream is of another device")) << weft_last_error();
    EXPECT_EQ(Fake()->count_calls("cuMemsetD8Async"), 0U);
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &block), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_mem_free_on(block, other), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
    return 0;
  });
}

TEST_F(Beside, WhatFillsABlockAndCannotBeFollowedKeepsIt) {
  InAChild([&] {
    void* first = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 3 * kMiB, &first), WEFT_SUCCESS) << weft_last_error();
    Fake()->set_paused(true);
    weft_log_set_level(WEFT_LOG_ERROR);
    Fake()->fail_call("cuEventRecord", 1, kUnknown);
    void* block = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 3 * kMiB, &block), WEFT_DEVICE_ERROR);
    EXPECT_EQ(Fake()->count_calls("cuStreamSynchronize"), 0U) << "it waited";
    EXPECT_EQ(Fake()->holdings().mappings, 2U);
    Fake()->set_paused(false);
    (void)Holdings();
    EXPECT_EQ(weft_mem_free(first), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(Fake()->holdings().mappings, 1U);
    return 0;
  });
}

TEST_F(Beside, MappedMemoryIsForAllDevicesThatReachIt) {
  InAChild([&] {
    Fake()->set_device_count(2);
    void* block = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &block), WEFT_SUCCESS) << weft_last_error();
    (void)Holdings();
    const Cuda& cuda = TheCuda();
    cuda::Context context = nullptr;
    EXPECT_EQ(cuda.DevicePrimaryCtxRetain(&context, 1), 0);
    EXPECT_EQ(cuda.CtxPushCurrent(context), 0);
    EXPECT_EQ(cuda.MemsetD8Async(AddressOf(block), 7, 64, nullptr), 0);
    EXPECT_EQ(cuda.CtxSynchronize(), 0);
    char read[64] = {};
    EXPECT_TRUE(Fake()->peek(read, AddressOf(block), sizeof(read)));
    EXPECT_EQ(read[63], 7);
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
    return 0;
  });
}

// CUDA would wait for the device.
TEST_F(Beside, AnAllocationGivesPlainMemoryBackWhenItIsMuchOrLacks) {
  InAChild([&] {
    Fake()->set_capability(FakeCapability::kVirtualMemory, false);
    Fake()->set_total_bytes(0, 64 * kMiB);
    void* large = nullptr;
    void* small = nullptr;
    void* block = nullptr;
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 40 * kMiB, &large), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 8 * kMiB, &small), WEFT_SUCCESS) << weft_last_error();
    (void)Holdings();
    EXPECT_EQ(weft_mem_free(small), WEFT_SUCCESS);
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &block), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(Fake()->count_calls("cuMemFree"), 0U) << "8 of 40 MiB";
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 20 * kMiB, &small), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(Fake()->count_calls("cuMemFree"), 1U) << "it lacked memory";
    (void)Holdings();
    EXPECT_EQ(weft_mem_free(small), WEFT_SUCCESS);
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
    EXPECT_EQ(Alloc(WEFT_DEVICE_CUDA, 64, &block), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(Fake()->count_calls("cuMemFree"), 2U) << "20 of 40 MiB";
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
    EXPECT_EQ(weft_mem_free(large), WEFT_SUCCESS);
    return 0;
  });
}

}  // namespace
}  // namespace weft::test
