// weft_mem_retain and weft_mem_query: blocks that outlive those who made them, and what a pointer is to weft.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "weft/weft.h"

#include "local_threads.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test::mem_retain_test {
namespace {

weft_mem_info_t Query(const void* pointer) {
  weft_mem_info_t info = {};
  info.struct_size = sizeof(info);
  EXPECT_EQ(weft_mem_query(pointer, &info), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(info.device_kind, WEFT_DEVICE_HOST);
  EXPECT_EQ(info.device, 0);
  return info;
}

TEST(MemRetain, ABlockTakesAsManyFreesAsItHasReferences) {
  void* block = nullptr;
  ASSERT_EQ(weft_mem_alloc(10'000, 0, &block), WEFT_SUCCESS) << weft_last_error();
  std::memset(block, 7, 10'000);
  void* begin = nullptr;
  EXPECT_EQ(weft_mem_retain(static_cast<char*>(block) + 5'000, &begin), WEFT_SUCCESS)
      << weft_last_error();
  EXPECT_EQ(begin, block);
  EXPECT_EQ(weft_mem_retain(block, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(Query(block).references, 3);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  EXPECT_EQ(Query(block).references, 1);
  EXPECT_EQ(static_cast<char*>(block)[9'999], 7);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  EXPECT_EQ(weft_mem_free(block), WEFT_INVALID_ARGUMENT);
}

// An operation under way keeps the block, too.
TEST(MemRetain, AWorkAndAnOwnerKeepABlockEach) {
  const weft_group_config_t config = ConfigNamed("kept");
  weft_group_t groups[2] = {};
  ASSERT_EQ(weft_group_create_local(2, &config, groups), WEFT_SUCCESS) << weft_last_error();
  void* block = nullptr;
  ASSERT_EQ(weft_mem_alloc(1 << 20, 0, &block), WEFT_SUCCESS) << weft_last_error();
  ASSERT_EQ(weft_mem_retain(block, nullptr), WEFT_SUCCESS);
  weft_work_t work = nullptr;
  EXPECT_EQ(
      weft_all_reduce(block, block, (1 << 20) / 8, WEFT_INT64, WEFT_SUM, groups[0], nullptr, &work),
      WEFT_SUCCESS);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  std::vector<int64_t> other((1 << 20) / 8, 3);
  EXPECT_EQ(weft_all_reduce(other.data(), other.data(), other.size(), WEFT_INT64, WEFT_SUM,
                            groups[1], nullptr, nullptr),
            WEFT_SUCCESS);
  EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  EXPECT_EQ(static_cast<int64_t*>(block)[100], 3);
  for (weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  EXPECT_EQ(static_cast<int64_t*>(block)[other.size() - 1], 3);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
}

TEST(MemRetain, AViewOutlivesItsContextAndGroup) {
  const weft_group_config_t config = ConfigNamed("view");
  weft_group_t group = nullptr;
  ASSERT_EQ(weft_group_create_local(1, &config, &group), WEFT_SUCCESS) << weft_last_error();
  weft_mesh_t mesh = nullptr;
  ASSERT_EQ(weft_mesh_create(group, nullptr, &mesh), WEFT_SUCCESS) << weft_last_error();
  weft_shard_context_t context = nullptr;
  ASSERT_EQ(weft_shard_context_create(mesh, nullptr, &context), WEFT_SUCCESS);
  weft_shard_unit_t unit = nullptr;
  ASSERT_EQ(weft_shard_unit_begin(context, "block", nullptr, &unit), WEFT_SUCCESS);
  weft_shard_param_t params[2] = {};
  const int64_t shape = 1'000;
  ASSERT_EQ(AddParam(unit, "a", &shape, 1, WEFT_FLOAT32, 0, &params[0]), WEFT_SUCCESS);
  ASSERT_EQ(AddParam(unit, "b", &shape, 1, WEFT_FLOAT32, 0, &params[1]), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
  weft_shard_plan_t plan = {};
  plan.struct_size = sizeof(plan);
  ASSERT_EQ(weft_shard_context_finalize(context, &plan), WEFT_SUCCESS) << weft_last_error();
  const std::vector<float> values(1'000, 2.5F);
  ASSERT_EQ(LoadValues(params[1], values.data(), 0), WEFT_SUCCESS) << weft_last_error();
  weft_shard_view_t view = {};
  view.struct_size = sizeof(view);
  ASSERT_EQ(weft_shard_param_view(params[1], &view), WEFT_SUCCESS) << weft_last_error();
  void* block = nullptr;
  ASSERT_EQ(weft_mem_retain(view.data, &block), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_shard_context_destroy(context), WEFT_SUCCESS);
  EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS);
  EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  EXPECT_EQ(std::memcmp(view.data, values.data(), values.size() * sizeof(float)), 0);
  EXPECT_EQ(Query(view.data).references, 1);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << weft_last_error();
}

TEST(MemQuery, SaysWhatAPointerIs) {
  int local = 0;
  EXPECT_EQ(Query(&local).kind, WEFT_MEM_PRIVATE);
  EXPECT_EQ(Query(&local).base, nullptr);
  EXPECT_EQ(Query(reinterpret_cast<void*>(uintptr_t{1})).kind, WEFT_MEM_PRIVATE);

  void* block = nullptr;
  ASSERT_EQ(weft_mem_alloc(5'000, 0, &block), WEFT_SUCCESS) << weft_last_error();
  for (const size_t at : {0, 4'999, 8'191}) {
    const weft_mem_info_t info = Query(static_cast<char*>(block) + at);
    EXPECT_EQ(info.kind, WEFT_MEM_SYMMETRIC);
    EXPECT_EQ(info.base, block);
    EXPECT_EQ(info.bytes, 8'192u);
    EXPECT_EQ(info.references, 1);
  }
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  EXPECT_EQ(Query(block).kind, WEFT_MEM_PRIVATE);

  void* const pages =
      mmap(nullptr, 8'192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(weft_mem_register(pages, 8'192, 0), WEFT_SUCCESS) << weft_last_error();
  const weft_mem_info_t registered = Query(static_cast<char*>(pages) + 8'000);
  EXPECT_EQ(registered.kind, WEFT_MEM_REGISTERED);
  EXPECT_EQ(registered.base, pages);
  EXPECT_EQ(registered.bytes, 8'192u);
  EXPECT_EQ(registered.references, 0);
  EXPECT_EQ(weft_mem_retain(pages, nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_mem_deregister(pages), WEFT_SUCCESS) << weft_last_error();
  munmap(pages, 8'192);
}

// On every rank, wherever the block is.
TEST(MemQuery, KnowsSharedBlocksOnAllRanks) {
  const weft_group_config_t config = ConfigNamed("shared");
  weft_group_t groups[2] = {};
  ASSERT_EQ(weft_group_create_local(2, &config, groups), WEFT_SUCCESS) << weft_last_error();
  OnThreads(2, [&](int rank) {
    void* block = nullptr;
    EXPECT_EQ(weft_mem_alloc_shared(groups[rank], 5'000, &block), WEFT_SUCCESS)
        << weft_last_error();
    const weft_mem_info_t info = Query(static_cast<char*>(block) + 10);
    EXPECT_EQ(info.kind, WEFT_MEM_SHARED);
    EXPECT_EQ(info.base, block);
    EXPECT_GE(info.bytes, 5'000u);
    EXPECT_EQ(weft_mem_retain(block, nullptr), WEFT_UNSUPPORTED);
    EXPECT_EQ(weft_mem_free_shared(groups[rank], block), WEFT_SUCCESS) << weft_last_error();
  });
  for (weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

TEST(Devices, AreRefusedBeforeAnythingIsMade) {
  weft_group_config_t config = ConfigNamed("device");
  weft_group_t group = nullptr;
  config.device_kind = WEFT_DEVICE_CUDA;
  EXPECT_EQ(weft_group_create_local(1, &config, &group), WEFT_UNSUPPORTED);
  EXPECT_NE(std::string(weft_last_error()).find("host memory"), std::string::npos);
  config.device_kind = WEFT_DEVICE_HOST;
  config.device = 1;
  EXPECT_EQ(weft_group_create_local(1, &config, &group), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(group, nullptr);
}

}  // namespace
}  // namespace weft::test::mem_retain_test
