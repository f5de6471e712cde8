// op.h through libweft.so: numbers, names, lifetimes.
#include "weft/op.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/user_op.h"

namespace {

void Ignore(const void*, const void*, void*, size_t, weft_dtype_t, void*) {}

TEST(Op, HasTheNamesOfTheHeader) {
  struct Row {
    int op;
    const char* name;
  };

  const Row rows[] = {{WEFT_SUM, "sum"},         {WEFT_PROD, "prod"},
                      {WEFT_MAX, "max"},         {WEFT_MIN, "min"},
                      {WEFT_AVG, "avg"},         {WEFT_BIT_AND, "bit_and"},
                      {WEFT_BIT_OR, "bit_or"},   {WEFT_BIT_XOR, "bit_xor"},
                      {WEFT_MIN_LOC, "min_loc"}, {WEFT_MAX_LOC, "max_loc"},
                      {1022, "unknown"},         {1023, "unknown"},
                      {-1, "unknown"},           {WEFT_OP_CUSTOM_LAST, "unknown"}};
  for (const Row& row : rows)
    EXPECT_STREQ(weft_op_name(static_cast<weft_op_t>(row.op)), row.name) << row.op;
  EXPECT_STREQ(weft_dtype_name(WEFT_BOOL), "bool");
  EXPECT_EQ(weft_dtype_size(WEFT_BOOL), 1u);
}

TEST(Op, WhatIsMadeHasANameUntilItIsDestroyed) {
  const int8_t factor = -3;
  weft_op_t scaled;
  weft_op_t user;
  ASSERT_EQ(weft_op_create_premul_sum(&factor, WEFT_INT8, &scaled), WEFT_SUCCESS)
      << weft_last_error();
  ASSERT_EQ(weft::CreateUserOp(Ignore, nullptr, "mine", &user), WEFT_SUCCESS) << weft_last_error();
  EXPECT_GE(scaled, WEFT_OP_CUSTOM_FIRST);
  EXPECT_GE(user, WEFT_OP_CUSTOM_FIRST);
  EXPECT_STREQ(weft_op_name(scaled), "premul_sum");
  EXPECT_STREQ(weft_op_name(user), "user");
  EXPECT_EQ(weft_op_destroy(scaled), WEFT_SUCCESS);
  EXPECT_STREQ(weft_op_name(scaled), "unknown");
  EXPECT_STREQ(weft_op_name(user), "user");
  EXPECT_EQ(weft_op_destroy(user), WEFT_SUCCESS);
}

TEST(Op, EveryNumericTypeHasFactors) {
  const uint64_t zero = 0;
  for (int dtype = WEFT_INT8; dtype <= WEFT_FLOAT8_E5M2; ++dtype) {
    weft_op_t op;
    ASSERT_EQ(weft_op_create_premul_sum(&zero, static_cast<weft_dtype_t>(dtype), &op), WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(weft_op_destroy(op), WEFT_SUCCESS);
  }
}

TEST(Op, ANumberIsNeverUsedAgain) {
  std::set<int> numbers;
  for (int i = 0; i < 1000; ++i) {
    weft_op_t op;
    ASSERT_EQ(weft::CreateUserOp(Ignore, nullptr, "mine", &op), WEFT_SUCCESS);
    EXPECT_TRUE(numbers.insert(op).second) << op;
    ASSERT_EQ(weft_op_destroy(op), WEFT_SUCCESS);
  }
}

TEST(Op, ANameMayHave63Bytes) {
  weft_op_t op;
  EXPECT_EQ(weft::CreateUserOp(Ignore, nullptr, std::string(63, 'n').c_str(), &op), WEFT_SUCCESS);
  EXPECT_EQ(weft_op_destroy(op), WEFT_SUCCESS);
}

}  // namespace
