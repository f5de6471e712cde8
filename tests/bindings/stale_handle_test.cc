// Calls with handles that were destroyed: refused, and nothing that was freed is read.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "bindings/c/handle_pool.h"
#include "tests/bindings/shard_calls.h"

namespace weft::stale_handle_test {
namespace {

void ExpectStale(weft_result_t result, const char* kind) {
  EXPECT_EQ(result, WEFT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(weft_last_error()).find(std::string(kind) + " was destroyed"),
            std::string::npos)
      << weft_last_error();
}

weft_group_t MakeAlone() {
  weft_group_t group = nullptr;
  EXPECT_EQ(weft_group_create_local(1, nullptr, &group), WEFT_SUCCESS) << weft_last_error();
  return group;
}

void ExpectStaleGroup(weft_group_t group) {
  int number = 0;
  float value = 1;
  weft_mesh_t mesh = nullptr;
  weft_work_t work = nullptr;
  weft_call_t options = {};
  options.struct_size = sizeof(options);
  ExpectStale(weft_group_rank(group, &number), "group");
  ExpectStale(weft_all_reduce(&value, &value, 1, WEFT_FLOAT32, WEFT_SUM, group, nullptr, nullptr),
              "group");
  ExpectStale(weft_all_reduce(&value, &value, 1, WEFT_FLOAT32, WEFT_SUM, group, &options, nullptr),
              "group");
  ExpectStale(weft_all_reduce(&value, &value, 1, WEFT_FLOAT32, WEFT_SUM, group, nullptr, &work),
              "group");
  ExpectStale(weft_mesh_create(group, nullptr, &mesh), "group");
  ExpectStale(weft_group_destroy(group), "group");
}

TEST(StaleHandle, GroupsAreRefusedAlsoWhenOthersHaveBeenMade) {
  weft_group_t stale = MakeAlone();
  ASSERT_EQ(weft_group_destroy(stale), WEFT_SUCCESS);
  ExpectStaleGroup(stale);
  for (int i = 0; i < 10; ++i) {
    weft_group_t other = MakeAlone();
    EXPECT_NE(other, stale);
    ExpectStaleGroup(stale);
    ASSERT_EQ(weft_group_destroy(other), WEFT_SUCCESS);
  }
}

TEST(StaleHandle, GroupsOfAMeshGoWithIt) {
  weft_group_t group = MakeAlone();
  weft_mesh_t mesh = nullptr;
  weft_group_t axis = nullptr;
  ASSERT_EQ(weft_mesh_create(group, nullptr, &mesh), WEFT_SUCCESS);
  ASSERT_EQ(weft_mesh_axis_group(mesh, 0, &axis), WEFT_SUCCESS);
  const char* const name = "data";
  weft_group_t all = nullptr;
  ASSERT_EQ(weft_mesh_group(mesh, &name, 1, &all), WEFT_SUCCESS);
  EXPECT_EQ(all, axis);
  ASSERT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS);
  ExpectStaleGroup(axis);
  weft_shard_context_t context = nullptr;
  ExpectStale(weft_mesh_axis_group(mesh, 0, &axis), "mesh");
  ExpectStale(weft_mesh_group(mesh, &name, 1, &all), "mesh");
  ExpectStale(weft_shard_context_create(mesh, nullptr, &context), "mesh");
  ExpectStale(weft_mesh_destroy(mesh), "mesh");
  ASSERT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

TEST(StaleHandle, UnitsAndParamsGoWithTheirContext) {
  weft_group_t group = MakeAlone();
  weft_mesh_t mesh = nullptr;
  weft_shard_context_t context = nullptr;
  weft_shard_unit_t unit = nullptr;
  weft_shard_param_t param = nullptr;
  ASSERT_EQ(weft_mesh_create(group, nullptr, &mesh), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_context_create(mesh, nullptr, &context), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_unit_begin(context, "u", nullptr, &unit), WEFT_SUCCESS);
  ASSERT_EQ(AddParam(unit, "w", nullptr, 0, WEFT_FLOAT32, 0, &param), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_context_finalize(context, nullptr), WEFT_SUCCESS);
  ASSERT_EQ(weft_shard_context_destroy(context), WEFT_SUCCESS);

  weft_shard_view_t view = {.struct_size = sizeof(view)};
  weft_shard_param_info_t info = {.struct_size = sizeof(info)};
  float value = 1;
  ExpectStale(StepBegin(context), "context");
  ExpectStale(weft_shard_context_verify(context), "context");
  ExpectStale(weft_shard_context_destroy(context), "context");
  ExpectStale(weft_shard_pre_forward(unit, nullptr), "unit");
  ExpectStale(weft_shard_unit_seal(unit), "unit");
  ExpectStale(weft_shard_param_view(param, &view), "param");
  ExpectStale(weft_shard_param_info(param, &info), "param");
  ExpectStale(weft_shard_grad_ready(param, nullptr, nullptr), "param");
  ExpectStale(LoadValues(param, &value, 0), "param");
  ASSERT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS);
  ASSERT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

struct Counted {
  void SetLive(bool is_live) { live = is_live; }

  bool live = false;
  std::vector<int> contents;
};

TEST(HandlePool, TakesMemoryAgainOldestFirstAndOnlyAfterManyOthers) {
  auto& pool = HandlePool<Counted>::Get();
  std::vector<Counted*> handles;
  constexpr size_t kMany = 40000;
  for (size_t i = 0; i < kMany; ++i) {
    Counted* const made = pool.Make();
    ASSERT_TRUE(made->live);
    ASSERT_TRUE(made->contents.empty());
    made->contents.assign(3, 7);
    handles.push_back(made);
    pool.Retire(made);
    ASSERT_FALSE(made->live);
    ASSERT_TRUE(made->contents.empty());
  }
  const std::set<Counted*> distinct(handles.begin(), handles.end());
  EXPECT_GT(distinct.size(), size_t{1} << 14);
  EXPECT_LT(distinct.size(), (size_t{1} << 14) + 10);
  EXPECT_EQ(handles[distinct.size()], handles[0]);
}

}  // namespace
}  // namespace weft::stale_handle_test
