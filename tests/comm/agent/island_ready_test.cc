// Who of an island waits for a new membership, and what is answered, in memory of this process.
#include "comm/agent/island_ready.h"

#include <cstddef>

#include <gtest/gtest.h>

namespace weft::island_ready_test {
namespace {

class Ready : public ::testing::Test {
 protected:
  alignas(64) std::byte block_[192] = {};
  IslandReady asks_{block_, 3, 1};
  IslandReady speaks_{block_, 3, 0};
};

TEST_F(Ready, AWishIsSeenUntilItIsWithdrawn) {
  ASSERT_LE(IslandReady::BytesFor(3), sizeof(block_));
  EXPECT_FALSE(speaks_.WishOf(1).has_value());
  const uint32_t attempt = asks_.Ask(7, 12'345);
  const auto wish = speaks_.WishOf(1);
  ASSERT_TRUE(wish.has_value());
  EXPECT_EQ(wish->attempt, attempt);
  EXPECT_EQ(wish->epoch, 7u);
  EXPECT_EQ(wish->deadline_ns, 12'345);
  EXPECT_FALSE(speaks_.WishOf(2).has_value());
  asks_.Withdraw();
  EXPECT_FALSE(speaks_.WishOf(1).has_value());
}

TEST_F(Ready, AnAnswerIsToOneAttempt) {
  const uint32_t first = asks_.Ask(1, 100);
  EXPECT_FALSE(asks_.AnswerTo(first).has_value());
  speaks_.Say(1, first, {.result = WEFT_TIMEOUT, .world_rank = 4});
  const auto answer = asks_.AnswerTo(first);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->result, WEFT_TIMEOUT);
  EXPECT_EQ(answer->world_rank, 4);
  const uint32_t second = asks_.Ask(1, 200);
  EXPECT_FALSE(asks_.AnswerTo(second).has_value());
  speaks_.Say(1, second, {.result = WEFT_NO_QUORUM});
  ASSERT_TRUE(asks_.AnswerTo(second).has_value());
  EXPECT_EQ(asks_.AnswerTo(second)->world_rank, -1);
}

}  // namespace
}  // namespace weft::island_ready_test
