// What a program hands to weft with its functions is given back, once, when weft does not use it any more.
#include <cstdint>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"

namespace weft::test::release_user_test {
namespace {

struct Given {
  int calls = 0;
  int given_back = 0;
};

void Add(const void* left, const void* right, void* out, size_t count, weft_dtype_t, void* user) {
  auto* const given = static_cast<Given*>(user);
  EXPECT_EQ(given->given_back, 0) << "called after it was given back";
  ++given->calls;
  for (size_t i = 0; i < count; ++i) {
    static_cast<int32_t*>(out)[i] =
        static_cast<const int32_t*>(left)[i] + static_cast<const int32_t*>(right)[i];
  }
}

void GiveBack(void* user) {
  ++static_cast<Given*>(user)->given_back;
}

weft_op_t MakeOp(Given* given) {
  const weft_user_op_config_t config = {.struct_size = sizeof(config),
                                        .function = Add,
                                        .user = given,
                                        .name = "given",
                                        .release_user = GiveBack};
  weft_op_t op = WEFT_SUM;
  EXPECT_EQ(weft_op_create_user(&config, &op), WEFT_SUCCESS) << weft_last_error();
  return op;
}

TEST(ReleaseUser, OfAReductionThatNothingUses) {
  Given given;
  const weft_op_t op = MakeOp(&given);
  EXPECT_EQ(given.given_back, 0);
  EXPECT_EQ(weft_op_destroy(op), WEFT_SUCCESS);
  EXPECT_EQ(given.given_back, 1);
}

TEST(ReleaseUser, OfAReductionThatWorksStillUse) {
  const weft_group_config_t config = ConfigNamed("release_user");
  weft_group_t groups[2] = {};
  Given given[2];
  weft_work_t works[2] = {};
  int32_t values[2] = {3, 4};
  ASSERT_EQ(weft_group_create_local(2, &config, groups), WEFT_SUCCESS) << weft_last_error();
  // Rank 0's reduction is destroyed while its work waits for rank 1.
  for (int rank = 0; rank < 2; ++rank) {
    const weft_op_t op = MakeOp(&given[rank]);
    ASSERT_EQ(weft_all_reduce(&values[rank], &values[rank], 1, WEFT_INT32, op, groups[rank],
                              nullptr, &works[rank]),
              WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(weft_op_destroy(op), WEFT_SUCCESS);
    if (rank == 0) {
      EXPECT_EQ(given[0].given_back, 0);
    }
  }
  for (weft_work_t work : works) {
    EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  }
  EXPECT_EQ(values[0], 7);
  EXPECT_EQ(values[1], 7);
  EXPECT_GT(given[0].calls + given[1].calls, 0);
  for (weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  EXPECT_EQ(given[0].given_back, 1);
  EXPECT_EQ(given[1].given_back, 1);
}

TEST(ReleaseUser, NotOfACallThatFails) {
  Given given;
  const weft_user_op_config_t config = {
      .struct_size = sizeof(config), .function = Add, .user = &given, .release_user = GiveBack};
  weft_op_t op = WEFT_SUM;
  EXPECT_EQ(weft_op_create_user(&config, &op), WEFT_INVALID_ARGUMENT) << "it has no name";
  const weft_store_callbacks_t callbacks = {
      .struct_size = sizeof(callbacks), .user = &given, .release_user = GiveBack};
  weft_store_t store = nullptr;
  EXPECT_EQ(weft_store_create_callbacks(&callbacks, &store), WEFT_INVALID_ARGUMENT)
      << "it has no functions";
  EXPECT_EQ(given.given_back, 0);
}

TEST(ReleaseUser, OfAStore) {
  Given given;
  weft_store_callbacks_t callbacks = {.struct_size = sizeof(callbacks), .user = &given};
  callbacks.set = [](void*, const char*, const void*, size_t) {
    return WEFT_SUCCESS;
  };
  callbacks.get = [](void*, const char*, void*, size_t*, int64_t) {
    return WEFT_TIMEOUT;
  };
  callbacks.add = [](void*, const char*, int64_t, int64_t*) {
    return WEFT_SUCCESS;
  };
  callbacks.release_user = GiveBack;
  weft_store_t store = nullptr;
  ASSERT_EQ(weft_store_create_callbacks(&callbacks, &store), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(given.given_back, 0);
  EXPECT_EQ(weft_store_destroy(store), WEFT_SUCCESS);
  EXPECT_EQ(given.given_back, 1);
}

}  // namespace
}  // namespace weft::test::release_user_test
