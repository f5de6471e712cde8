// A wait with a timeout ends by then though it has not come to sleep. Run with a WEFT_SPIN_COUNT that takes far longer than
// the time between two looks at peers: so each wait is broken off while it spins, as on a machine with too much to do.
#include <cstdint>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"

namespace weft::test::timed_wait_test {
namespace {

TEST(TimedWait, GivesUpWhileItSpins) {
  // What does not give up ends with the operation's own deadline.
  const weft_group_config_t config = ConfigNamed("timed", 20'000'000'000);
  weft_group_t groups[2] = {};
  ASSERT_EQ(weft_group_create_local(2, &config, groups), WEFT_SUCCESS) << weft_last_error();
  weft_work_t work = nullptr;
  ASSERT_EQ(weft_barrier(groups[0], nullptr, &work), WEFT_SUCCESS) << weft_last_error();
  for (const int64_t timeout_ns : {int64_t{1}, int64_t{1'000'000}, int64_t{30'000'000}})
    EXPECT_EQ(weft_work_wait(work, timeout_ns), WEFT_IN_PROGRESS) << weft_last_error();
  EXPECT_EQ(weft_barrier(groups[1], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  for (weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test::timed_wait_test
