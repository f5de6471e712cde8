// What tests of device memory begin with: device 0 through the C interface, its context current, a stream, and copies from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/device/driver_calls.h"

namespace weft::test {

inline cuda::DevicePointer AddressOf(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

inline constexpr size_t kMiB = size_t{1} << 20;

inline bool AllAre(const std::vector<unsigned char>& bytes, unsigned char value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](unsigned char b) { return b == value; });
}

inline bool Says(const std::string& needle) {
  return std::string(weft_last_error()).find(needle) != std::string::npos;
}

class DeviceFixture : public ::testing::Test {
 protected:
  // Where the driver is the fake one.
  static const Cuda& CudaOfTwoDevices() {
    static const bool set = [] {
      if (const FakeDriver* const fake = UseFakeDriver()) fake->set_device_count(2);
      return true;
    }();
    (void)set;
    return TheCuda();
  }

  void SetUp() override {
    if (!cuda_.why.empty()) GTEST_SKIP() << "no CUDA driver: " << cuda_.why;
    ASSERT_EQ(cuda_.DeviceGet(&handle_, 0), 0);
    ASSERT_EQ(cuda_.DevicePrimaryCtxRetain(&context_, handle_), 0);
    ASSERT_EQ(cuda_.CtxPushCurrent(context_), 0);
    ASSERT_EQ(cuda_.StreamCreate(&stream_, cuda::kStreamNonBlocking), 0);
  }

  void TearDown() override {
    if (context_ == nullptr) return;
    EXPECT_EQ(cuda_.CtxSynchronize(), 0);
    EXPECT_EQ(cuda_.StreamDestroy(stream_), 0);
    cuda::Context left = nullptr;
    EXPECT_EQ(cuda_.CtxPopCurrent(&left), 0);
    EXPECT_EQ(left, context_) << "a call has left another context";
    EXPECT_EQ(cuda_.DevicePrimaryCtxRelease(handle_), 0);
  }

  static weft_mem_config_t Config(size_t bytes, cuda::Stream stream = nullptr) {
    return {.struct_size = sizeof(weft_mem_config_t),
            .bytes = bytes,
            .device_kind = WEFT_DEVICE_CUDA,
            .stream = stream};
  }

  static void* Alloc(size_t bytes, cuda::Stream stream = nullptr) {
    const weft_mem_config_t config = Config(bytes, stream);
    void* block = nullptr;
    EXPECT_EQ(weft_mem_alloc_on(&config, &block), WEFT_SUCCESS) << weft_last_error();
    return block;
  }

  static void* AllocPinned(size_t bytes) {
    const weft_mem_config_t config = {
        .struct_size = sizeof(config), .bytes = bytes, .flags = WEFT_MEM_PINNED};
    void* block = nullptr;
    EXPECT_EQ(weft_mem_alloc_on(&config, &block), WEFT_SUCCESS) << weft_last_error();
    return block;
  }

  static weft_mem_info_t Query(const void* pointer) {
    weft_mem_info_t info = {.struct_size = sizeof(info)};
    EXPECT_EQ(weft_mem_query(pointer, &info), WEFT_SUCCESS) << weft_last_error();
    return info;
  }

  // What `bytes` bytes of a device are when all that was enqueued has ended.
  std::vector<unsigned char> Read(const void* memory, size_t bytes) const {
    std::vector<unsigned char> read(bytes, 0xee);
    EXPECT_EQ(cuda_.CtxSynchronize(), 0);
    EXPECT_EQ(cuda_.MemcpyAsync(AddressOf(read.data()), AddressOf(memory), bytes, stream_), 0);
    EXPECT_EQ(cuda_.StreamSynchronize(stream_), 0);
    return read;
  }

  size_t FreeBytes() const {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    EXPECT_EQ(cuda_.MemGetInfo(&free_bytes, &total_bytes), 0);
    return free_bytes;
  }

  const Cuda& cuda_ = CudaOfTwoDevices();
  cuda::DeviceHandle handle_ = 0;
  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
};

// Weft's memory on device 0, all of which is back in the end.
class MemoryFixture : public DeviceFixture {
 protected:
  // Freed memory that is kept (a spare chunk) is there from now on.
  void SetUp() override {
    DeviceFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    EXPECT_EQ(weft_mem_free(Alloc(64)), WEFT_SUCCESS);
    EXPECT_EQ(cuda_.CtxSynchronize(), 0);
    free_bytes_ = FreeBytes();
  }

  // All is back, in this call at the latest.
  void ExpectNothingHeld() {
    EXPECT_EQ(cuda_.CtxSynchronize(), 0);
    EXPECT_EQ(weft_mem_free(Alloc(64)), WEFT_SUCCESS);
    EXPECT_EQ(cuda_.CtxSynchronize(), 0);
    EXPECT_EQ(weft_mem_free(Alloc(64)), WEFT_SUCCESS);
    EXPECT_GE(FreeBytes(), free_bytes_);
  }

  size_t free_bytes_ = 0;
};

// A stream that does nothing until it is let go: what is enqueued in it waits for a word of the host's.
class HeldStream {
 public:
  HeldStream(const Cuda& cuda, void* pinned) : cuda_(cuda), word_(static_cast<uint32_t*>(pinned)) {
    EXPECT_EQ(cuda_.StreamCreate(&stream_, cuda::kStreamNonBlocking), 0);
    EXPECT_EQ(cuda_.StreamWaitValue32(stream_, AddressOf(word_), 1, cuda::kWaitGreaterOrEqual), 0);
  }

  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  ~HeldStream() {
    LetGo();
    EXPECT_EQ(cuda_.StreamDestroy(stream_), 0);
  }

  cuda::Stream get() const { return stream_; }

  // The word may be freed then.
  void LetGo() {
    if (!std::exchange(held_, false)) return;
    __atomic_store_n(word_, 1u, __ATOMIC_RELEASE);
    EXPECT_EQ(cuda_.StreamSynchronize(stream_), 0);
  }

 private:
  const Cuda& cuda_;
  uint32_t* const word_;
  bool held_ = true;
  cuda::Stream stream_ = nullptr;
};

}  // namespace weft::test
