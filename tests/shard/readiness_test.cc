#include "shard/step/readiness.h"

#include <string>

#include "gtest/gtest.h"

namespace weft::readiness_test {
namespace {

// Three units of two params of 512 bytes; each unit is a bucket: params 4 5, 2 3, 0 1.
class ReadinessTest : public testing::Test {
 protected:
  ReadinessTest() : layout_(MakeThree()), readiness_(layout_) {}

  static Layout MakeThree() {
    Registry registry;
    const int64_t count = 128;
    for (int u = 0; u < 3; ++u) {
      const int unit = *registry.BeginUnit("u" + std::to_string(u));
      for (int p = 0; p < 2; ++p) {
        const std::string name = "p" + std::to_string(2 * u + p);
        EXPECT_TRUE(registry.AddParam(unit, name, &count, 1, WEFT_FLOAT32).ok());
      }
      EXPECT_TRUE(registry.SealUnit(unit).ok());
    }
    return MakeLayout(registry, {.bucket_bytes = 1024, .first_bucket_bytes = 1024});
  }

  void SettleAll(const std::vector<int>& params) {
    readiness_.Reset();
    for (const int param : params)
      readiness_.Settle(param);
  }

  const Layout layout_;
  Readiness readiness_;
};

TEST_F(ReadinessTest, ABucketIsCompleteWithItsLastParam) {
  readiness_.Settle(4);
  EXPECT_FALSE(readiness_.Complete(0));
  readiness_.Settle(5);
  EXPECT_TRUE(readiness_.Complete(0));
  EXPECT_FALSE(readiness_.Complete(1));
  readiness_.Reset();
  EXPECT_FALSE(readiness_.Complete(0));
}

TEST_F(ReadinessTest, ComparesTheOrderOfBucketsOnly) {
  SettleAll({5, 4, 3, 2, 1, 0});
  EXPECT_FALSE(readiness_.CompareOrder(0)) << "the first one is recorded";
  SettleAll({4, 5, 2, 3, 0, 1});
  EXPECT_FALSE(readiness_.CompareOrder(0)) << "params moved within their buckets";
  SettleAll({5, 3, 2, 4, 1, 0});
  EXPECT_TRUE(readiness_.CompareOrder(0)) << "bucket 1 came before bucket 0";
  SettleAll({5, 4, 3, 2, 1, 0});
  EXPECT_FALSE(readiness_.CompareOrder(0)) << "the recorded order stays";
}

TEST_F(ReadinessTest, RecordsAnOrderPerTag) {
  SettleAll({5, 4, 3, 2, 1, 0});
  EXPECT_FALSE(readiness_.CompareOrder(1));
  SettleAll({0, 1, 2, 3, 4, 5});
  EXPECT_FALSE(readiness_.CompareOrder(2));
  EXPECT_TRUE(readiness_.CompareOrder(1));
  EXPECT_FALSE(readiness_.CompareOrder(2));
}

TEST_F(ReadinessTest, RemembersABoundedNumberOfTags) {
  SettleAll({5, 4, 3, 2, 1, 0});
  for (uint64_t tag = 0; tag < 64; ++tag)
    EXPECT_FALSE(readiness_.CompareOrder(tag));
  EXPECT_FALSE(readiness_.CompareOrder(1000));
  SettleAll({0, 1, 2, 3, 4, 5});
  EXPECT_TRUE(readiness_.CompareOrder(63));
  EXPECT_FALSE(readiness_.CompareOrder(1000)) << "was not recorded, is not compared";
}

}  // namespace
}  // namespace weft::readiness_test
