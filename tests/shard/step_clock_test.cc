#include "shard/step/step_clock.h"

#include "gtest/gtest.h"

namespace weft::step_clock_test {
namespace {

TEST(StepClock, HasNothingBeforeAStep) {
  StepClock clock;
  clock.Begin();
  clock.Computed(0);  // a step that is not finished
  EXPECT_EQ(clock.Take().busy_ns, 0);
  EXPECT_EQ(clock.steps(), 0);
}

TEST(StepClock, TakesTheMeanOfTheStepsSince) {
  StepClock clock;
  for (const int64_t waited : {10, 20, 60}) {
    clock.Begin();
    clock.Computed(0);
    clock.Finished(waited, 2 * waited);
  }
  const StepTimes times = clock.Take();
  EXPECT_EQ(times.gather_waited_ns, 30);
  EXPECT_EQ(times.reduce_waited_ns, 60);
  EXPECT_GE(times.busy_ns, 0);
  EXPECT_EQ(clock.Take().gather_waited_ns, 0);
  EXPECT_EQ(clock.steps(), 3);
}

TEST(StepClock, DoesNotCountWaiting) {
  StepClock clock;
  clock.Begin();
  clock.Computed(INT64_C(1'000'000'000'000));  // more than can have passed
  clock.Finished(0, 0);
  EXPECT_EQ(clock.Take().busy_ns, 0);
}

}  // namespace
}  // namespace weft::step_clock_test
