// Names and sizes of types and operations, and the choice of the instruction set.

#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "base/status.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"

namespace weft::names_test {
namespace {

TEST(Dtype, HasSizesAndNames) {
  struct Row {
    weft_dtype_t dtype;
    size_t bytes;
    const char* name;
  };

  const Row rows[] = {{WEFT_INT8, 1, "int8"},
                      {WEFT_UINT8, 1, "uint8"},
                      {WEFT_INT32, 4, "int32"},
                      {WEFT_UINT32, 4, "uint32"},
                      {WEFT_INT64, 8, "int64"},
                      {WEFT_UINT64, 8, "uint64"},
                      {WEFT_FLOAT16, 2, "float16"},
                      {WEFT_FLOAT32, 4, "float32"},
                      {WEFT_FLOAT64, 8, "float64"},
                      {WEFT_BFLOAT16, 2, "bfloat16"},
                      {WEFT_FLOAT8_E4M3, 1, "float8_e4m3"},
                      {WEFT_FLOAT8_E5M2, 1, "float8_e5m2"},
                      {WEFT_BOOL, 1, "bool"}};
  EXPECT_EQ(std::size(rows), std::size(kDtypes));
  for (const Row& row : rows) {
    EXPECT_TRUE(IsDtype(row.dtype)) << row.name;
    EXPECT_EQ(ElementBytes(row.dtype, WEFT_SUM), row.bytes) << row.name;
    EXPECT_EQ(ElementBytes(row.dtype, WEFT_MIN_LOC), 16u) << row.name;
    EXPECT_EQ(ElementBytes(row.dtype, WEFT_MAX_LOC), 16u) << row.name;
    EXPECT_EQ(DtypeSize(row.dtype), row.bytes) << row.name;
    EXPECT_STREQ(DtypeName(row.dtype), row.name);
  }
}

TEST(Dtype, UnknownNumbersAreAnswered) {
  for (const int number : {-1, 12, 99, 101, 1 << 20}) {
    EXPECT_FALSE(IsDtype(static_cast<weft_dtype_t>(number)));
    EXPECT_EQ(ElementBytes(static_cast<weft_dtype_t>(number), WEFT_MIN_LOC), 0u);
    EXPECT_EQ(DtypeSize(static_cast<weft_dtype_t>(number)), 0u);
    EXPECT_STREQ(DtypeName(static_cast<weft_dtype_t>(number)), "unknown");
  }
  for (const int number : {-1, 5, 99, 105, 1021, 1024, 1 << 20}) {
    EXPECT_FALSE(IsReductionOp(static_cast<weft_op_t>(number)));
    EXPECT_STREQ(OpName(static_cast<weft_op_t>(number)), "unknown");
  }
}

TEST(Op, HasNames) {
  for (const weft_op_t op : kReductionOps)
    EXPECT_TRUE(IsReductionOp(op)) << OpName(op);
  EXPECT_TRUE(IsReductionOp(kOpPremulSum) && IsReductionOp(kOpUser));
  EXPECT_STREQ(OpName(WEFT_BIT_AND), "bit_and");
  EXPECT_STREQ(OpName(WEFT_BIT_OR), "bit_or");
  EXPECT_STREQ(OpName(WEFT_BIT_XOR), "bit_xor");
  EXPECT_STREQ(OpName(WEFT_MIN_LOC), "min_loc");
  EXPECT_STREQ(OpName(WEFT_MAX_LOC), "max_loc");
  EXPECT_STREQ(OpName(kOpPremulSum), "premul_sum");
  EXPECT_STREQ(OpName(kOpUser), "user");
  EXPECT_STREQ(OpName(WEFT_SUM), "sum");
  EXPECT_STREQ(OpName(WEFT_PROD), "prod");
  EXPECT_STREQ(OpName(WEFT_MAX), "max");
  EXPECT_STREQ(OpName(WEFT_MIN), "min");
  EXPECT_STREQ(OpName(WEFT_AVG), "avg");
}

TEST(ParseIsa, EmptyAsksForTheBest) {
  for (const Isa best : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    EXPECT_EQ(ParseIsa("", best).value(), best);
  }
}

TEST(ParseIsa, TakesWhatTheCpuHas) {
  EXPECT_EQ(ParseIsa("scalar", Isa::kAvx512).value(), Isa::kScalar);
  EXPECT_EQ(ParseIsa("avx2", Isa::kAvx512).value(), Isa::kAvx2);
  EXPECT_EQ(ParseIsa("avx512", Isa::kAvx512).value(), Isa::kAvx512);
}

TEST(ParseIsa, RefusesWhatTheCpuLacks) {
  const absl::Status status = ParseIsa("avx512", Isa::kAvx2).status();
  EXPECT_EQ(ResultOf(status), WEFT_UNSUPPORTED);
  EXPECT_NE(std::string(status.message()).find("set it to avx2"), std::string::npos) << status;
}

TEST(ParseIsa, RefusesUnknownNames) {
  for (const char* name : {"sse", "AVX2", "avx512 ", "1"}) {
    const absl::Status status = ParseIsa(name, Isa::kAvx512).status();
    EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT) << name;
    EXPECT_NE(std::string(status.message()).find(name), std::string::npos) << status;
  }
}

TEST(SelectIsa, IsOneOfThisCpu) {
  const absl::StatusOr<Isa> isa = SelectIsa();
  ASSERT_TRUE(isa.ok()) << isa.status();
  EXPECT_LE(*isa, BestIsa());
}

}  // namespace
}  // namespace weft::names_test
