#include "shard/layout/registry.h"

#include <cstdint>
#include <limits>

#include "weft/shard.h"

#include "base/status.h"
#include "comm/kernels/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::registry_test {
namespace {

using testing::HasSubstr;

absl::Status AddStatus(Registry& registry, int unit, const char* name, std::vector<int64_t> shape,
                       weft_dtype_t dtype = WEFT_FLOAT32) {
  return registry.AddParam(unit, name, shape.data(), static_cast<int>(shape.size()), dtype)
      .status();
}

void ExpectError(const absl::Status& status, weft_result_t result, const char* text) {
  EXPECT_EQ(ResultOf(status), result) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(Registry, CountsElements) {
  Registry registry;
  const int unit = *registry.BeginUnit("a");
  ASSERT_TRUE(AddStatus(registry, unit, "matrix", {3, 5}).ok());
  ASSERT_TRUE(AddStatus(registry, unit, "scalar", {}).ok());
  ASSERT_TRUE(AddStatus(registry, unit, "empty", {7, 0, 2}).ok());
  EXPECT_EQ(registry.params()[0].count, 15u);
  EXPECT_EQ(registry.params()[1].count, 1u);
  EXPECT_EQ(registry.params()[2].count, 0u);
}

TEST(Registry, DescribesWhatRanksMustAgreeOn) {
  Registry registry;
  const int unit = *registry.BeginUnit("a");
  const int64_t shape[] = {3, 5};
  ASSERT_TRUE(
      registry.AddParam(unit, "a.w", shape, 2, WEFT_BFLOAT16, WEFT_SHARD_PARAM_FROZEN).ok());
  EXPECT_THAT(registry.Entries(),
              testing::ElementsAre(RegistryEntry{"unit a", "preset NO_SHARD"},
                                   RegistryEntry{"parameter a.w", "shape [3, 5] bfloat16 frozen"}));
}

TEST(Registry, RefusesBadNames) {
  Registry registry;
  ExpectError(registry.BeginUnit("").status(), WEFT_INVALID_ARGUMENT, "empty");
  ExpectError(registry.BeginUnit("caf\xe9").status(), WEFT_INVALID_ARGUMENT,
              "the name of the unit is no UTF-8: \"caf\\xe9\"");
  const int unit = *registry.BeginUnit("a");
  ExpectError(AddStatus(registry, unit, "", {1}), WEFT_INVALID_ARGUMENT, "empty");
  ExpectError(AddStatus(registry, unit, "\xff", {1}), WEFT_INVALID_ARGUMENT, "no UTF-8");
  ASSERT_TRUE(AddStatus(registry, unit, "w", {1}).ok());
  ExpectError(AddStatus(registry, unit, "w", {1}), WEFT_INVALID_ARGUMENT, "parameter w already");
  ASSERT_TRUE(registry.SealUnit(unit).ok());
  ExpectError(registry.BeginUnit("a").status(), WEFT_INVALID_ARGUMENT, "unit a already");
  EXPECT_EQ(registry.units().size(), 1u);
  EXPECT_EQ(registry.params().size(), 1u);
}

TEST(Registry, RefusesBadShapes) {
  Registry registry;
  const int unit = *registry.BeginUnit("a");
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  ExpectError(AddStatus(registry, unit, "w", {3, -1}), WEFT_INVALID_ARGUMENT, "dimension 1 = -1");
  ExpectError(AddStatus(registry, unit, "w", {kHuge, kHuge}), WEFT_INVALID_ARGUMENT,
              "more elements");
  ExpectError(AddStatus(registry, unit, "w", {kHuge}), WEFT_INVALID_ARGUMENT, "more elements");
  const std::vector<int64_t> many(WEFT_SHARD_DIMS_MAX + 1, 1);
  ExpectError(AddStatus(registry, unit, "w", many), WEFT_INVALID_ARGUMENT, "33 dimensions");
  ExpectError(registry.AddParam(unit, "w", nullptr, -1, WEFT_FLOAT32).status(),
              WEFT_INVALID_ARGUMENT, "-1 dimensions");
  EXPECT_TRUE(AddStatus(registry, unit, "empty", {0, kHuge, kHuge}).ok());
}

TEST(Registry, RefusesMoreThanAnyMemory) {
  Registry registry;
  const int unit = *registry.BeginUnit("a");
  ASSERT_TRUE(AddStatus(registry, unit, "w", {int64_t{1} << 57}).ok());
  ExpectError(AddStatus(registry, unit, "v", {int64_t{1} << 58}), WEFT_INVALID_ARGUMENT,
              "larger than any memory");
}

TEST(Registry, RefusesTypesWithoutGradients) {
  Registry registry;
  const int unit = *registry.BeginUnit("a");
  for (const weft_dtype_t dtype : {WEFT_INT8, WEFT_UINT8, WEFT_INT32, WEFT_UINT64, WEFT_FLOAT8_E4M3,
                                   static_cast<weft_dtype_t>(15)}) {
    ExpectError(AddStatus(registry, unit, "w", {1}, dtype), WEFT_INVALID_ARGUMENT, "float16");
  }
}

TEST(Registry, TakesFrozenParamsOfAnyType) {
  Registry registry;
  const int unit = *registry.BeginUnit("a");
  const int64_t shape[] = {3};
  for (const weft_dtype_t dtype : {WEFT_INT8, WEFT_UINT64, WEFT_FLOAT8_E5M2, WEFT_BOOL}) {
    EXPECT_TRUE(
        registry.AddParam(unit, DtypeName(dtype), shape, 1, dtype, WEFT_SHARD_PARAM_FROZEN).ok());
  }
  ExpectError(
      registry.AddParam(unit, "w", shape, 1, static_cast<weft_dtype_t>(15), WEFT_SHARD_PARAM_FROZEN)
          .status(),
      WEFT_INVALID_ARGUMENT, "number 15");
}

TEST(Registry, HasOneOpenUnit) {
  Registry registry;
  const int unit = *registry.BeginUnit("a");
  ExpectError(registry.BeginUnit("b").status(), WEFT_BAD_STATE, "unit a is open");
  ASSERT_TRUE(registry.SealUnit(unit).ok());
  ExpectError(registry.SealUnit(unit), WEFT_BAD_STATE, "sealed already");
  ExpectError(AddStatus(registry, unit, "w", {1}), WEFT_BAD_STATE, "sealed");
  EXPECT_TRUE(registry.BeginUnit("b").ok()) << "the refused call left no trace";
}

}  // namespace
}  // namespace weft::registry_test
