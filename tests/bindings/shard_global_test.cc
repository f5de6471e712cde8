// Params that are intervals of tensors of the whole model: what several of one context may be, and what is said if they may not.
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/bindings/local_threads.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test::shard_global_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Shape = std::vector<int64_t>;

weft_result_t SetGlobal(weft_shard_param_t param, const char* name, const Shape& shape,
                        size_t offset) {
  const weft_shard_global_t global = {sizeof(global), name, shape.data(),
                                      static_cast<int>(shape.size()), offset};
  return weft_shard_param_global(param, &global);
}

// A unit of two params of 4 x 3, and a unit that shares the first one, on one rank that does not exist.
class ShardGlobal : public testing::Test {
 protected:
  void SetUp() override {
    weft_mesh_config_t axes = {};
    axes.struct_size = sizeof(axes);
    axes.axis_count = 1;
    axes.axis_names[0] = "data";
    axes.axis_sizes[0] = 2;
    ASSERT_EQ(weft_mesh_create_dry(&axes, 0, &mesh_), WEFT_SUCCESS) << weft_last_error();
    ASSERT_EQ(weft_shard_context_create(mesh_, nullptr, &context_), WEFT_SUCCESS);
    weft_shard_unit_t unit = nullptr;
    ASSERT_EQ(weft_shard_unit_begin(context_, "block", nullptr, &unit), WEFT_SUCCESS);
    const int64_t shape[] = {4, 3};
    ASSERT_EQ(AddParam(unit, "a", shape, 2, WEFT_FLOAT32, 0, &a_), WEFT_SUCCESS);
    ASSERT_EQ(AddParam(unit, "b", shape, 2, WEFT_FLOAT32, 0, &b_), WEFT_SUCCESS);
    ASSERT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
    ASSERT_EQ(weft_shard_unit_begin(context_, "head", nullptr, &unit), WEFT_SUCCESS);
    ASSERT_EQ(weft_shard_unit_tie_param(unit, "tied", a_, &tied_), WEFT_SUCCESS);
    ASSERT_EQ(weft_shard_unit_seal(unit), WEFT_SUCCESS);
  }

  void TearDown() override {
    EXPECT_EQ(weft_shard_context_destroy(context_), WEFT_SUCCESS);
    EXPECT_EQ(weft_mesh_destroy(mesh_), WEFT_SUCCESS);
  }

  weft_result_t Plan() const {
    weft_shard_plan_t plan = {};
    plan.struct_size = sizeof(plan);
    return weft_shard_context_plan(context_, &plan);
  }

  weft_mesh_t mesh_ = nullptr;
  weft_shard_context_t context_ = nullptr;
  weft_shard_param_t a_ = nullptr;
  weft_shard_param_t b_ = nullptr;
  weft_shard_param_t tied_ = nullptr;
};

TEST_F(ShardGlobal, TakesIntervalsOfOneTensorThatLieSideBySideOrApart) {
  EXPECT_EQ(Plan(), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(SetGlobal(a_, "w", {100, 3}, 6), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(SetGlobal(b_, "w", {100, 3}, 18), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(Plan(), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(SetGlobal(b_, "w", {100, 3}, 288), WEFT_SUCCESS) << "the last elements";
  EXPECT_EQ(Plan(), WEFT_SUCCESS) << weft_last_error();
}

TEST_F(ShardGlobal, RefusesIntervalsThatOverlap) {
  for (const size_t offset : {size_t{0}, size_t{6}, size_t{17}}) {
    EXPECT_EQ(SetGlobal(a_, "w", {100, 3}, 6), WEFT_SUCCESS);
    EXPECT_EQ(SetGlobal(b_, "w", {100, 3}, offset), WEFT_SUCCESS);
    EXPECT_EQ(Plan(), WEFT_INVALID_ARGUMENT) << offset;
    EXPECT_THAT(weft_last_error(),
                AllOf(HasSubstr("context_plan: of global tensor w, "),
                      HasSubstr("parameter a is elements 6 to 17"), HasSubstr("parameter b is")));
  }
  EXPECT_EQ(SetGlobal(b_, "v", {100, 3}, 6), WEFT_SUCCESS) << "the last call counts";
  EXPECT_EQ(Plan(), WEFT_SUCCESS) << weft_last_error();
}

// Without a call, a param is the whole of a tensor of its own name.
TEST_F(ShardGlobal, RefusesTheNameOfAnotherParamsTensor) {
  EXPECT_EQ(SetGlobal(b_, "a", {4, 3}, 0), WEFT_SUCCESS);
  EXPECT_EQ(Plan(), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(weft_last_error(),
              HasSubstr("parameter a is elements 0 to 11 and parameter b is elements 0 to 11"));
  EXPECT_EQ(SetGlobal(b_, "a", {8, 3}, 12), WEFT_SUCCESS);
  EXPECT_EQ(Plan(), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(weft_last_error(), HasSubstr("global tensor a has shape [4, 3] for parameter a and "
                                           "[8, 3] for parameter b"));
  EXPECT_EQ(SetGlobal(a_, "b", {4, 3}, 0), WEFT_SUCCESS) << "they change places";
  EXPECT_EQ(SetGlobal(b_, "a", {4, 3}, 0), WEFT_SUCCESS);
  EXPECT_EQ(Plan(), WEFT_SUCCESS) << weft_last_error();
}

TEST_F(ShardGlobal, SpeaksOfTheParamThatATiedOneIs) {
  EXPECT_EQ(SetGlobal(tied_, "w", {8, 3}, 12), WEFT_SUCCESS);
  EXPECT_EQ(SetGlobal(b_, "w", {8, 3}, 12), WEFT_SUCCESS);
  EXPECT_EQ(Plan(), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(weft_last_error(), HasSubstr("parameter a is elements 12 to 23"));
  EXPECT_EQ(SetGlobal(b_, "w", {8, 3}, 0), WEFT_SUCCESS);
  EXPECT_EQ(Plan(), WEFT_SUCCESS) << weft_last_error();
}

TEST_F(ShardGlobal, IsAsItWasAfterAnError) {
  EXPECT_EQ(SetGlobal(a_, "w", {8, 3}, 0), WEFT_SUCCESS);
  EXPECT_EQ(SetGlobal(a_, "v", {8, 3}, 13), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(weft_last_error(), HasSubstr("parameter a has 12 elements and would begin at element "
                                           "13 of global tensor v, which has 24;"));
  EXPECT_EQ(SetGlobal(b_, "w", {8, 3}, 11), WEFT_SUCCESS);
  EXPECT_EQ(Plan(), WEFT_INVALID_ARGUMENT) << "a is still of w";
}

}  // namespace
}  // namespace weft::test::shard_global_test
