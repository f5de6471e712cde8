// Memory that devices reach and weft does not allocate on them: pinned, registered, copied; and tensors of all of it. Part of
// device_memory_test.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/device/device_fixture.h"

namespace weft::test {
namespace {

class Kinds : public MemoryFixture {};

TEST_F(Kinds, PinnedMemoryIsTheHostsAndDevicesReachIt) {
  const size_t bytes = 5 * kMiB + 4096;
  auto* const block = static_cast<unsigned char*>(AllocPinned(bytes));
  weft_mem_info_t info = Query(block + bytes - 1);
  EXPECT_TRUE(info.kind == WEFT_MEM_SYMMETRIC || info.kind == WEFT_MEM_PRIVATE) << info.kind;
  EXPECT_EQ(info.device_kind, WEFT_DEVICE_HOST);
  EXPECT_EQ(info.device, 0);
  EXPECT_EQ(info.references, 1);
  EXPECT_EQ(info.base, block);
  EXPECT_EQ(info.bytes, bytes);
  EXPECT_EQ(info.flags, WEFT_MEM_PINNED);
  EXPECT_TRUE(std::all_of(block, block + bytes, [](unsigned char b) { return b == 0; }));
  uint32_t type = 0;
  EXPECT_EQ(cuda_.PointerGetAttribute(&type, cuda::PointerAttribute::kMemoryType, AddressOf(block)),
            0);
  EXPECT_EQ(type, cuda::kMemoryTypeHost);
  void* const device = Alloc(bytes, stream_);
  std::memset(block, 0x31, bytes);
  EXPECT_EQ(cuda_.MemcpyAsync(AddressOf(device), AddressOf(block), bytes, stream_), 0);
  EXPECT_TRUE(AllAre(Read(device, bytes), 0x31));
  EXPECT_EQ(cuda_.MemsetD8Async(AddressOf(block), 0x32, bytes, stream_), 0);
  EXPECT_EQ(cuda_.StreamSynchronize(stream_), 0);
  EXPECT_TRUE(std::all_of(block, block + bytes, [](unsigned char b) { return b == 0x32; }));

  EXPECT_EQ(weft_mem_retain(block + 4096, nullptr), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(Query(block).references, 2);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  EXPECT_EQ(Query(block).references, 1);
  block[bytes - 1] = 0;
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_mem_free(block), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(cuda_.PointerGetAttribute(&type, cuda::PointerAttribute::kMemoryType, AddressOf(block)),
            cuda::kInvalidValue)
      << "CUDA has let go of it";
  EXPECT_EQ(weft_mem_free(device), WEFT_SUCCESS);
  ExpectNothingHeld();
}

TEST_F(Kinds, PinnedMemoryFreedOnAStreamStaysPinnedUntilThen) {
  void* const word = AllocPinned(64);
  HeldStream held(cuda_, word);
  void* const block = AllocPinned(8192);
  EXPECT_EQ(cuda_.MemsetD8Async(AddressOf(block), 1, 8192, held.get()), 0);
  EXPECT_EQ(weft_mem_free_on(block, held.get()), WEFT_SUCCESS) << weft_last_error();
  void* const other = AllocPinned(8192);
  EXPECT_NE(other, block);
  uint32_t type = 0;
  EXPECT_EQ(cuda_.PointerGetAttribute(&type, cuda::PointerAttribute::kMemoryType, AddressOf(block)),
            0);
  held.LetGo();
  EXPECT_EQ(weft_mem_free(other), WEFT_SUCCESS);
  EXPECT_EQ(cuda_.PointerGetAttribute(&type, cuda::PointerAttribute::kMemoryType, AddressOf(block)),
            cuda::kInvalidValue);
  EXPECT_EQ(weft_mem_free(word), WEFT_SUCCESS);
}

TEST_F(Kinds, OfTheProgramsOwnIsRegisteredInPlace) {
  cuda::DevicePointer own = 0;
  ASSERT_EQ(cuda_.MemAlloc(&own, kMiB), 0);
  auto* const memory = reinterpret_cast<char*>(own);
  EXPECT_EQ(Query(memory).kind, WEFT_MEM_PRIVATE);
  EXPECT_EQ(Query(memory).device_kind, WEFT_DEVICE_HOST) << "weft has not seen it";
  ASSERT_EQ(weft_mem_register(memory + 3, 5'000, 0), WEFT_SUCCESS) << weft_last_error();
  const weft_mem_info_t info = Query(memory + 5'002);
  EXPECT_EQ(info.kind, WEFT_MEM_REGISTERED);
  EXPECT_EQ(info.device_kind, WEFT_DEVICE_CUDA);
  EXPECT_EQ(info.device, 0);
  EXPECT_EQ(info.references, 0);
  EXPECT_EQ(info.base, memory + 3);
  EXPECT_EQ(info.bytes, 5'000u);
  EXPECT_EQ(Query(memory + 5'003).kind, WEFT_MEM_PRIVATE);
  EXPECT_EQ(weft_mem_retain(memory + 3, nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_mem_free(memory + 3), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_mem_register(memory, 4, 0), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(Says("registered already")) << weft_last_error();
  EXPECT_EQ(weft_mem_register(memory, 3, 0), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_mem_deregister(memory), WEFT_SUCCESS);
  EXPECT_EQ(weft_mem_deregister(memory + 4), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_mem_deregister(memory + 3), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(Query(memory + 3).kind, WEFT_MEM_PRIVATE);
  EXPECT_EQ(weft_mem_register(memory, SIZE_MAX, 0), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_mem_register(memory, size_t{1} << 50, 0), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(Says("ends after")) << weft_last_error();
  EXPECT_EQ(cuda_.MemFree(own), 0);

  void* const block = Alloc(64);
  EXPECT_EQ(weft_mem_register(block, 64, 0), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(Says("weft's own")) << weft_last_error();
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  void* pinned = nullptr;
  ASSERT_EQ(cuda_.MemHostAlloc(&pinned, 8192, cuda::kHostAllocPortable), 0);
  EXPECT_EQ(weft_mem_register(pinned, 4096, 0), WEFT_UNSUPPORTED);
  EXPECT_TRUE(Says("pinned")) << weft_last_error();
  EXPECT_EQ(cuda_.MemFreeHost(pinned), 0);
}

TEST_F(Kinds, ACopyIsWhereItsSourceIs) {
  cuda::DevicePointer own = 0;
  ASSERT_EQ(cuda_.MemAlloc(&own, kMiB), 0);
  ASSERT_EQ(cuda_.MemsetD8Async(own, 0x44, kMiB, stream_), 0);
  ASSERT_EQ(cuda_.StreamSynchronize(stream_), 0);
  void* view = nullptr;
  ASSERT_EQ(weft_mem_alloc_copy(reinterpret_cast<char*>(own) + 100, 9'000, &view), WEFT_SUCCESS)
      << weft_last_error();
  EXPECT_EQ(Query(view).device_kind, WEFT_DEVICE_CUDA);
  EXPECT_TRUE(AllAre(Read(view, 9'000), 0x44));
  EXPECT_EQ(weft_mem_free(view), WEFT_SUCCESS);
  EXPECT_EQ(cuda_.MemFree(own), 0);
  const std::vector<char> host(9'000, 3);
  ASSERT_EQ(weft_mem_alloc_copy(host.data(), host.size(), &view), WEFT_SUCCESS);
  EXPECT_EQ(Query(view).device_kind, WEFT_DEVICE_HOST);
  EXPECT_EQ(std::memcmp(view, host.data(), host.size()), 0);
  EXPECT_EQ(weft_mem_free(view), WEFT_SUCCESS);
  ExpectNothingHeld();
}

// By the specification's offsets: device_type and device_id.
TEST_F(Kinds, TensorsSayTheirDevice) {
  struct Case {
    void* block;
    int32_t type;
  };

  for (const Case& one : {Case{Alloc(4096), 2}, Case{AllocPinned(4096), 3}}) {
    const int64_t shape[] = {8, 16};
    const weft_tensor_t tensor = {.struct_size = sizeof(tensor),
                                  .data = one.block,
                                  .shape = shape,
                                  .ndim = 2,
                                  .dtype = WEFT_FLOAT32};
    DLManagedTensorVersioned* managed = nullptr;
    ASSERT_EQ(weft_mem_dlpack(&tensor, &managed), WEFT_SUCCESS) << weft_last_error();
    const auto* const bytes = reinterpret_cast<const char*>(managed);
    int32_t device[2] = {};
    std::memcpy(device, bytes + 40, sizeof(device));
    EXPECT_EQ(device[0], one.type);
    EXPECT_EQ(device[1], 0);
    EXPECT_EQ(Query(one.block).references, 2);
    EXPECT_EQ(weft_mem_free(one.block), WEFT_SUCCESS);
    EXPECT_EQ(Query(one.block).references, 1);
    void (*deleter)(DLManagedTensorVersioned*) = nullptr;
    std::memcpy(&deleter, bytes + 16, sizeof(deleter));
    deleter(managed);
    EXPECT_EQ(Query(one.block).kind, WEFT_MEM_PRIVATE);
  }
  const int64_t many = kMiB;
  void* const block = Alloc(4096);
  const weft_tensor_t tensor = {.struct_size = sizeof(tensor),
                                .data = block,
                                .shape = &many,
                                .ndim = 1,
                                .dtype = WEFT_FLOAT32};
  DLManagedTensorVersioned* managed = nullptr;
  EXPECT_EQ(weft_mem_dlpack(&tensor, &managed), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(Query(block).references, 1);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  ExpectNothingHeld();
}

}  // namespace
}  // namespace weft::test
