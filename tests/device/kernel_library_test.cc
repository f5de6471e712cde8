// comm/device/kernel_library over the fake driver, whose kernels are twins, and the images of the real libweft_cuda.so.
#include "comm/device/kernel_library.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "comm/device/driver/stream.h"
#include "comm/device/element/copy.h"
#include "comm/device/kernel_choice.h"
#include "tests/device/fake_driver/fake_driver.h"

namespace weft::test::kernel_library_test {
namespace {

class KernelLibraryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(fake_, nullptr);
    fake_->reset();
    const absl::StatusOr<const Device*> device = OpenDevice(0);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
  }

  uint64_t loads() const { return fake_->count_calls("cuModuleLoadData"); }

  const FakeDriver* fake_ = UseFakeDriver();
  const Device* device_ = nullptr;
};

bool Has(const absl::Status& status, std::string_view words) {
  return FromAbsl(status.message()).find(words) != std::string_view::npos;
}

TEST_F(KernelLibraryTest, LoadsAnImageWhenTheFirstOfItsKernelsIsWanted) {
  KernelLibrary library(*device_);
  EXPECT_EQ(loads(), 0u);
  const KernelChoice two = ChooseReduce(WEFT_BFLOAT16, WEFT_SUM, 2);
  const KernelChoice eight = ChooseReduce(WEFT_BFLOAT16, WEFT_SUM, 8);
  const absl::StatusOr<DeviceKernel> found = library.Find(two.image, two.name);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_STREQ(found->name, "weft_reduce_bfloat16_sum_2");
  ASSERT_TRUE(library.Find(eight.image, eight.name).ok());
  EXPECT_EQ(loads(), 1u);
  const absl::StatusOr<DeviceKernel> again = library.Find(two.image, two.name);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->function, found->function);
  ASSERT_TRUE(library.Find("copy", "weft_fill").ok());
  EXPECT_EQ(loads(), 2u);
  EXPECT_EQ(fake_->count_calls("cuModuleGetFunction"), 3u);
}

TEST_F(KernelLibraryTest, WhatIsMissingIsASentence) {
  KernelLibrary library(*device_);
  const absl::Status kernel = library.Find("copy", "weft_no_such_kernel").status();
  EXPECT_EQ(ResultOf(kernel), WEFT_UNSUPPORTED);
  EXPECT_EQ(FieldsOf(kernel).device, 0);
  EXPECT_TRUE(Has(kernel,
                  "the image copy of libweft_cuda.so has no kernel weft_no_such_kernel; is it of "
                  "another build"))
      << kernel;
  const absl::Status image = library.Find("no_such_image", "weft_fill").status();
  EXPECT_EQ(ResultOf(image), WEFT_UNSUPPORTED);
  EXPECT_TRUE(Has(image, "libweft_cuda.so has no image no_such_image among its 14")) << image;
}

TEST_F(KernelLibraryTest, AFailureIsToldAndNotKept) {
  KernelLibrary library(*device_);
  for (const char* const call : {"cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute",
                                 "cuOccupancyMaxActiveBlocksPerMultiprocessor"}) {
    fake_->fail_call(call, 1, cuda::kOutOfMemory);
    const absl::Status status = library.Find("copy", "weft_fill").status();
    EXPECT_EQ(ResultOf(status), WEFT_OUT_OF_MEMORY) << call;
    EXPECT_TRUE(Has(status, call)) << status;
  }
  fake_->fail_call("cuModuleLoadData", 1, cuda::kNoBinaryForGpu);
  const absl::Status status = library.Find("squares", "weft_squares_float32").status();
  EXPECT_EQ(ResultOf(status), WEFT_UNSUPPORTED);
  EXPECT_TRUE(Has(status, "the image squares of libweft_cuda.so for compute capability")) << status;
  ASSERT_TRUE(library.Find("copy", "weft_fill").ok());
  ASSERT_TRUE(library.Find("squares", "weft_squares_float32").ok());
}

TEST_F(KernelLibraryTest, LaunchesWithoutAContextOfTheThread) {
  KernelLibrary library(*device_);
  absl::StatusOr<DeviceStream> stream = DeviceStream::Create(*device_);
  ASSERT_TRUE(stream.ok());
  constexpr uint64_t kBytes = 100000;
  cuda::DevicePointer memory = 0;
  {
    const absl::StatusOr<ContextScope> scope = ContextScope::Enter(*device_);
    ASSERT_TRUE(scope.ok());
    ASSERT_EQ(device_->driver->MemAlloc(&memory, kBytes), cuda::kSuccess);
  }
  const absl::StatusOr<DeviceKernel> kernel = library.Find("copy", "weft_fill");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  device::FillParameters parameters = {};
  parameters.destination = reinterpret_cast<void*>(memory);
  for (size_t i = 0; i < sizeof(parameters.pattern); ++i)
    parameters.pattern[i] = static_cast<uint8_t>(17 * i + 1);
  parameters.range = PacketsOf(parameters, kBytes);
  const LaunchShape shape = ShapeOf(*kernel, parameters.range.packets);
  ASSERT_TRUE(library.Launch(*kernel, &parameters, shape, stream->get()).ok());
  LaunchShape shared = shape;
  shared.shared_bytes = 200 << 10;
  ASSERT_TRUE(library.Launch(*kernel, &parameters, shared, stream->get()).ok());
  EXPECT_EQ(fake_->count_calls("cuFuncSetAttribute"), 1U) << "a launch is one call";
  parameters = {};  // it was copied
  ASSERT_TRUE(stream->Finish().ok());
  std::vector<uint8_t> filled(kBytes);
  ASSERT_TRUE(fake_->peek(filled.data(), memory, kBytes));
  for (size_t i = 0; i < kBytes; ++i)
    ASSERT_EQ(filled[i], static_cast<uint8_t>(17 * (i % 16) + 1)) << i;
  fake_->fail_call("cuLaunchKernel", 1, cuda::kInvalidValue);
  const absl::Status status = library.Launch(*kernel, &parameters, shape, stream->get());
  EXPECT_EQ(ResultOf(status), WEFT_DEVICE_ERROR);
  EXPECT_TRUE(Has(status, "weft_fill: cuLaunchKernel of ")) << status;
  const absl::StatusOr<ContextScope> scope = ContextScope::Enter(*device_);
  ASSERT_TRUE(scope.ok());
  EXPECT_EQ(device_->driver->MemFree(memory), cuda::kSuccess);
}

TEST(ShapeOf, HasAThreadForEachUnitAsFarAsBlocksRunAtOnce) {
  const DeviceKernel kernel = {.name = "", .blocks_max = 264};
  EXPECT_EQ(ShapeOf(kernel, 0).blocks, 1u);
  EXPECT_EQ(ShapeOf(kernel, 256).blocks, 1u);
  EXPECT_EQ(ShapeOf(kernel, 257).blocks, 2u);
  EXPECT_EQ(ShapeOf(kernel, ~uint64_t{0}).blocks, 264u);
  EXPECT_EQ(ShapeOf(kernel, 257).threads, kKernelThreads);
}

}  // namespace
}  // namespace weft::test::kernel_library_test
