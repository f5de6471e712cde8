// The groups that tests of batches work on: two pairs of ranks and one of a single rank, all of this process.
#pragma once

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"

namespace weft::test {

class BatchGroups : public testing::Test {
 protected:
  void SetUp() override {
    const weft_group_config_t config = ConfigNamed("batch");
    for (auto& pair : pairs_)
      ASSERT_EQ(weft_group_create_local(2, &config, pair), WEFT_SUCCESS) << weft_last_error();
    ASSERT_EQ(weft_group_create_local(1, &config, &solo_), WEFT_SUCCESS) << weft_last_error();
  }

  void TearDown() override {
    for (auto& pair : pairs_) {
      for (weft_group_t group : pair)
        EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
    }
    EXPECT_EQ(weft_group_destroy(solo_), WEFT_SUCCESS);
  }

  weft_group_t pairs_[2][2] = {};
  weft_group_t solo_ = nullptr;
};

}  // namespace weft::test
