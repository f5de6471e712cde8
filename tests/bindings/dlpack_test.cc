// Tensors for other frameworks: what they are told, and that a block lasts as long as they do.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"
#include "tests/bindings/shard_calls.h"

// Read as the specification lays it out, version 1: by offsets, so that the library's own struct is not what is compared.
struct DLManagedTensorVersioned {
  unsigned char bytes[80];
};

namespace weft::test::dlpack_test {
namespace {

template <typename T>
T At(const DLManagedTensorVersioned* managed, size_t offset) {
  T value;
  std::memcpy(&value, managed->bytes + offset, sizeof(value));
  return value;
}

using Deleter = void (*)(DLManagedTensorVersioned*);

constexpr size_t kMajor = 0, kMinor = 4, kDeleter = 16, kFlags = 24, kData = 32, kDeviceType = 40,
                 kDeviceId = 44, kNdim = 48, kCode = 52, kBits = 53, kLanes = 54, kShape = 56,
                 kStrides = 64, kByteOffset = 72;

void Delete(DLManagedTensorVersioned* managed) {
  At<Deleter>(managed, kDeleter)(managed);
}

void* Alloc(size_t bytes) {
  const weft_mem_config_t config = {.struct_size = sizeof(config), .bytes = bytes};
  void* block = nullptr;
  EXPECT_EQ(weft_mem_alloc_on(&config, &block), WEFT_SUCCESS) << weft_last_error();
  return block;
}

int References(const void* pointer) {
  weft_mem_info_t info = {.struct_size = sizeof(info)};
  EXPECT_EQ(weft_mem_query(pointer, &info), WEFT_SUCCESS) << weft_last_error();
  return info.references;
}

TEST(Dlpack, SaysWhatTheTensorIs) {
  char* const block = static_cast<char*>(Alloc(4096));
  const int64_t shape[] = {3, 4, 5};
  const weft_tensor_t tensor = {.struct_size = sizeof(tensor),
                                .data = block + 64,
                                .shape = shape,
                                .ndim = 3,
                                .dtype = WEFT_BFLOAT16,
                                .read_only = 1};
  DLManagedTensorVersioned* managed = nullptr;
  ASSERT_EQ(weft_mem_dlpack(&tensor, &managed), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(At<uint32_t>(managed, kMajor), 1u);
  EXPECT_EQ(At<uint32_t>(managed, kMinor), 1u);
  EXPECT_EQ(At<uint64_t>(managed, kFlags), 1u);
  EXPECT_EQ(At<void*>(managed, kData), block + 64);
  EXPECT_EQ(At<int32_t>(managed, kDeviceType), 1);
  EXPECT_EQ(At<int32_t>(managed, kDeviceId), 0);
  EXPECT_EQ(At<int32_t>(managed, kNdim), 3);
  EXPECT_EQ(At<uint64_t>(managed, kByteOffset), 0u);
  const auto* const dims = At<const int64_t*>(managed, kShape);
  const auto* const strides = At<const int64_t*>(managed, kStrides);
  EXPECT_EQ(std::vector<int64_t>(dims, dims + 3), (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(std::vector<int64_t>(strides, strides + 3), (std::vector<int64_t>{20, 5, 1}));
  Delete(managed);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
}

TEST(Dlpack, HasACodeForEveryType) {
  struct Expected {
    weft_dtype_t dtype;
    int code;
    int bits;
  };

  const Expected all[] = {
      {WEFT_INT8, 0, 8},      {WEFT_UINT8, 1, 8},        {WEFT_INT32, 0, 32},
      {WEFT_UINT32, 1, 32},   {WEFT_INT64, 0, 64},       {WEFT_UINT64, 1, 64},
      {WEFT_FLOAT16, 2, 16},  {WEFT_FLOAT32, 2, 32},     {WEFT_FLOAT64, 2, 64},
      {WEFT_BFLOAT16, 4, 16}, {WEFT_FLOAT8_E4M3, 10, 8}, {WEFT_FLOAT8_E5M2, 12, 8},
      {WEFT_BOOL, 6, 8}};
  void* const block = Alloc(64);
  for (const Expected& expected : all) {
    const weft_tensor_t tensor = {
        .struct_size = sizeof(tensor), .data = block, .dtype = expected.dtype};
    DLManagedTensorVersioned* managed = nullptr;
    ASSERT_EQ(weft_mem_dlpack(&tensor, &managed), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(At<int32_t>(managed, kNdim), 0);
    EXPECT_EQ(At<uint8_t>(managed, kCode), expected.code) << weft_dtype_name(expected.dtype);
    EXPECT_EQ(At<uint8_t>(managed, kBits), expected.bits) << weft_dtype_name(expected.dtype);
    EXPECT_EQ(At<uint16_t>(managed, kLanes), 1);
    Delete(managed);
  }
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
}

TEST(Dlpack, TheBlockLastsAsLongAsTheTensor) {
  char* const block = static_cast<char*>(Alloc(8192));
  const int64_t rest = 8192 - 100;
  weft_tensor_t tensor = {.struct_size = sizeof(tensor),
                          .data = block + 100,
                          .shape = &rest,
                          .ndim = 1,
                          .dtype = WEFT_UINT8};
  DLManagedTensorVersioned* managed = nullptr;
  ASSERT_EQ(weft_mem_dlpack(&tensor, &managed), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(References(block), 2);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  block[8191] = 7;
  EXPECT_EQ(References(block), 1);
  Delete(managed);
  EXPECT_EQ(weft_mem_free(block), WEFT_INVALID_ARGUMENT) << "it is gone";
}

// A param's view outlives its context and group.
TEST(Dlpack, WrapsParamsOfAContext) {
  const weft_group_config_t config = ConfigNamed("dlpack");
  weft_group_t group = nullptr;
  weft_mesh_t mesh = nullptr;
  weft_shard_context_t context = nullptr;
  weft_shard_unit_t unit = nullptr;
  weft_shard_param_t param = nullptr;
  const int64_t shape[] = {10, 30};
  ASSERT_EQ(weft_group_create_local(1, &config, &group), WEFT_SUCCESS) << weft_last_error();
  ASSERT_EQ(weft_mesh_create(group, nullptr, &mesh), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_context_create(mesh, nullptr, &context), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_unit_begin(context, "u", nullptr, &unit), WEFT_SUCCESS);
  ASSERT_EQ(AddParam(unit, "w", shape, 2, WEFT_FLOAT32, 0, &param), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_context_finalize(context, nullptr), WEFT_SUCCESS);
  std::vector<float> values(300, 2.5f);
  ASSERT_EQ(LoadValues(param, values.data(), 0), WEFT_SUCCESS);
  weft_shard_view_t view = {.struct_size = sizeof(view)};
  ASSERT_EQ(weft_shard_param_view(param, &view), WEFT_SUCCESS);
  const weft_tensor_t tensor = {.struct_size = sizeof(tensor),
                                .data = view.data,
                                .shape = shape,
                                .ndim = 2,
                                .dtype = view.dtype};
  DLManagedTensorVersioned* managed = nullptr;
  ASSERT_EQ(weft_mem_dlpack(&tensor, &managed), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_shard_context_destroy(context), WEFT_SUCCESS);
  EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS);
  EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  EXPECT_EQ(At<const float*>(managed, kData)[299], 2.5f);
  Delete(managed);
}

TEST(Dlpack, AnEmptyTensorHasNoBytes) {
  void* const block = Alloc(64);
  const int64_t shape[] = {INT64_MAX / 64, 0, 3};
  const weft_tensor_t tensor = {
      .struct_size = sizeof(tensor), .data = block, .shape = shape, .ndim = 3, .dtype = WEFT_UINT8};
  DLManagedTensorVersioned* managed = nullptr;
  ASSERT_EQ(weft_mem_dlpack(&tensor, &managed), WEFT_SUCCESS) << weft_last_error();
  Delete(managed);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test::dlpack_test
