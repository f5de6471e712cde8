// weft_set_interrupt and checkpoints: waits end, and saves go on or are given up on all ranks alike.
#include <functional>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "local_threads.h"
#include "tests/bindings/checkpoint_calls.h"
#include "tests/bindings/checkpoint_model.h"
#include "tests/bindings/interrupt_check.h"

namespace weft::test::checkpoint_interrupt_test {
namespace {

class CheckpointInterrupts : public CheckpointFolder {
 protected:
  CheckpointInterrupts() {
    EXPECT_EQ(weft_group_create_local(2, nullptr, groups_), WEFT_SUCCESS) << weft_last_error();
  }

  ~CheckpointInterrupts() override {
    for (weft_group_t group : groups_)
      EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS) << weft_last_error();
  }

  weft_group_t group(int rank) const { return groups_[rank]; }

 private:
  weft_group_t groups_[2] = {};
};

// Rank 1 saves only when rank 0's waits have been ended: those of a save in the background, of the one behind it, and of a load.
TEST_F(CheckpointInterrupts, LeaveASaveInTheBackgroundAlone) {
  weft_checkpoint_t checkpoints[2] = {};
  OnThreads(2, [&](int rank) {
    checkpoints[rank] = CreateCheckpoint(group(rank), Directory());
    // The first one is collective.
    EXPECT_EQ(Save(checkpoints[rank], 1), WEFT_SUCCESS) << weft_last_error();
  });
  weft_checkpoint_t mine = checkpoints[0];
  ASSERT_EQ(Save(mine, 2, true), WEFT_SUCCESS) << weft_last_error();
  for (const auto& call :
       {std::function([&] { return weft_checkpoint_wait(mine, 0); }),
        std::function([&] { return Save(mine, 3); }), std::function([&] { return Load(mine); })}) {
    Check check{.at = 2};
    const Asking asking(&check);
    EXPECT_EQ(call(), WEFT_INTERRUPTED) << weft_last_error();
    EXPECT_TRUE(LastErrorHas("waiting for the save to end: interrupted")) << weft_last_error();
  }
  int ended = 1;
  EXPECT_EQ(weft_checkpoint_test(mine, &ended), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(Save(checkpoints[1], 2), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_checkpoint_wait(mine, 0), WEFT_SUCCESS) << weft_last_error();
  for (weft_checkpoint_t checkpoint : checkpoints)
    EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
}

TEST_F(CheckpointInterrupts, EndASaveAndRankOneIsTold) {
  OnThreads(2, [&](int rank) {
    weft_checkpoint_t checkpoint = CreateCheckpoint(group(rank), Directory());
    EXPECT_EQ(Save(checkpoint, 1), WEFT_SUCCESS) << weft_last_error();
    if (rank == 0) {
      Check check{.at = 2};
      const Asking asking(&check);
      EXPECT_EQ(Save(checkpoint, 2), WEFT_INTERRUPTED) << weft_last_error();
      EXPECT_EQ(weft_barrier(group(rank), nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
    } else {
      EXPECT_EQ(weft_barrier(group(rank), nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(Save(checkpoint, 2), WEFT_SYSTEM_ERROR);
    }
    EXPECT_TRUE(LastErrorHas("waiting for the other ranks to write: interrupted"))
        << weft_last_error();
    EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
  });
}

}  // namespace
}  // namespace weft::test::checkpoint_interrupt_test
